;; grants: commands.expire-reservations
;; Waits for the host again and again: it uses no CPU to speak of.
(import "aedile:maintenance/commands@0.1.0" "expire-reservations" (func $expire (param i32)))
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (loop $again (call $expire (i32.const 2048)) (br $again)) (unreachable))
