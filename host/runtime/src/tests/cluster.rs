//! A database and a store in a temporary directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use aedile_engine::{Engine, EngineOptions};
use aedile_lease::{Keeper, LeaseOptions};
use aedile_log::{Log, LogOptions, MetaUrl, Reader};
use aedile_state::{Command, ObjectId};
use aedile_storage::{StorageUri, Store, StoreOptions, object_key};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::source::{Granting, Loaded, load};
use crate::{
    Builtin, Outcome, Parts, Plan, PlanParts, PluginSettings, Runtime, RuntimeError,
    RuntimeOptions, Status,
};

pub(super) const CLEANER: &[u8] = include_bytes!("../../../cli/modules/cleaner.wasm");
pub(super) const EXPIRY: &[u8] = include_bytes!("../../../cli/modules/expiry.wasm");
pub(crate) const KV_TTL: &[u8] = include_bytes!("../../../cli/modules/kv_ttl.wasm");
pub(super) const KV_TTL_NEXT: &[u8] = include_bytes!("../../../cli/modules/kv_ttl_next.wasm");

/// A bound for waits: far above what any takes on a loaded machine.
pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) struct Cluster {
    pub(super) dir: TempDir,
    pub(super) clock: SharedClock,
    engine: Arc<Engine>,
}

impl Cluster {
    /// An empty one.
    pub(super) fn empty() -> Self {
        let dir = TempDir::new().expect("a directory");
        for name in ["objects", "plugins"] {
            std::fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        let clock: SharedClock = Arc::new(SystemClock);
        let engine = Engine::new(EngineOptions::default(), clock.clone()).expect("an engine");
        Self {
            dir,
            clock,
            engine: Arc::new(engine),
        }
    }

    /// One whose log holds these commands.
    pub(super) async fn with(commands: &[Command]) -> Self {
        let cluster = Self::empty();
        cluster.append(commands).await;
        cluster
    }

    pub(super) async fn append(&self, commands: &[Command]) {
        let log = self.log().await;
        log.propose(commands.to_vec()).await.expect("appended");
        log.close().await;
    }

    pub(super) fn url(&self) -> MetaUrl {
        format!("sqlite:{}", self.dir.path().join("meta.db").display())
            .parse()
            .expect("a URL")
    }

    /// Statements of somebody else.
    pub(super) async fn sql(&self, sql: &'static str) {
        let mut other = self.other().await;
        sqlx::raw_sql(sql).execute(&mut other).await.expect("done");
    }

    async fn other(&self) -> sqlx::SqliteConnection {
        use sqlx::Connection as _;
        let url = format!("sqlite:{}", self.dir.path().join("meta.db").display());
        sqlx::SqliteConnection::connect(&url).await.expect("a file")
    }

    /// A snapshot that another stores.
    pub(super) async fn store_snapshot(&self, index: i64, payload: &[u8]) {
        let mut other = self.other().await;
        sqlx::query("INSERT INTO meta_snapshot (id, applied_idx, payload) VALUES (0, ?1, ?2)")
            .bind(index)
            .bind(payload)
            .execute(&mut other)
            .await
            .expect("stored");
    }

    pub(super) async fn leases(&self) -> Vec<aedile_log::LeaseRecord> {
        let reader = Reader::open(&self.url(), &self.clock)
            .await
            .expect("a reader");
        let leases = reader.lease_rows().await.expect("the leases");
        reader.close().await;
        leases
    }

    pub(super) fn objects(&self) -> PathBuf {
        self.dir.path().join("objects")
    }

    pub(super) fn plugins(&self) -> PathBuf {
        self.dir.path().join("plugins")
    }

    fn path(&self, id: ObjectId) -> PathBuf {
        self.objects().join(object_key(id.0))
    }

    pub(super) fn put(&self, ids: &[ObjectId], bytes: &[u8]) {
        for &id in ids {
            let path = self.path(id);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, bytes).expect("written");
        }
    }

    /// An object that no unlink removes: a directory with something in it.
    pub(super) fn put_undeletable(&self, id: ObjectId) {
        let path = self.path(id);
        std::fs::create_dir_all(path.join("inside")).expect("a directory");
    }

