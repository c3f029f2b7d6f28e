//! The census in each language: it builds as its README says, imports what its
//! manifest asks for and no more, and does the same as the others.

use std::sync::Arc;

use aedile_engine::{Grants, Limits, Plugin};
use aedile_log::RunRecord;
use aedile_runtime::Outcome;
use aedile_tests_e2e::wait::clock;
use aedile_tests_examples::{Language, Stage, engine, expected, module};
use serde_json::json;
use tokio::sync::Mutex;

const NAME: &str = "stream-census";
const REPORT: &str = "aedile/kv/stream-census/report";
const PASS: &str = "aedile/kv/stream-census/pass";

/// Run by each language's test, so that a failure names the language. One after
/// the other: compiling a runtime takes all cores.
async fn holds(language: Language) {
    static ONE: Mutex<()> = Mutex::const_new(());
    let _one = ONE.lock().await;
    let bytes = module(language);
    imports_what_it_asks_for(&bytes);
    let clock = clock();
    let began = clock.boot();
    let plugin = engine().load(bytes.to_vec(), &Grants::all()).await;
    let plugin = plugin.expect("a module that loads");
    let loaded = clock.boot().since(began);
    names_mistakes_in_its_configuration(&plugin).await;
    let run = counts_a_cluster(bytes.clone()).await;
    println!(
        "{language:?}: {} bytes of module, loaded in {loaded:.1?}; {} ticks took {} ms of CPU and \
         {} bytes of memory",
        bytes.len(),
        run.detail["ticks"],
        run.detail["cpu_ms"],
        run.detail["peak_memory"],
    );
}

fn imports_what_it_asks_for(bytes: &[u8]) {
    let inspection = engine().inspect(bytes).expect("a module that loads");
    let mut wanted = inspection.manifest.grants.clone();
    wanted.sort_unstable();
    assert_eq!(inspection.imports, wanted);
}

async fn names_mistakes_in_its_configuration(plugin: &Plugin) {
    let limits = Limits::default();
    for (config, word) in [
        (r#"{"tpo":1}"#, "tpo"),
        (r#"{"top":0}"#, "top"),
        (r#"{"top":101}"#, "top"),
        (r#"{"top":1.5}"#, "top"),
        (r#"{"top":"1"}"#, "top"),
        (r#"{"warn-records":-1}"#, "warn-records"),
        (r#"{"top":1"#, "configuration"),
        (r#"{"top":1}x"#, "configuration"),
    ] {
        let answer = plugin.validate_config(config, &limits).await;
        // serde names the place and the type that it wants, not the key.
        let words = [word, "configuration"];
        match answer {
            Ok(Err(text)) => assert!(words.iter().any(|word| text.contains(word)), "{text}"),
            other => panic!("{config}: {other:?}"),
        }
    }
    for config in [
        "{}",
        r#" { "top" : 100 , "streams-per-tick":1,"warn-records":9007199254740991 } "#,
        "{\"\\u0074op\":\t7}",
    ] {
        let answer = plugin.validate_config(config, &limits).await;
        assert_eq!(answer, Ok(Ok(())), "{config}");
    }
}

/// The first run that is recorded of a whole count.
async fn counts_a_cluster(bytes: Arc<[u8]>) -> RunRecord {
    let stage = Stage::new();
    let state = stage.state().await;
    let census = expected(&state, 3);
    // What one holder has counted is the next one's, in whatever language it is:
    // here all of it, with figures of its own.
    let after = state.streams_after(None).last().expect("a stream").id.0;
    let odd = "streams 7\nopen 5\nrecords 9\ntop 3 8\ntop 4 8\n";
    stage.put(PASS, &format!("after {after}\n{odd}")).await;
    let config = json!({ "top": 3, "streams-per-tick": 10, "warn-records": 0 });
    let failed = failures(stage.pass(NAME, bytes.clone(), config).await);
    assert_eq!(failed, []);
    let mut runs = stage.runs().await;
    let first = runs.pop().expect("a run");
    assert_eq!(first.summary, "7 streams, 5 open, 9 records");
    // A pass goes round again after something was written, and a backlog that
    // drains without a pause is one run.
    let second = runs.pop().expect("another run");
    assert_eq!(second.summary, census.summary);
    assert_eq!(second.detail["ticks"], census.streams.div_ceil(10));
    assert_eq!(second.detail["done"], census.streams);
    assert_eq!(stage.text(REPORT).await.as_ref(), Some(&census.report));
    assert_eq!(stage.text(PASS).await, None, "the count is finished");

    // More than a number of the contract holds is no count. The report is as it
    // was, so nothing is written and no run recorded.
    let odd = format!("after {after}\nstreams 7\nopen 5\nrecords 18446744073709551616\n");
    stage.put(PASS, &odd).await;
    let (before, runs) = (stage.state().await, stage.runs().await.len());
    let config = json!({ "top": 3 });
    assert_eq!(failures(stage.pass(NAME, bytes, config).await), []);
    assert_eq!(stage.state().await, before);
    assert_eq!(stage.runs().await.len(), runs);
    second
}

/// Plugins whose tick failed. Marks are left in any case: nothing takes them.
fn failures(outcome: Outcome) -> Vec<(String, String)> {
    match outcome {
        Outcome::Idle { .. } => Vec::new(),
        Outcome::LeftOver { plugins, .. } => plugins,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c() {
    holds(Language::C).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript() {
    holds(Language::JavaScript).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python() {
    holds(Language::Python).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rust() {
    holds(Language::Rust).await;
}

#[test]
fn every_example_says_the_same_of_itself() {
    let manifest = |language: &str| {
        let path = format!(
            "{}/../../examples/{language}-census/manifest.json",
            env!("CARGO_MANIFEST_DIR")
        );
        std::fs::read(path).expect("a manifest")
    };
    for language in ["js", "python", "rust"] {
        assert_eq!(manifest(language), manifest("c"), "{language}");
    }
}
