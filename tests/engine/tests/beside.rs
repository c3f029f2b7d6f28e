//! Hostile plugins in a real runtime on a real database: the built-in ones and
//! the lease go on beside each of them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use aedile_engine::{Engine, EngineOptions};
use aedile_lease::{Keeper, Leadership, LeaseOptions};
use aedile_log::{Log, LogOptions};
use aedile_runtime::{
    Builtin, Parts, PluginSettings, PluginStatus, Role, Runtime, RuntimeHandle, RuntimeOptions,
    Status,
};
use aedile_storage::{Store, StoreOptions};
use aedile_tests_contract::databases::{Database, Kind};
use aedile_tests_engine::{Peak, guest, resident};
use tempfile::TempDir;
use tokio::sync::watch;

const CLEANER: &[u8] = include_bytes!("../../../host/cli/modules/cleaner.wasm");
const EXPIRY: &[u8] = include_bytes!("../../../host/cli/modules/expiry.wasm");

/// What any wait is bounded by.
const LONG: Duration = Duration::from_secs(120);
/// The memory that a plugin may have.
const MEMORY: usize = 16 << 20;

/// A guest, how its tick ends, and a word of what is said about that.
const GUESTS: [(&str, &str, &str); 29] = [
    ("well_behaved", "done", "all is well"),
    ("infinite_loop", "limit", "`cpu`"),
    ("loop_in_post_return", "limit", "`cpu`"),
    ("host_call_loop", "limit", "`cpu`"),
    ("empty_log_flood", "limit", "`cpu`"),
    ("slow_call_loop", "limit", "`commands`"),
    ("command_loop", "limit", "`commands`"),
    ("storage_loop", "limit", "`storage-operations`"),
    ("memory_bomb", "limit", "`memory`"),
    ("filled_memory", "limit", "`memory`"),
    ("memory_bomb_in_parts", "limit", "`memory`"),
    ("table_bomb", "limit", "`table-elements`"),
    ("handle_flood", "limit", "`handles`"),
    ("huge_string", "limit", "`host-call-bytes`"),
    ("huge_report", "limit", "`host-call-bytes`"),
    ("huge_reason", "limit", "`host-call-bytes`"),
    ("aliased_list", "limit", "`host-call-bytes`"),
    ("recursion", "trap", "call stack exhausted"),
    ("shadow_stack_overflow", "trap", "stack overflow"),
    ("bogus_pointer", "trap", "out of bounds"),
    ("not_utf8", "trap", "utf-8"),
    ("trap_in_tick", "trap", "unreachable"),
    ("trap_in_post_return", "trap", "unreachable"),
    ("last_words", "trap", "boom\\nFORGED"),
    ("log_flood", "done", ""),
    ("forged_lines", "done", ""),
    ("metrics_flood", "done", ""),
    ("retry", "retry", "now"),
    ("reject", "reject", "bucket"),
];

/// Guests that are refused, and a word of the reason.
const REFUSED: [(&str, &str); 8] = [
    ("loop_in_start", "`cpu`"),
    ("unreachable_in_start", "unreachable"),
    ("loop_in_validate_config", "cpu"),
    ("trap_in_validate_config", "unreachable"),
    ("initial_memory", "memory at its start"),
    ("many_results", "cost too much to compile"),
    ("wasi_http", "no network"),
    ("no_manifest", "no manifest"),
];

/// A node that leads, with a directory of plugins.
struct Site {
    directory: TempDir,
    _database: Database,
    clock: SharedClock,
    handle: RuntimeHandle,
    leadership: watch::Receiver<Leadership>,
}

impl Site {
    async fn start(kind: Kind) -> Self {
        let directory = TempDir::new().expect("a directory");
        for name in ["objects", "plugins"] {
            std::fs::create_dir(directory.path().join(name)).expect("a directory");
        }
        let database = Database::create(kind).await.expect("a database");
        let clock: SharedClock = Arc::new(SystemClock);
        let url = database.url().parse().expect("a URL");
        let log = Log::open(&url, LogOptions::default(), clock.clone()).await;
        let lease = LeaseOptions::new(database.url(), "a");
        let keeper = Keeper::start(lease, clock.clone()).expect("a keeper");
        let leadership = keeper.leadership();
        let objects = directory.path().join("objects");
        let store = format!("-2@file://{}", objects.display());
        let store = store.parse().expect("a URI");
        let engine = Engine::new(EngineOptions::default(), clock.clone());
        let parts = Parts {
            clock: clock.clone(),
            engine: Arc::new(engine.expect("an engine")),
            log: log.expect("a log"),
            keeper,
            store: Store::open(&store, StoreOptions::default(), clock.clone()).expect("a store"),
        };
        let builtin = |name: &str, bytes: &[u8]| {
            let mut settings = PluginSettings::default();
            settings.schedule.interval = Some(Duration::from_millis(100));
            settings.schedule.jitter = Some(Duration::ZERO);
            Builtin {
                name: name.to_owned(),
                bytes: bytes.into(),
                settings,
            }
        };
        let options = RuntimeOptions {
            node: "a".to_owned(),
            builtins: vec![builtin("cleaner", CLEANER), builtin("expiry", EXPIRY)],
            plugin_dir: Some(directory.path().join("plugins")),
            settle: Duration::from_millis(10),
            rescan: Duration::from_millis(100),
            ..RuntimeOptions::default()
        };
        let handle = Runtime::start(options, parts).await.expect("it starts");
        let site = Self {
            directory,
            _database: database,
            clock,
            handle,
            leadership,
        };
        site.until("it leads", |status| {
            status.role == Role::Holder && builtins(status).iter().all(|plugin| plugin.ticks > 0)
        })
        .await;
        site
    }

