;; grants: commands.expire-reservations
;; Proposes one command, then logs that it was answered.
(import "aedile:maintenance/commands@0.1.0" "expire-reservations" (func $expire (param i32)))
(import "aedile:maintenance/logging@0.1.0" "log" (func $log (param i32 i32 i32)))
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (call $expire (i32.const 2048))
    (call $log (i32.const 1) (i32.const 0) (i32.const 0))
    (i32.const 1024))
