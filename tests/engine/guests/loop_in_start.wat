;; Never ends while it is instantiated.
(func $start (loop $again (br $again)))
(start $start)