    async fn until(&self, what: &str, mut holds: impl FnMut(&Status) -> bool) -> Arc<Status> {
        let mut watch = self.handle.watch();
        let reached = self.clock.timeout(LONG, async {
            loop {
                let now = watch.borrow_and_update().clone();
                if holds(&now) {
                    return now;
                }
                watch.changed().await.expect("the runtime runs");
            }
        });
        match reached.await {
            Ok(status) => status,
            Err(_) => panic!("not within {LONG:?}: {what}; {:#?}", self.handle.status()),
        }
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join("plugins").join(name)
    }

    /// Put a guest into the directory, granted all that it asks for.
    fn put(&self, name: &str) {
        let bytes = guest(name);
        let settings = "grants = [\"state\", \"metrics\", \"storage.delete\", \"storage.list\", \
             \"storage.read\", \"storage.head\", \"commands.put-kv\", \"commands.delete-kv\", \
             \"commands.expire-reservations\", \"commands.clean-destroyed\"]\n\
             [schedule]\ninterval = \"50ms\"\njitter = \"0s\"\n\
             [limits]\nmemory = \"16 MiB\"\ncpu = \"1s\"\nwall = \"20s\"\n\
             commands = 50\nstorage-operations = 50\n";
        std::fs::write(self.file("guest.toml"), settings).expect("written");
        // It appears at once as a whole.
        let incoming = self.file(".incoming");
        std::fs::write(&incoming, bytes).expect("written");
        std::fs::rename(incoming, self.file("guest.wasm")).expect("renamed");
    }

    async fn remove(&self) {
        std::fs::remove_file(self.file("guest.wasm")).expect("removed");
        self.until("it is gone", |status| {
            status.plugins.len() == 2 && status.problems.is_empty()
        })
        .await;
    }

    /// The built-in plugins tick on, each twice more than it had.
    async fn goes_on(&self, what: &str, before: &Status) {
        let before: Vec<u64> = builtins(before).iter().map(|plugin| plugin.ticks).collect();
        let status = self
            .until(&format!("beside {what} they go on"), |status| {
                builtins(status)
                    .iter()
                    .zip(&before)
                    .all(|(now, before)| now.ticks >= before + 2)
            })
            .await;
        for plugin in builtins(&status) {
            assert_eq!(plugin.failed, 0, "beside {what}: {plugin:?}");
        }
    }
}

fn builtins(status: &Status) -> Vec<&PluginStatus> {
    let plugins = status.plugins.iter();
    plugins
        .filter(|plugin| plugin.origin == "built-in")
        .collect()
}

fn third(status: &Status) -> Option<&PluginStatus> {
    let mut plugins = status.plugins.iter();
    plugins.find(|plugin| Path::new(&plugin.origin).ends_with("guest.wasm"))
}

async fn all_in_turn(kind: Kind) {
    let mut site = Site::start(kind).await;
    let held = site.leadership.borrow_and_update().clone();
    let (term, authority) = held.holding().expect("it leads");
    // What the first modules cost is there from now on.
    site.put("well_behaved");
    site.until("it ran", |status| {
        third(status).is_some_and(|third| third.ticks > 0)
    })
    .await;
    site.remove().await;
    let (base, peak) = (resident(), Peak::start());
    for (name, outcome, text) in GUESTS {
        let before = site.handle.status();
        site.put(name);
        let status = site
            .until(name, |status| {
                third(status).is_some_and(|third| third.last.is_some())
            })
            .await;
        let last = third(&status).and_then(|third| third.last.as_ref());
        let last = last.expect("it was seen");
        assert_eq!(last.outcome, outcome, "{name}: {last:?}");
        assert!(last.summary.contains(text), "{name}: {last:?}");
        site.goes_on(name, &before).await;
        site.remove().await;
        assert!(authority.holds(), "{name}");
    }
    for (name, text) in REFUSED {
        let before = site.handle.status();
        site.put(name);
        let status = site.until(name, |status| !status.problems.is_empty()).await;
        let problem = &status.problems[0];
        assert!(problem.text.contains(text), "{name}: {problem:?}");
        assert!(third(&status).is_none(), "{name}");
        site.goes_on(name, &before).await;
        site.remove().await;
    }
    let more = peak.more();
    println!(
        "{kind:?}: {} MiB at first, at most {} MiB more",
        base >> 20,
        more >> 20
    );
    assert!(more <= MEMORY + (8 << 20), "{more} bytes more");
    // Through all of it: one term, and nothing happened to it.
    let changed = site.leadership.has_changed().expect("the keeper is there");
    let now = site.leadership.borrow().clone();
    assert!(!changed, "{now:?}");
    assert!(authority.holds());
    assert_eq!(now.holding().map(|(term, _)| term), Some(term));
    site.handle.stop().await;
}

/// One after the other, since it measures the memory of this process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_built_in_plugins_and_the_lease_go_on_beside_every_hostile_one() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        all_in_turn(kind).await;
    }
}
