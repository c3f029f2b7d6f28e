;; Logs bytes that are no text.
(import "aedile:maintenance/logging@0.1.0" "log" (func $log (param i32 i32 i32)))
(memory (export "memory") 4)
(data (i32.const 0) "\ff\fe")
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (call $log (i32.const 1) (i32.const 0) (i32.const 2)) (i32.const 1024))
