;; Wants a table of many elements at its start.
(table 4000000 funcref)
