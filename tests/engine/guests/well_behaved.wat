;; grants: metrics
;; Logs a line, sets figures and reports.
(import "aedile:maintenance/logging@0.1.0" "log" (func $log (param i32 i32 i32)))
(import "aedile:maintenance/metrics@0.1.0" "count" (func $count (param i32 i32 i64)))
(import "aedile:maintenance/metrics@0.1.0" "gauge" (func $gauge (param i32 i32 f64)))
(memory (export "memory") 4)
(data (i32.const 0) "all is well")
(data (i32.const 32) "ticks")
(data (i32.const 48) "level")
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (call $log (i32.const 1) (i32.const 0) (i32.const 11))
    (call $count (i32.const 32) (i32.const 5) (i64.const 2))
    (call $count (i32.const 32) (i32.const 5) (i64.const 3))
    (call $gauge (i32.const 48) (i32.const 5) (f64.const 0.5))
    ;; ok(report): summary, done, failed, more
    (i32.store (i32.const 1032) (i32.const 0))
    (i32.store (i32.const 1036) (i32.const 11))
    (i64.store (i32.const 1040) (i64.const 5))
    (i32.const 1024))
