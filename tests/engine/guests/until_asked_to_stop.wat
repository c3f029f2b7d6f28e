;; Works until it is asked to stop.
(import "aedile:maintenance/job@0.1.0" "should-stop" (func $stop (result i32)))
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (loop $again (br_if $again (i32.eqz (call $stop)))) (i32.const 1024))
