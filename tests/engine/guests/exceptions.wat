;; Throws exceptions.
(tag $broken)
(func (throw $broken))
