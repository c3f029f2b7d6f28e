;; Uses types that are garbage collected.
(type $pair (struct (field i32) (field i32)))
(func (export "pair") (result (ref $pair)) (struct.new $pair (i32.const 1) (i32.const 2)))
