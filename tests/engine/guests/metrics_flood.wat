;; grants: metrics
;; Counts under two hundred names, then under one that is no name.
(import "aedile:maintenance/metrics@0.1.0" "count" (func $count (param i32 i32 i64)))
(memory (export "memory") 4)
(data (i32.const 0) "x_")
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32) (local $name i32)
    (loop $again
        (i32.store8 (i32.const 2) (i32.add (i32.const 0x61) (i32.div_u (local.get $name) (i32.const 20))))
        (i32.store8 (i32.const 3) (i32.add (i32.const 0x61) (i32.rem_u (local.get $name) (i32.const 20))))
        (call $count (i32.const 0) (i32.const 4) (i64.const 1))
        (local.set $name (i32.add (local.get $name) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $name) (i32.const 200))))
    (call $count (i32.const 0) (i32.const 0) (i64.const 1))
    (i32.const 1024))
