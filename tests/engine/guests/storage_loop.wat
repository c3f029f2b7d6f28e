;; grants: storage.head
;; Asks the store, for ever.
(import "aedile:maintenance/storage@0.1.0" "head" (func $head (param i64 i32)))
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (loop $again (call $head (i64.const 1) (i32.const 2048)) (br $again)) (unreachable))
