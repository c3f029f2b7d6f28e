//! Modules that are refused, each with a text that says what it is and what to do.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{BootInstant, Clock, Sleep, SystemClock, UnixMillis};
use aedile_engine::{Engine, EngineOptions, Grants, LoadError, ManifestError};
use aedile_tests_engine::{Trial, engine, grants, guest, module};

/// The refusal of a guest that is granted everything.
async fn refusal(name: &str) -> (LoadError, String) {
    let error = Trial::refusal(engine(), name, &Grants::all()).await;
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() < 1000, "{text}");
    (error, text)
}

/// The refusal by an engine with other bounds.
async fn bounded(name: &str, change: impl FnOnce(&mut EngineOptions)) -> LoadError {
    let mut options = EngineOptions::default();
    change(&mut options);
    let engine = Engine::new(options, Arc::new(SystemClock)).expect("an engine");
    Trial::refusal(&engine, name, &Grants::all()).await
}

const FLOW: &str = "the flow of a function (blocks, branches and calls through tables, by local \
                    variables and by those before)";

#[track_caller]
fn too_complex(error: &LoadError, what: &str) {
    match error {
        LoadError::TooComplex { what: found, .. } => assert_eq!(*found, what),
        error => panic!("{error}"),
    }
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[tokio::test]
async fn what_is_not_wasm() {
    for (bytes, expected) in [
        (&b""[..], "it is empty"),
        (b"(module)", "wasm-tools parse"),
        (b"\n (component)", "wasm-tools parse"),
        (b"\x7fELF\x02\x01", "--target wasm32-unknown-unknown"),
        (b"\0asm", "version that is not known"),
        (
            b"\0asm\x02\0\0\0",
            "version that is not known (header 02000000)",
        ),
        (b"PK\x03\x04", "begins with the bytes 504b0304"),
    ] {
        let error = engine().load(bytes.to_vec(), &Grants::all()).await;
        let error = error.expect_err("it is refused");
        assert!(matches!(error, LoadError::NotWasm { .. }), "{error}");
        says(&error.to_string(), &[expected]);
        assert_eq!(engine().inspect(bytes), Err(error));
    }
}

/// Cut anywhere, or with any byte changed, a module is refused or loads; it
/// never breaks the engine.
#[tokio::test]
async fn broken_bytes_are_refused() {
    let whole = guest("well_behaved");
    for length in 8..whole.len() - 1 {
        let error = engine().inspect(&whole[..length]);
        assert!(error.is_err(), "cut at {length}");
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        if let Err(error) = engine().inspect(&bytes) {
            assert!(error.to_string().len() < 10_000);
        }
    }
}

/// Packages that depend on each other in a circle send the decoder of WIT
/// metadata into a recursion without end, which no process survives.
#[tokio::test]
async fn metadata_of_two_versions() {
    let whole = guest("page_of_everything");
    let places: Vec<usize> = (0..whole.len())
        .filter(|at| whole[*at..].starts_with(b"@0.1.0"))
        .collect();
    assert!(places.len() > 8, "{places:?}");
    let mut refused = 0;
    for place in &places {
        let mut bytes = whole.clone();
        bytes[place + 5] = b'9';
        refused += usize::from(engine().inspect(&bytes).is_err());
    }
    assert!(refused > 8, "{refused}");
}

/// A type within a type within a type, a hundred thousand deep: the parser
/// would call itself for each.
#[tokio::test]
async fn types_within_types() {
    let mut section = vec![1];
    for _ in 0..100_000 {
        section.extend([0x41, 1, 1]);
    }
    section.extend([0x41, 0]);
    let mut component = b"\0asm\x0d\0\x01\0".to_vec();
    append_section(&mut component, 7, &section);
    too_complex(
        &engine().inspect(&component).expect_err("it is refused"),
        "the number of types within types",
    );
    let mut metadata = vec![14];
    metadata.extend(b"component-type");
    metadata.extend(&component);
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    append_section(&mut module, 0, &metadata);
    too_complex(
        &engine().inspect(&module).expect_err("it is refused"),
        "the number of types within types",
    );
}

fn append_section(bytes: &mut Vec<u8>, id: u8, contents: &[u8]) {
    bytes.push(id);
    let length = contents.len();
    bytes.extend([
        (length & 0x7f) as u8 | 0x80,
        (length >> 7 & 0x7f) as u8 | 0x80,
        (length >> 14 & 0x7f) as u8,
    ]);
    bytes.extend(contents);
}

#[tokio::test]
async fn delete_kv() {
    let some = grants(&["state", "commands.put-kv"]);
    let error = Trial::refusal(engine(), "delete_kv", &some).await;
    assert!(matches!(error, LoadError::NotGranted { .. }), "{error}");
    says(
        &error.to_string(),
        &[
            "imports `commands.delete-kv`",
            "add \"commands.delete-kv\" to the plugin's `grants`",
        ],
    );
    let granted = grants(&["commands.delete-kv"]);
    let plugin = engine().load(guest("delete_kv"), &granted).await;
    let imports = plugin.expect("it is granted").imports().to_vec();
    assert_eq!(imports, granted.iter().copied().collect::<Vec<_>>());
}

#[tokio::test]
async fn trim_stream() {
    let error = Trial::refusal(engine(), "trim_stream", &Grants::default()).await;
    says(&error.to_string(), &["commands.trim-stream", "destructive"]);
}

#[tokio::test]
async fn more_than_its_manifest() {
    let (error, text) = refusal("more_than_its_manifest").await;
    assert!(matches!(error, LoadError::NotRequested { .. }), "{error}");
    says(&text, &["commands.delete-kv", "manifest"]);
}

#[tokio::test]
async fn wasi_http() {
    let (error, text) = refusal("wasi_http").await;
    assert!(matches!(error, LoadError::ForeignImport { .. }), "{error}");
    says(
        &text,
        &[
            "`wasi:http/types@0.2.0`",
            "no network",
            "http and fetch-event",
        ],
    );
}

#[tokio::test]
async fn foreign_export() {
    let (error, text) = refusal("foreign_export").await;
    assert!(matches!(error, LoadError::MissingExport { .. }), "{error}");
    says(
        &text,
        &[
            "`aedile:maintenance/maintenance@0.1.0`",
            "exports `run`",
            "world `aedile:maintenance/plugin`",
        ],
    );
}

#[tokio::test]
async fn empty_component() {
    let (error, text) = refusal("empty_component").await;
    assert!(matches!(error, LoadError::MissingExport { .. }), "{error}");
    says(&text, &["exports nothing"]);
}

#[tokio::test]
async fn empty_module() {
    let (error, text) = refusal("empty_module").await;
    assert_eq!(error, LoadError::NoWorld);
    says(&text, &["without WIT metadata", "aedile-plugin"]);
}

#[tokio::test]
async fn metadata_without_exports() {
    let (error, text) = refusal("metadata_without_exports").await;
    assert!(matches!(error, LoadError::Wrap { .. }), "{error}");
    says(&text, &["aedile:maintenance/maintenance@0.1.0"]);
}

#[tokio::test]
async fn preview1() {
    let (error, text) = refusal("preview1").await;
    assert!(matches!(error, LoadError::Preview1 { .. }), "{error}");
    says(
        &text,
        &[
            "WASI preview 1",
            "`wasi_snapshot_preview1.fd_write`",
            "cargo build --release --target wasm32-unknown-unknown",
        ],
    );
}

#[tokio::test]
async fn wrong_version() {
    let (error, text) = refusal("wrong_version").await;
    assert!(matches!(error, LoadError::WrongVersion { .. }), "{error}");
    says(&text, &["@0.2.0`", "serves aedile:maintenance@0.1.0"]);
}

#[tokio::test]
async fn newer_function() {
    let (error, text) = refusal("newer_function").await;
    assert!(
        matches!(error, LoadError::UnknownFunction { .. }),
        "{error}"
    );
    says(&text, &["`frobnicate` of `job`", "newer host"]);
}

#[tokio::test]
async fn wrong_type() {
    let (error, text) = refusal("wrong_type").await;
    assert!(matches!(error, LoadError::Mismatch { .. }), "{error}");
    says(&text, &["lapsed-count", "aedile:maintenance@0.1.0"]);
}

#[tokio::test]
async fn no_manifest() {
    let (error, text) = refusal("no_manifest").await;
    assert_eq!(error, LoadError::Manifest(ManifestError::Missing));
    says(
        &text,
        &["no manifest", "`aedile:manifest`", "plugins/README.md"],
    );
}

#[tokio::test]
async fn bad_manifest() {
    let (error, text) = refusal("bad_manifest").await;
    assert!(
        matches!(error, LoadError::Manifest(ManifestError::Json(_))),
        "{error}"
    );
    says(&text, &["unknown field `color`", "`config-schema`"]);
}

#[tokio::test]
async fn many_functions() {
    // Beside its twelve it has the three that every guest has.
    too_complex(
        &bounded("many_functions", |options| options.functions = 14).await,
        "the number of functions",
    );
}

#[tokio::test]
async fn long_function() {
    too_complex(
        &bounded("long_function", |options| options.function_bytes = 500).await,
        "the size of a function in bytes",
    );
}

#[tokio::test]
async fn wide_function() {
    too_complex(
        &refusal("wide_function").await.0,
        "the number of parameters of a function",
    );
}

/// A quarter of a megabyte of such code took two minutes and seven gigabytes to
/// compile before this was bounded.
#[tokio::test]
async fn many_results() {
    too_complex(
        &refusal("many_results").await.0,
        "the number of results of a function",
    );
}

/// Compiling it takes the square of its length, in time or in memory.
#[tokio::test]
async fn deep_blocks() {
    too_complex(
        &bounded("deep_blocks", |options| options.function_flow = 200).await,
        FLOW,
    );
}

#[tokio::test]
async fn many_branches() {
    too_complex(
        &bounded("many_branches", |options| options.function_flow = 200).await,
        FLOW,
    );
    too_complex(
        &bounded("many_branches", |options| options.flow = 200).await,
        "the flow of all functions",
    );
}

/// Ten thousand loops of four parameters took twelve gigabytes to compile.
#[tokio::test]
async fn many_loops() {
    too_complex(
        &bounded("many_loops", |options| options.function_flow = 200).await,
        FLOW,
    );
}

/// Eleven kilobytes of it took 49 s to compile before its entries were counted.
#[tokio::test]
async fn a_large_table_of_branches() {
    let entries = "$again ".repeat(9_000);
    let text = format!("(func (loop $again (br_table {entries} (i32.const 0))))");
    let error = engine().inspect(&module("slow", &text));
    too_complex(&error.expect_err("it is refused"), FLOW);
}

/// 160 kilobytes of it took 105 s to compile before these calls were counted.
#[tokio::test]
async fn many_calls_through_a_table() {
    let calls = "(call_indirect (type $empty) (i32.const 0))".repeat(7_500);
    let text = format!("(type $empty (func)) (table 1 funcref) (func {calls})");
    let error = engine().inspect(&module("slow", &text));
    too_complex(&error.expect_err("it is refused"), FLOW);
}

#[tokio::test]
async fn wide_block() {
    too_complex(
        &refusal("wide_block").await.0,
        "the number of parameters of a block",
    );
}

#[tokio::test]
async fn many_locals() {
    too_complex(
        &bounded("many_locals", |options| options.locals = 50).await,
        "the number of local variables",
    );
}

#[tokio::test]
async fn nested_components() {
    too_complex(
        &refusal("nested_components").await.0,
        "the number of component instances",
    );
}

#[tokio::test]
async fn initial_memory() {
    let (error, text) = refusal("initial_memory").await;
    let expected = LoadError::InitialMemory {
        found: 2000 << 16,
        limit: 64 << 20,
    };
    assert_eq!(error, expected);
    says(&text, &["131072000 bytes", "stack-size"]);
}

#[tokio::test]
async fn initial_table() {
    too_complex(
        &refusal("initial_table").await.0,
        "the number of table elements at its start",
    );
}

#[tokio::test]
async fn threads() {
    let (error, text) = refusal("threads").await;
    assert!(matches!(error, LoadError::Invalid { .. }), "{error}");
    says(&text, &["threads must be enabled"]);
}

#[tokio::test]
async fn garbage_collection() {
    let (error, _) = refusal("garbage_collection").await;
    assert!(matches!(error, LoadError::Invalid { .. }), "{error}");
}

#[tokio::test]
async fn exceptions() {
    let (error, text) = refusal("exceptions").await;
    assert!(matches!(error, LoadError::Invalid { .. }), "{error}");
    says(&text, &["exceptions"]);
}

#[tokio::test]
async fn a_module_that_is_too_large() {
    let error = bounded("well_behaved", |options| options.module_bytes = 100).await;
    let size = guest("well_behaved").len();
    assert_eq!(error, LoadError::TooLarge { size, limit: 100 });
}

/// A clock on which every wait is over at once.
#[derive(Debug)]
struct Hasty;

impl Clock for Hasty {
    fn boot(&self) -> BootInstant {
        SystemClock.boot()
    }

    fn unix(&self) -> UnixMillis {
        SystemClock.unix()
    }

    fn sleep_until(&self, _: BootInstant) -> Sleep {
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test]
async fn a_compilation_that_takes_too_long() {
    let options = EngineOptions::default();
    let limit = options.compile_timeout;
    let engine = Engine::new(options, Arc::new(Hasty)).expect("an engine");
    let error = engine.load(guest("well_behaved"), &Grants::all()).await;
    assert_eq!(
        error.expect_err("it takes too long"),
        LoadError::CompileTimeout { limit }
    );
}

#[test]
fn options_out_of_range_are_named() {
    type Change = fn(&mut EngineOptions);
    let cases: [(Change, &str); 3] = [
        (
            |options| options.compile_timeout = Duration::ZERO,
            "compile_timeout",
        ),
        (|options| options.compilations = 0, "compilations"),
        (|options| options.module_bytes = 0, "module_bytes"),
    ];
    for (change, name) in cases {
        let mut options = EngineOptions::default();
        change(&mut options);
        let error = Engine::new(options, Arc::new(SystemClock)).expect_err(name);
        says(&error.to_string(), &[name]);
    }
}
