//! `aedile run`: contend for the lease and work while holding it.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::SharedClock;
use aedile_engine::{Engine, EngineOptions};
use aedile_lease::{Keeper, LeaseOptions};
use aedile_log::{Log, LogOptions, MetaUrl, Reader};
use aedile_runtime::plan::LeftObject;
use aedile_runtime::{Outcome, Parts, Runtime, RuntimeOptions};
use aedile_storage::{StorageUri, Store, StoreOptions};
use tokio_util::sync::CancellationToken;

use crate::commands::store_facts;
use crate::config::{Config, misspelt_variables};
use crate::exit::Exit;
use crate::output::{self, figures};
use crate::{builtins, commands, settings, signals, version};

/// Everything that was configured, parsed: a mistake is found before anything
/// is opened.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) url: MetaUrl,
    pub(crate) storage: StorageUri,
    pub(crate) store: StoreOptions,
    pub(crate) runtime: RuntimeOptions,
    pub(crate) log: LogOptions,
    pub(crate) lease: LeaseOptions,
}

impl Setup {
    /// Parse the configuration.
    pub(crate) fn new(config: &Config) -> anyhow::Result<Self> {
        let url = config.meta_url()?;
        let storage = config.storage()?;
        let store = StoreOptions {
            keys_per_second: config.delete_rate()?,
            ..StoreOptions::default()
        };
        let runtime = runtime_options(config)?;
        let lease = LeaseOptions {
            take_over: config.switch(settings::TAKE_OVER)?,
            ..LeaseOptions::new(url.expose(), runtime.node.clone()).with_ttl(config.ttl()?)
        };
        lease.validate()?;
        let log = LogOptions {
            node: runtime.node.clone(),
            snapshot_every: config.snapshot_every()?,
            ..LogOptions::default()
        };
        Ok(Self {
            url,
            storage,
            store,
            runtime,
            log,
            lease,
        })
    }
}

/// The runtime's options as configured.
pub(crate) fn runtime_options(config: &Config) -> anyhow::Result<RuntimeOptions> {
    let defaults = RuntimeOptions::default();
    let options = RuntimeOptions {
        node: config.node()?,
        version: version::NUMBER.to_owned(),
        builtins: builtins::configured(config)?,
        plugin_dir: config.plugin_dir()?,
        trust: config.trust()?,
        stop_file: config.stop_file(),
        roll_back_after: config
            .roll_back_after()?
            .unwrap_or(defaults.roll_back_after),
        confirm_empty_store: config.switch(settings::CONFIRM_EMPTY_STORE)?,
        orphans: config.orphans()?,
        heartbeat: config.heartbeat()?.unwrap_or(defaults.heartbeat),
        ..defaults
    };
    options.validate()?;
    Ok(options)
}

/// Run until a signal, or until nothing is left to do.
pub(crate) async fn run(config: &Config) -> anyhow::Result<Exit> {
    let stop = signals::stop_token()?;
    version::warn_if_unguarded();
    for (name, meant) in misspelt_variables() {
        tracing::warn!("the environment variable {name} is not read; did you mean {meant}?");
    }
    let until_idle = config.switch(settings::UNTIL_IDLE)?;
    let wait = config.wait()?;
    let json = config.switch(settings::JSON)?;
    let setup = Setup::new(config)?;
    let clock = commands::clock();
    tracing::info!(
        version = version::TEXT,
        node = setup.runtime.node,
        database = %setup.url,
        storage = %setup.storage,
        ttl = %humantime::format_duration(setup.lease.ttl),
        "starting"
    );
    let opened = tokio::select! {
        opened = open(&setup, clock) => opened?,
        () = stop.cancelled() => return Ok(if until_idle { Exit::Stopped } else { Exit::Ok }),
    };
    if until_idle {
        return pass(setup.runtime, opened, wait, stop, json).await;
    }
    let handle = Runtime::start(setup.runtime, opened).await?;
    let mut status = handle.watch();
    // A runtime that ends by itself drops its status.
    let gone = tokio::select! {
        () = stop.cancelled() => false,
        () = async { while status.changed().await.is_ok() {} } => true,
    };
    handle.stop().await;
    if gone {
        anyhow::bail!("the runtime ended by itself; the log says why");
    }
    tracing::info!("stopped");
    Ok(Exit::Ok)
}

/// Open the adapters. The storage comes first, as looking at it changes
/// nothing: opening the log may create tables.
async fn open(setup: &Setup, clock: SharedClock) -> anyhow::Result<Parts> {
    let engine = Arc::new(Engine::new(EngineOptions::default(), clock.clone())?);
    let store = Store::open(&setup.storage, setup.store.clone(), clock.clone())?;
    store_facts::say(&store).await?;
    look(&setup.url, &clock).await?;
    let log = Log::open(&setup.url, setup.log.clone(), clock.clone()).await?;
    let keeper = match Keeper::start(setup.lease.clone(), clock.clone()) {
        Ok(keeper) => keeper,
        Err(error) => {
            log.close().await;
            return Err(error.into());
        }
    };
    Ok(Parts {
        clock,
        engine,
        log,
        keeper,
        store,
    })
}

