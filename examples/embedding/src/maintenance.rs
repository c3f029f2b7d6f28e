//! The runtime as a library: its parts, its plugins, its start.

use std::sync::Arc;

use aedile_clock::{SharedClock, SystemClock};
use aedile_engine::{Engine, EngineOptions};
use aedile_lease::{Keeper, LeaseOptions};
use aedile_log::{Log, LogOptions, MetaUrl};
use aedile_runtime::{Builtin, Parts, PluginSettings, Runtime, RuntimeHandle, RuntimeOptions};
use aedile_storage::{StorageUri, Store, StoreOptions};

/// The plugins that this service ships: modules are bytes, from wherever a
/// program has them.
const PLUGINS: [(&str, &[u8]); 2] = [
    (
        "expiry",
        include_bytes!("../../../host/cli/modules/expiry.wasm"),
    ),
    (
        "cleaner",
        include_bytes!("../../../host/cli/modules/cleaner.wasm"),
    ),
];

/// Name of this node in the lease and in `aedile status`.
const NODE: &str = "embedding";

/// Start contending for the lease, and working while it is held. It is all in
/// tasks of the runtime that this is called on, but for the lease's renewal,
/// which has a thread of its own: no load on the service delays it.
///
/// # Errors
/// A URL that cannot be read, a database or store that cannot be opened.
pub(crate) async fn start(database: &str, storage: &str) -> anyhow::Result<RuntimeHandle> {
    let clock: SharedClock = Arc::new(SystemClock);
    let url: MetaUrl = database.parse()?;
    let storage: StorageUri = storage.parse()?;
    let engine = Arc::new(Engine::new(EngineOptions::default(), clock.clone())?);
    let store = Store::open(&storage, StoreOptions::default(), clock.clone())?;
    let log = LogOptions {
        node: NODE.to_owned(),
        ..LogOptions::default()
    };
    let log = Log::open(&url, log, clock.clone()).await?;
    let lease = LeaseOptions::new(url.expose(), NODE);
    let keeper = match Keeper::start(lease, clock.clone()) {
        Ok(keeper) => keeper,
        Err(error) => {
            log.close().await;
            return Err(error.into());
        }
    };
    let parts = Parts {
        clock,
        engine,
        log,
        keeper,
        store,
    };
    let builtins = PLUGINS.map(|(name, bytes)| Builtin {
        name: name.to_owned(),
        bytes: bytes.into(),
        settings: PluginSettings::default(),
    });
    let options = RuntimeOptions {
        node: NODE.to_owned(),
        builtins: builtins.into(),
        ..RuntimeOptions::default()
    };
    Ok(Runtime::start(options, parts).await?)
}
