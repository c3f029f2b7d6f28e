;; Traps while it is instantiated.
(func $start (unreachable))
(start $start)
