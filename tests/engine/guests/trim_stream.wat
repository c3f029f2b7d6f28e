;; grants: commands.trim-stream
;; Imports what is destructive.
(import "aedile:maintenance/commands@0.1.0" "trim-stream" (func (param i32 i32 i32)))
