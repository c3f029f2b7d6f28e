;; Built against WIT files in which a function has another type.
;; grants: state
;; wit: lapsed-count: func(limit: u32) -> u32; => lapsed-count: func(limit: u32) -> u64;
(import "aedile:maintenance/state@0.1.0" "lapsed-count" (func (param i32) (result i64)))
