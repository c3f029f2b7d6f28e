;; Blocks within blocks: 24 of them, a flow of 300.
(func
    block block block block block block block block block block block block block block block block block block block block block block block block
    end end end end end end end end end end end end end end end end end end end end end end end end )
