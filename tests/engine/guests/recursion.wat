;; Calls itself without end.
(func $deeper (param i64) (result i64)
    (i64.add (i64.const 1) (call $deeper (i64.add (local.get 0) (i64.const 1)))))
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32) (drop (call $deeper (i64.const 0))) (unreachable))
