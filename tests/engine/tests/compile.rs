//! Modules made to be compiled for ever, as large as the engine lets them be:
//! each is refused, or costs a bounded time and bounded memory.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use aedile_engine::{Engine, EngineOptions, Grants, LoadError};
use aedile_tests_engine::{Peak, module};

/// What compiling one module may take, in bytes, beside the module itself.
const MEMORY: usize = 1 << 30;

/// Beyond this, in bytes, what is looked at here grows as the module does, and
/// the time is that of reading its text.
const ENOUGH: usize = 1 << 20;

/// A module's fields, larger with the number.
type Case = (&'static str, fn(usize) -> String);

const CASES: [Case; 10] = [
    ("table of branches, few locals", |n| table_of_branches(n, 8)),
    ("table of branches, many locals", |n| {
        table_of_branches(n, 2_000)
    }),
    ("calls through a table, few locals", |n| {
        calls_through_a_table(n, 8)
    }),
    ("calls through a table, many locals", |n| {
        calls_through_a_table(n, 2_000)
    }),
    ("straight code", |n| straight(n / 64, 2_000)),
    ("small functions", small),
    ("deep blocks", |n| blocks(n, 8)),
    ("deep blocks, many locals", |n| blocks(n, 2_000)),
    ("loops", |n| loops(n, 8)),
    ("wide calls", calls),
];

/// The largest of doubling size that the engine lets pass, and its size.
fn largest(engine: &Engine, case: Case) -> (usize, Vec<u8>) {
    let (name, fields) = case;
    let mut last = None;
    let mut size = 64;
    loop {
        let bytes = module("slow", &fields(size));
        match engine.inspect(&bytes) {
            Ok(_) if bytes.len() > ENOUGH => return (size, bytes),
            Ok(_) => last = Some((size, bytes)),
            Err(LoadError::TooComplex { .. } | LoadError::TooLarge { .. }) => break,
            Err(error) => panic!("{name}, {size}: {error}"),
        }
        size *= 2;
    }
    last.unwrap_or_else(|| panic!("{name}: even the smallest is refused"))
}

/// One after the other, since it measures the memory of this process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_made_to_compile_for_ever_costs_a_bounded_time_and_memory() {
    let clock: SharedClock = Arc::new(SystemClock);
    let options = EngineOptions {
        // The bounds are to do it, not the clock.
        compile_timeout: Duration::from_secs(600),
        ..EngineOptions::default()
    };
    let engine = Engine::new(options, clock.clone()).expect("an engine");
    for case in CASES {
        let (size, bytes) = largest(&engine, case);
        let length = bytes.len();
        let peak = Peak::start();
        let start = clock.boot();
        let loaded = engine.load(bytes, &Grants::all()).await;
        let (took, more) = (clock.boot().since(start), peak.more());
        println!(
            "{}: size {size}, {} KiB of module, {took:.1?}, {} MiB of memory, {}",
            case.0,
            length >> 10,
            more >> 20,
            loaded
                .as_ref()
                .map_or_else(ToString::to_string, |_| "loaded".to_owned()),
        );
        // Far above what any takes, far below what they took unbounded.
        assert!(took <= Duration::from_secs(240), "{}: {took:?}", case.0);
        assert!(more <= MEMORY, "{}: {} MiB", case.0, more >> 20);
    }
}

/// A branch table whose every entry carries every local variable.
fn table_of_branches(entries: usize, locals: usize) -> String {
    let mut text = locals_of(locals);
    text.push_str("(loop $again ");
    for local in 0..locals {
        let _ = write!(
            text,
            "(local.set {local} (i32.add (local.get {local}) (i32.const 1)))"
        );
    }
    text.push_str("(br_table ");
    text.push_str(&"$again ".repeat(entries));
    text.push_str("(local.get 0)))");
    function(&text)
}

/// Calls through a table, each of which the compiler answers with blocks of its
/// own, and variables that live across all of them.
fn calls_through_a_table(calls: usize, locals: usize) -> String {
    let mut text = locals_of(locals);
    for local in 0..locals {
        let _ = write!(text, "(local.set {local} (i32.const {local}))");
    }
    text.push_str(&"(call_indirect (type $empty) (i32.const 0))".repeat(calls));
    for local in 0..locals {
        let _ = write!(text, "(i32.store (i32.const 0) (local.get {local}))");
    }
    format!("(type $empty (func)) (table 1 funcref) {}", function(&text))
}

fn straight(functions: usize, operations: usize) -> String {
    let body = function(
        &"(global.set $g (i32.mul (global.get $g) (i32.load (global.get $g))))".repeat(operations),
    );
    format!(
        "(global $g (mut i32) (i32.const 1)) {}",
        body.repeat(functions)
    )
}

fn small(functions: usize) -> String {
    function("(drop (i32.load (i32.const 0)))").repeat(functions)
}

fn blocks(depth: usize, locals: usize) -> String {
    let mut text = locals_of(locals);
    text.push_str(&"(block (br_if 0 (local.get 0)) (local.set 0 (i32.const 1)) ".repeat(depth));
    text.push_str(&")".repeat(depth));
    function(&text)
}

fn loops(count: usize, locals: usize) -> String {
    let mut text = locals_of(locals);
    text.push_str(&"(loop (br_if 0 (local.get 0)) (local.set 0 (i32.const 1)))".repeat(count));
    function(&text)
}

fn calls(count: usize) -> String {
    let parameters = "(param i64)".repeat(128);
    let call = format!("(call $wide {})", "(i64.const 7)".repeat(128));
    format!(
        "(func $wide {parameters}) {}",
        function(&call.repeat(count))
    )
}

fn locals_of(count: usize) -> String {
    format!("(local {})", "i32 ".repeat(count))
}

fn function(body: &str) -> String {
    format!("(func {body})\n")
}
