;; Traps.
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32) (unreachable))
