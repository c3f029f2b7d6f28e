;; Asks for its configuration.
(import "aedile:maintenance/job@0.1.0" "config" (func $config (param i32)))
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (call $config (i32.const 2048)) (i32.const 1024))
