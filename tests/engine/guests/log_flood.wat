;; Logs ten thousand lines.
(import "aedile:maintenance/logging@0.1.0" "log" (func $log (param i32 i32 i32)))
(memory (export "memory") 4)
(data (i32.const 0) "a line of thirty-two characters.")
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32) (local $left i32)
    (local.set $left (i32.const 10000))
    (loop $again
        (call $log (i32.const 1) (i32.const 0) (i32.const 32))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br_if $again (local.get $left)))
    (i32.const 1024))
