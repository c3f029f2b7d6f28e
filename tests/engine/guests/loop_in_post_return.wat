;; Never ends after it has returned.
(func (export "cabi_post_aedile:maintenance/maintenance@0.1.0#tick") (param i32) (loop $again (br $again)))
