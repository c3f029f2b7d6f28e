;; A component of another world: it exports something else.
(component
    (core module $m (func (export "f")))
    (core instance $i (instantiate $m))
    (func $f (canon lift (core func $i "f")))
    (export "run" (func $f)))
