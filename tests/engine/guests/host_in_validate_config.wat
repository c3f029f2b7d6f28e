;; grants: state
;; Asks the host when it checks a configuration.
(import "aedile:maintenance/state@0.1.0" "lapsed-count" (func $lapsed (param i32) (result i32)))
(func (export "aedile:maintenance/maintenance@0.1.0#validate-config") (param i32 i32) (result i32)
    (drop (call $lapsed (i32.const 1))) (i32.const 1024))
