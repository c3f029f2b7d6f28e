;; Calls itself without end, with a stack in memory as compilers make it.
(global $stack (mut i32) (i32.const 65536))
(func $deeper
    (global.set $stack (i32.sub (global.get $stack) (i32.const 4096)))
    (i32.store (global.get $stack) (i32.const 1))
    (call $deeper))
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32) (call $deeper) (unreachable))
