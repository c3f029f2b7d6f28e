;; Twelve functions.
(func) (func) (func) (func) (func) (func) (func) (func) (func) (func) (func) (func)
