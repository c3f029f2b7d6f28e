;; Takes memory in turns from two memories, each within the limit.
(memory (export "memory") 4)
(memory $other 1)
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (loop $again
        (drop (memory.grow 0 (i32.const 8)))
        (drop (memory.grow $other (i32.const 8)))
        (br_if $again (i32.lt_u (memory.size 0) (i32.const 200))))
    (unreachable))
