;; grants: storage.delete
;; Deletes twenty thousand ids in one call and reports whether it was refused.
(import "aedile:maintenance/storage@0.1.0" "delete" (func $delete (param i32 i32 i32)))
(memory (export "memory") 8)
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (call $delete (i32.const 65536) (i32.const 20000) (i32.const 2048))
    (i64.store (i32.const 1048) (i64.load8_u (i32.const 2048)))
    (i32.const 1024))
