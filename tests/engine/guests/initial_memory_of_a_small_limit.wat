;; Wants 8 MiB at its start, which the engine allows and a plugin's own limit may not.
(memory (export "memory") 128)
