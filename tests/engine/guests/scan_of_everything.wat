;; grants: state
;; Asks for every entry at once and reports how many it was given.
(import "aedile:maintenance/state@0.1.0" "kv-scan"
    (func $scan (param i32 i32 i32 i32 i32 i32 i32)))
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (call $scan (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
        (i32.const -1) (i32.const 2048))
    (i64.store (i32.const 1040) (i64.load32_u (i32.const 2052)))
    (i32.const 1024))
