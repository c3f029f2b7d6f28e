;; Refuses every configuration, with a text of two lines.
(memory (export "memory") 4)
(data (i32.const 0) "no\0away")
(func (export "aedile:maintenance/maintenance@0.1.0#validate-config") (param i32 i32) (result i32)
    (i32.store8 (i32.const 1024) (i32.const 1))
    (i32.store (i32.const 1028) (i32.const 0))
    (i32.store (i32.const 1032) (i32.const 6))
    (i32.const 1024))
