;; Meets the maximum that its own memory declares, which is no limit of ours.
(memory (export "memory") 4 5)
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (if (i32.ne (i32.const -1) (memory.grow (i32.const 2))) (then (unreachable)))
    (i32.const 1024))
