;; grants: state
;; Gives the host memory that it does not have.
(import "aedile:maintenance/state@0.1.0" "object-ids" (func $ids (param i32 i64 i32 i32)))
(func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 0x7ffffff8))
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (call $ids (i32.const 0) (i64.const 0) (i32.const 10) (i32.const 2048)) (i32.const 1024))