/// Read what is there before anything is written: opening the log makes tables
/// and switches a SQLite file to write-ahead logging, also a foreign one.
async fn look(url: &MetaUrl, clock: &SharedClock) -> anyhow::Result<()> {
    if url.path().is_some_and(|path| !path.exists()) {
        // It is to be made.
        return Ok(());
    }
    let reader = Reader::open(url, clock).await?;
    let tables = reader.tables().await;
    reader.close().await;
    tables?;
    Ok(())
}

/// One pass, and what it left.
async fn pass(
    options: RuntimeOptions,
    parts: Parts,
    wait: Option<Duration>,
    stop: CancellationToken,
    json: bool,
) -> anyhow::Result<Exit> {
    let outcome = Runtime::run_until_idle(options, parts, wait, stop).await?;
    if json {
        output::json(&outcome)?;
    } else {
        print(&outcome);
    }
    Ok(exit_of(&outcome))
}

fn exit_of(outcome: &Outcome) -> Exit {
    match outcome {
        Outcome::Idle { .. } => Exit::Ok,
        Outcome::LeftOver { .. } if outcome.only_conflicts_and_parked() => Exit::LeftOver,
        Outcome::LeftOver {
            failed,
            store_suspect,
            ..
        } if store_suspect.is_some() || !failed.is_empty() => Exit::Storage,
        Outcome::LeftOver { .. } => Exit::Plugin,
    }
}

fn print(outcome: &Outcome) {
    let totals = outcome.totals();
    output::line(&format!(
        "deleted {}, cleaned {}, expired {}, {} in {}",
        figures::count(totals.deleted, "object"),
        figures::count(totals.cleaned, "mark"),
        figures::count(totals.expired, "reservation"),
        figures::count(totals.commands, "other command"),
        figures::count(totals.ticks, "tick"),
    ));
    let Outcome::LeftOver {
        parked,
        conflicts,
        failed,
        plugins,
        store_suspect,
        ..
    } = outcome
    else {
        output::line("nothing is left");
        return;
    };
    if let Some(doubt) = store_suspect {
        output::line(&format!(
            "the storage is in doubt, so nothing was deleted: {doubt}"
        ));
    }
    left(
        "conflicts: marks that contradict the catalog, never acted on",
        conflicts,
    );
    left(
        "parked: kept until what is wrong is mended; a node that keeps running puts them on `aedile parked list`",
        parked,
    );
    left("could not be deleted", failed);
    for (plugin, reason) in plugins {
        output::line(&format!("plugin {plugin} failed: {reason}"));
    }
}

fn left(title: &str, objects: &[LeftObject]) {
    if objects.is_empty() {
        return;
    }
    output::line(&format!("{title} ({}):", objects.len()));
    let (shown, more) = output::cut(objects, Some(commands::LISTED));
    for object in shown {
        output::line(&format!(
            "  object {} ({}): {}",
            object.id, object.operation, object.reason
        ));
    }
    if let Some(more) = more {
        output::line(&format!(
            "  {}",
            more.replace("--all", "`aedile plan --all`")
        ));
    }
}

#[cfg(test)]
mod tests {
    use aedile_runtime::PassTotals;

    use super::*;

    fn object() -> LeftObject {
        LeftObject {
            id: 1,
            operation: "delete".to_owned(),
            reason: "live".to_owned(),
        }
    }

    #[test]
    fn what_is_left_decides_the_exit_code() {
        let totals = PassTotals::default();
        let left = |conflict: bool, failed: bool, plugin: bool, doubt: bool| Outcome::LeftOver {
            totals,
            parked: Vec::new(),
            conflicts: conflict.then(object).into_iter().collect(),
            failed: failed.then(object).into_iter().collect(),
            plugins: plugin
                .then(|| ("a".to_owned(), "b".to_owned()))
                .into_iter()
                .collect(),
            store_suspect: doubt.then(|| "wrong bucket".to_owned()),
        };
        for (outcome, exit) in [
            (Outcome::Idle { totals }, Exit::Ok),
            (left(true, false, false, false), Exit::LeftOver),
            (left(true, true, false, false), Exit::Storage),
            (left(false, false, false, true), Exit::Storage),
            (left(true, false, true, false), Exit::Plugin),
        ] {
            assert_eq!(exit_of(&outcome), exit, "{outcome:?}");
        }
    }
}
