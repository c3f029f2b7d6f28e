;; Asks to be called again in five seconds.
(memory (export "memory") 4)
(data (i32.const 0) "not\0anow")
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (i32.store8 (i32.const 1024) (i32.const 1))
    (i64.store (i32.const 1040) (i64.const 5000))
    (i32.store (i32.const 1048) (i32.const 0))
    (i32.store (i32.const 1052) (i32.const 7))
    (i32.const 1024))
