;; grants: commands.delete-kv
;; Imports what can be refused.
(import "aedile:maintenance/commands@0.1.0" "delete-kv" (func (param i32 i32 i32)))
