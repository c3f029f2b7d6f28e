//! A cluster that PicoMQ wrote, and the runtime of production on it.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use aedile_engine::{Engine, EngineOptions};
use aedile_lease::{Keeper, LeaseOptions};
use aedile_log::{Log, LogOptions, MetaUrl, Reader, RunRecord};
use aedile_runtime::{Builtin, Outcome, Parts, PluginSettings, Runtime, RuntimeOptions};
use aedile_state::{Command, State};
use aedile_storage::{StorageUri, Store, StoreOptions};
use aedile_tests_e2e::captured::Captured;
use aedile_tests_e2e::outside;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The engine that the tests of a process share.
pub fn engine() -> Arc<Engine> {
    static ENGINE: LazyLock<Arc<Engine>> = LazyLock::new(|| {
        let clock: SharedClock = Arc::new(SystemClock);
        // The bounds of production but for the time, which a busy machine takes.
        let options = EngineOptions {
            compile_timeout: Duration::from_secs(600),
            ..EngineOptions::default()
        };
        Arc::new(Engine::new(options, clock).expect("an engine"))
    });
    ENGINE.clone()
}

/// A captured cluster.
#[derive(Debug)]
pub struct Stage {
    captured: Captured,
}

impl Stage {
    /// The generated store of the fixtures: 34 streams.
    #[expect(clippy::new_without_default, reason = "it unpacks files")]
    pub fn new() -> Self {
        Self {
            captured: Captured::unpack("store-b"),
        }
    }

    /// The state that its log stands for.
    pub async fn state(&self) -> State {
        let mut raw = outside::connect(&self.captured.meta_url()).await;
        let state = outside::state(&mut raw).await;
        raw.close().await.expect("a connection closes");
        state
    }

    /// The text of a key.
    pub async fn text(&self, key: &str) -> Option<String> {
        let state = self.state().await;
        let value = state.kv_get(key)?;
        Some(String::from_utf8(value.to_vec()).expect("text"))
    }

    /// Store a text under a key.
    pub async fn put(&self, key: &str, text: &str) {
        let log = self.log().await;
        let put = Command::PutKv {
            key: key.to_owned(),
            value: text.as_bytes().to_vec(),
        };
        let answers = log.propose(vec![put]).await;
        assert_eq!(answers.expect("an answer").len(), 1);
        log.close().await;
    }

    async fn log(&self) -> Log {
        let clock: SharedClock = Arc::new(SystemClock);
        let url: MetaUrl = self.captured.meta_url().parse().expect("a URL");
        Log::open(&url, LogOptions::default(), clock)
            .await
            .expect("the log opens")
    }

    /// The runs of the history, the newest first.
    pub async fn runs(&self) -> Vec<RunRecord> {
        let clock: SharedClock = Arc::new(SystemClock);
        let url: MetaUrl = self.captured.meta_url().parse().expect("a URL");
        let reader = Reader::open(&url, &clock).await.expect("a reader");
        let runs = reader.runs(1000).await.expect("the history");
        reader.close().await;
        runs
    }

    /// Run this plugin and no other until nothing is left to do, as
    /// `aedile run --until-idle` does, with all that its manifest wants.
    pub async fn pass(&self, name: &str, module: Arc<[u8]>, config: Value) -> Outcome {
        let clock: SharedClock = Arc::new(SystemClock);
        let url: MetaUrl = self.captured.meta_url().parse().expect("a URL");
        let storage: StorageUri = self.captured.storage().parse().expect("a URI");
        let options = RuntimeOptions {
            node: "examples".to_owned(),
            builtins: vec![Builtin {
                name: name.to_owned(),
                bytes: module,
                settings: PluginSettings {
                    config,
                    ..PluginSettings::default()
                },
            }],
            ..RuntimeOptions::default()
        };
        let log = self.log().await;
        let lease = LeaseOptions::new(url.expose(), "examples");
        let parts = Parts {
            engine: engine(),
            log,
            keeper: Keeper::start(lease, clock.clone()).expect("a keeper"),
            store: Store::open(&storage, StoreOptions::default(), clock.clone()).expect("a store"),
            clock,
        };
        Runtime::run_until_idle(options, parts, None, CancellationToken::new())
            .await
            .expect("a pass")
    }
}
