;; grants: state
;; Reads the key `big`.
(import "aedile:maintenance/state@0.1.0" "kv-get" (func $get (param i32 i32 i32)))
(memory (export "memory") 4)
(data (i32.const 0) "big")
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (call $get (i32.const 0) (i32.const 3) (i32.const 2048)) (i32.const 1024))