    /// Let an unlink remove it.
    pub(super) fn mend(&self, id: ObjectId) {
        std::fs::remove_dir_all(self.path(id)).expect("a directory");
        self.put(&[id], b"data");
    }

    pub(super) fn has(&self, id: ObjectId) -> bool {
        self.path(id).exists()
    }

    pub(super) async fn log(&self) -> Log {
        let options = LogOptions {
            node: "a".to_owned(),
            ..LogOptions::default()
        };
        Log::open(&self.url(), options, self.clock.clone())
            .await
            .expect("the log")
    }

    pub(super) fn store_at(&self, path: &Path) -> Store {
        let uri: StorageUri = format!("-2@file://{}", path.display())
            .parse()
            .expect("a URI");
        Store::open(&uri, StoreOptions::default(), self.clock.clone()).expect("a store")
    }

    pub(super) fn store(&self) -> Store {
        self.store_at(&self.objects())
    }

    pub(super) async fn parts(&self, node: &str) -> Parts {
        let lease = LeaseOptions::new(self.url().expose(), node).with_ttl(Duration::from_secs(3));
        Parts {
            clock: self.clock.clone(),
            engine: self.engine.clone(),
            log: self.log().await,
            keeper: Keeper::start(lease, self.clock.clone()).expect("a keeper"),
            store: self.store(),
        }
    }

    pub(super) fn options(&self, node: &str) -> RuntimeOptions {
        let builtin = |name: &str, bytes: &[u8]| Builtin {
            name: name.to_owned(),
            bytes: bytes.into(),
            settings: PluginSettings::default(),
        };
        RuntimeOptions {
            node: node.to_owned(),
            builtins: vec![builtin("cleaner", CLEANER), builtin("expiry", EXPIRY)],
            settle: Duration::from_millis(50),
            rescan: Duration::from_millis(200),
            ..RuntimeOptions::default()
        }
    }

    pub(super) async fn pass_with(
        &self,
        options: RuntimeOptions,
        store: Store,
    ) -> Result<Outcome, RuntimeError> {
        let parts = Parts {
            store,
            ..self.parts("pass").await
        };
        Runtime::run_until_idle(options, parts, Some(LONG), CancellationToken::new()).await
    }

    pub(super) async fn pass(&self) -> Outcome {
        self.pass_with(self.options("pass"), self.store())
            .await
            .expect("a pass")
    }

    pub(super) async fn plan(&self) -> Plan {
        let reader = Reader::open(&self.url(), &self.clock)
            .await
            .expect("a reader");
        let parts = PlanParts {
            clock: self.clock.clone(),
            engine: self.engine.clone(),
            reader,
            store: self.store(),
        };
        crate::plan(self.options("plan"), parts)
            .await
            .expect("a plan")
    }

    pub(super) async fn view(&self) -> aedile_log::View {
        let reader = Reader::open(&self.url(), &self.clock)
            .await
            .expect("a reader");
        let view = reader.view().await.expect("a view");
        reader.close().await;
        view
    }

    /// Wait until the status says so.
    pub(super) async fn until(
        &self,
        handle: &crate::RuntimeHandle,
        what: &str,
        mut holds: impl FnMut(&Status) -> bool,
    ) -> Arc<Status> {
        let mut status = handle.watch();
        let waited = self.clock.timeout(LONG, async {
            loop {
                let now = status.borrow_and_update().clone();
                if holds(&now) {
                    return now;
                }
                status.changed().await.expect("the runtime runs");
            }
        });
        match waited.await {
            Ok(status) => status,
            Err(_) => panic!("not within {LONG:?}: {what}; {:#?}", handle.status()),
        }
    }
}

pub(crate) use crate::guard::testing::composite_bytes as composite;

/// A plugin that wants to read the state and to put and delete keys.
pub(crate) async fn kv_ttl() -> Arc<Loaded> {
    let clock: SharedClock = Arc::new(SystemClock);
    let engine = Engine::new(EngineOptions::default(), clock).expect("an engine");
    let settings = PluginSettings {
        config: serde_json::json!({ "rules": [{ "prefix": "tmp/", "ttl": "1h" }] }),
        ..PluginSettings::default()
    };
    load(
        &engine,
        KV_TTL.into(),
        settings,
        Granting::Builtin,
        "a test".to_owned(),
    )
    .await
    .expect("it loads")
}
