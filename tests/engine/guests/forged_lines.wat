;; Logs what would forge a line, clear a screen and reverse a text; then a long line.
(import "aedile:maintenance/logging@0.1.0" "log" (func $log (param i32 i32 i32)))
(memory (export "memory") 4)
(data (i32.const 0) "ok\0d\0aERROR forged \1b[2J \e2\80\ae\00")
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (call $log (i32.const 1) (i32.const 0) (i32.const 26))
    (memory.fill (i32.const 65536) (i32.const 0x78) (i32.const 10000))
    (call $log (i32.const 1) (i32.const 65536) (i32.const 10000))
    (i32.const 1024))
