//! How long it takes from a deploy to the first tick on the new version.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use aedile_engine::{Engine, EngineOptions};
use aedile_lease::{Keeper, LeaseOptions};
use aedile_log::{Log, LogOptions, MetaUrl};
use aedile_runtime::control::{self, Action, ModuleRef, Record, StoredModule, Written};
use aedile_runtime::{Parts, Runtime, RuntimeHandle, RuntimeOptions};
use aedile_storage::{StorageUri, Store, StoreOptions};
use aedile_tests_contract::databases::{Database, Kind};
use anyhow::Context as _;
use tempfile::TempDir;

use crate::{Bar, Context, Figure, Samples, Unit};

pub(super) const ABOUT: &str = "Three nodes on one database and one directory; a module of 500 KB \
of code is uploaded and deployed, each time another one, and the time runs until its first tick \
has written a key. Fetching, verifying, compiling on all three nodes at once and swapping are in \
it. Public reports of other systems name 10 to 30 minutes (istio#37463), or nothing.";

/// The plugin.
const NAME: &str = "bench";
/// The key that a tick writes, with what version.
const KEY: &str = "aedile/kv/bench/version";
/// Longest wait for a tick.
const LIMIT: Duration = Duration::from_secs(60);
/// Additions in each function of the module.
const ADDITIONS: usize = 36;

pub(super) async fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let deploys = context.size(100, 20, 2);
    let mut figures = Vec::new();
    for (kind, on) in [(Kind::Sqlite, "SQLite"), (Kind::Postgres, "PostgreSQL")] {
        let (samples, bytes) = measure(context, kind, deploys).await?;
        figures.push(
            Figure::new(
                format!("deploy to first tick, {on}, 3 nodes, {} KB", bytes / 1000),
                Unit::Milliseconds,
                samples,
            )
            .must(Bar::P99AtMost(2_000.0, "")),
        );
    }
    Ok(figures)
}

async fn measure(
    context: &Context,
    kind: Kind,
    deploys: usize,
) -> anyhow::Result<(Samples, usize)> {
    let database = Database::create(kind).await?;
    let url: MetaUrl = database.url().parse()?;
    let dir = TempDir::new()?;
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(node(context, &url, &dir, name).await?);
    }
    let log = Log::open(&url, log_options("operator"), context.clock.clone()).await?;
    let store = store(context, &dir)?;
    let mut samples = Samples::default();
    let mut size = 0;
    let mut previous = 0;
    let functions = context.size(2_000, 2_000, 20);
    // The first one is the first of its name: what is measured are swaps.
    for number in 0..=deploys {
        let version = format!("{number:06}");
        let module = module(&version, functions);
        size = module.len();
        let began = context.now();
        let put = store.put_module(module.into()).await?;
        let module = ModuleRef::Stored(StoredModule {
            digest: put.digest.to_string(),
            size: size as u64,
            signature: None,
            source: None,
        });
        let mut record = Record::new(Action::Deploy, module, "0.1.0".to_owned());
        record.grants.push("commands.put-kv".to_owned());
        let record = record.by(Action::Deploy, "bench", "");
        match control::write(&log, NAME, previous, record).await? {
            Written::Written { number } => previous = number,
            other => anyhow::bail!("not deployed: {other:?}"),
        }
        let mut views = log.views();
        let ticked = views.wait_for(|view| {
            view.state
                .kv_get(KEY)
                .is_some_and(|value| value == version.as_bytes())
        });
        context
            .clock
            .timeout(LIMIT, ticked)
            .await
            .context("a tick of the new version")??;
        if number > 0 {
            samples.push(context.since(began).as_secs_f64() * 1000.0);
        }
    }
    log.close().await;
    for node in nodes {
        node.stop().await;
    }
    Ok((samples, size))
}

fn log_options(node: &str) -> LogOptions {
    LogOptions {
        node: node.to_owned(),
        ..LogOptions::default()
    }
}

fn store(context: &Context, dir: &TempDir) -> anyhow::Result<Store> {
    let uri: StorageUri = format!("-2@file://{}", dir.path().display()).parse()?;
    Ok(Store::open(
        &uri,
        StoreOptions::default(),
        context.clock.clone(),
    )?)
}

/// A node as `aedile run` starts it, with an engine of its own.
async fn node(
    context: &Context,
    url: &MetaUrl,
    dir: &TempDir,
    name: &str,
) -> anyhow::Result<RuntimeHandle> {
    let clock = &context.clock;
    let engine = Arc::new(Engine::new(EngineOptions::default(), clock.clone())?);
    let log = Log::open(url, log_options(name), clock.clone()).await?;
    let keeper = Keeper::start(LeaseOptions::new(url.expose(), name), clock.clone())?;
    let parts = Parts {
        clock: clock.clone(),
        engine,
        log,
        keeper,
        store: store(context, dir)?,
    };
    let options = RuntimeOptions {
        node: name.to_owned(),
        ..RuntimeOptions::default()
    };
    Ok(Runtime::start(options, parts).await?)
}

/// A module that writes its version under a key in each tick, with much code
/// besides.
fn module(version: &str, functions: usize) -> Vec<u8> {
    let manifest = format!(
        r#"{{"name":"{NAME}","version":"0.1.0","grants":["commands.put-kv"],"schedule":{{"interval":"1h"}}}}"#
    );
    let mut text = format!(
        r#";; manifest: {manifest}
(import "aedile:maintenance/commands@0.1.0" "put-kv" (func $put (param i32 i32 i32)))
(memory (export "memory") 4)
(data (i32.const 0) "{KEY}")
(data (i32.const 512) "{version}")
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (i32.store (i32.const 768) (i32.const 0))
    (i32.store (i32.const 772) (i32.const {}))
    (i32.store (i32.const 776) (i32.const 512))
    (i32.store (i32.const 780) (i32.const {}))
    (call $put (i32.const 768) (i32.const 1) (i32.const 2048))
    (i32.const 1024))
"#,
        KEY.len(),
        version.len()
    );
    for function in 0..functions {
        // Writing to a text does not fail.
        let _ = write!(text, "(func (param i32) (result i32) local.get 0 ");
        for place in 0..ADDITIONS {
            let constant = 1_000_003 * (function + place);
            let _ = write!(text, "i32.const {} i32.add ", constant % 2_000_000_000);
        }
        text.push_str(")\n");
    }
    aedile_tests_engine::module(NAME, &text)
}
