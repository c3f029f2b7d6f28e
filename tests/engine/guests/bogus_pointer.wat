;; grants: storage.delete
;; Passes a list that lies outside of its memory.
(import "aedile:maintenance/storage@0.1.0" "delete" (func $delete (param i32 i32 i32)))
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (call $delete (i32.const 0x7ffffff8) (i32.const 1000) (i32.const 2048)) (i32.const 1024))
