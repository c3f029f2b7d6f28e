;; grants: state
;; Traps as long as something has lapsed.
(import "aedile:maintenance/state@0.1.0" "lapsed-count" (func $lapsed (param i32) (result i32)))
(global $before (mut i32) (i32.const 0))
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    ;; Whatever the tick before left behind would be seen here.
    (if (global.get $before) (then (unreachable)))
    (global.set $before (i32.const 1))
    (if (call $lapsed (i32.const 1)) (then (unreachable)))
    (i32.const 1024))
