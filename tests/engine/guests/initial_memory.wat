;; Wants more memory at its start than there is.
(memory (export "memory") 2000)
