;; Components that instantiate one another twice on each level: the number of
;; instances doubles with each.
(component
    (component $a (core module $m) (core instance (instantiate $m)))
    (component $b
        (alias outer 1 $a (component $a))
        (instance (instantiate $a)) (instance (instantiate $a)) (instance (instantiate $a))
        (instance (instantiate $a)) (instance (instantiate $a)) (instance (instantiate $a)))
    (component $c
        (alias outer 1 $b (component $b))
        (instance (instantiate $b)) (instance (instantiate $b)) (instance (instantiate $b))
        (instance (instantiate $b)) (instance (instantiate $b)) (instance (instantiate $b)))
    (instance (instantiate $c)) (instance (instantiate $c)) (instance (instantiate $c))
    (instance (instantiate $c)) (instance (instantiate $c)) (instance (instantiate $c)))
