;; Logs an error, as a panic does, and traps.
(import "aedile:maintenance/logging@0.1.0" "log" (func $log (param i32 i32 i32)))
(memory (export "memory") 4)
(data (i32.const 0) "panicked at lib.rs:7: boom\0aFORGED")
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (call $log (i32.const 3) (i32.const 0) (i32.const 33)) (unreachable))
