;; Built for a later, incompatible version.
;; exports: its own
;; wit: 0.1.0 => 0.2.0
(import "aedile:maintenance/job@0.2.0" "seed" (func (result i64)))
(func (export "aedile:maintenance/maintenance@0.2.0#tick") (result i32) (i32.const 1024))
(func (export "aedile:maintenance/maintenance@0.2.0#validate-config") (param i32 i32) (result i32)
    (i32.const 1024))
