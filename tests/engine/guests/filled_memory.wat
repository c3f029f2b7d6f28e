;; Takes memory and writes all of it, until it is given no more.
(memory (export "memory") 4)
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32) (local $at i32)
    (loop $again
        (local.set $at (i32.mul (memory.size) (i32.const 65536)))
        (drop (memory.grow (i32.const 16)))
        (memory.fill (local.get $at) (i32.const 1) (i32.const 1048576))
        (br $again))
    (unreachable))
