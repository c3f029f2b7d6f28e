;; Ten loops, one after the other: a flow of 370.
(func
    (loop (br_if 0 (i32.const 0)))
    (loop (br_if 0 (i32.const 0)))
    (loop (br_if 0 (i32.const 0)))
    (loop (br_if 0 (i32.const 0)))
    (loop (br_if 0 (i32.const 0)))
    (loop (br_if 0 (i32.const 0)))
    (loop (br_if 0 (i32.const 0)))
    (loop (br_if 0 (i32.const 0)))
    (loop (br_if 0 (i32.const 0)))
    (loop (br_if 0 (i32.const 0))))
