;; Imports what its own manifest does not ask for.
(import "aedile:maintenance/commands@0.1.0" "delete-kv" (func (param i32 i32 i32)))
