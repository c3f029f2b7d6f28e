;; Calls a function that this host does not have.
;; wit: seed: func() -> u64; => seed: func() -> u64; @since(version = 0.1.0) frobnicate: func();
(import "aedile:maintenance/job@0.1.0" "frobnicate" (func))
