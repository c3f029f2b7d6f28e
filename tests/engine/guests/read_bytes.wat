;; grants: storage.read
;; Reads a hundred bytes of an object, then more than a call may carry. Reports
;; how many it was given, and whether the second was refused.
(import "aedile:maintenance/storage@0.1.0" "read" (func $read (param i64 i64 i32 i32)))
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (call $read (i64.const 1) (i64.const 0) (i32.const 100) (i32.const 2048))
    (i64.store (i32.const 1040) (i64.load32_u (i32.const 2060)))
    (call $read (i64.const 1) (i64.const 0) (i32.const -1) (i32.const 2048))
    (i64.store (i32.const 1048) (i64.load8_u (i32.const 2048)))
    (i32.const 1024))
