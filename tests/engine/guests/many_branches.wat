;; Branches that each carry sixty local variables: a flow of 305.
(func (local i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 )
    (block
        (br_if 0 (i32.const 0))
        (br_if 0 (i32.const 0))
        (br_if 0 (i32.const 0))
        (br_if 0 (i32.const 0))))
