;; Built for a later, compatible version, and calls nothing new.
;; exports: its own
;; wit: package aedile:maintenance@0.1.0 => package aedile:maintenance@0.1.7
(import "aedile:maintenance/job@0.1.7" "seed" (func (result i64)))
(func (export "aedile:maintenance/maintenance@0.1.7#tick") (result i32) (i32.const 1024))
(func (export "aedile:maintenance/maintenance@0.1.7#validate-config") (param i32 i32) (result i32)
    (i32.const 1024))
