;; wit: export maintenance; => export maintenance; export extra;
;; wit: interface job { => interface extra { resource thing; } interface job {
;; Makes handles of a resource of its own and drops none.
(import "[export]aedile:maintenance/extra@0.1.0" "[resource-new]thing"
    (func $new (param i32) (result i32)))
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (loop $again (drop (call $new (i32.const 7))) (br $again)) (unreachable))
