;; A loop of many parameters: each branch back passes them all with two bytes.
(type $wide (func (param i32 i32 i32 i32 i32)))
(func (param i32)
    (i32.const 1) (i32.const 2) (i32.const 3) (i32.const 4) (i32.const 5)
    (loop (type $wide)
        (drop) (drop) (drop) (drop) (drop)))
