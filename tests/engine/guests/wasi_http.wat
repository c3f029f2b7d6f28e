;; A component of another world: it wants the network.
(component
    (import "wasi:http/types@0.2.0" (instance (export "x" (func)))))
