;; grants: state
;; Asks the host for something in memory, for ever.
(import "aedile:maintenance/state@0.1.0" "lapsed-count" (func $lapsed (param i32) (result i32)))
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (loop $again (drop (call $lapsed (i32.const 1))) (br $again)) (unreachable))
