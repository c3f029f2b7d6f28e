;; Rejects its tick with a reason of two mebibytes.
(memory (export "memory") 64)
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    ;; An error, of the case `reject`.
    (i32.store (i32.const 1024) (i32.const 1))
    (i32.store (i32.const 1032) (i32.const 1))
    (i32.store (i32.const 1040) (i32.const 4096))
    (i32.store (i32.const 1044) (i32.const 2097152))
    (i32.const 1024))
