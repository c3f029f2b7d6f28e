;; grants: commands.delete-kv
;; Passes a thousand keys that are all the same mebibyte.
(import "aedile:maintenance/commands@0.1.0" "delete-kv" (func $delete (param i32 i32 i32)))
(memory (export "memory") 64)
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32) (local $at i32)
    (local.set $at (i32.const 65536))
    (loop $again
        (i32.store (local.get $at) (i32.const 1048576))
        (i32.store offset=4 (local.get $at) (i32.const 1048576))
        (local.set $at (i32.add (local.get $at) (i32.const 8)))
        (br_if $again (i32.lt_u (local.get $at) (i32.const 73536))))
    (call $delete (i32.const 65536) (i32.const 1000) (i32.const 2048))
    (i32.const 1024))
