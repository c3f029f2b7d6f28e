;; Shares memory between threads.
(memory (export "memory") 4 8 shared)
