//! The runtime as a whole: start, status, stop; and a single pass.

#[cfg(feature = "bench")]
pub mod bench;

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::SharedClock;
use aedile_engine::Engine;
use aedile_lease::Keeper;
use aedile_log::Log;
use aedile_storage::Store;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::entropy::Entropy;
use crate::error::RuntimeError;
use crate::guard::{Aside, Tries};
use crate::options::RuntimeOptions;
use crate::plan::LeftObject;
use crate::schedule::Policy;
use crate::shared::{Shared, SharedParts};
use crate::source::{LOADING, Origin, PluginSet, Sources};
use crate::status::Status;
use crate::stopfile;
use crate::supervisor::Supervisor;
use crate::term::Book;

/// The adapters that the runtime works with. It owns them from then on and
/// closes them when it stops.
#[derive(Debug)]
pub struct Parts {
    /// Time.
    pub clock: SharedClock,
    /// The Wasm engine.
    pub engine: Arc<Engine>,
    /// The metadata log.
    pub log: Log,
    /// The lease.
    pub keeper: Keeper,
    /// The object store.
    pub store: Store,
}

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassTotals {
    /// Ticks that ran.
    pub ticks: u64,
    /// Objects whose bytes are gone.
    pub deleted: u64,
    /// Those of `deleted` that went as parts of a composite.
    #[serde(default)]
    pub parts: u64,
    /// Marks that left the destroyed queue.
    pub cleaned: u64,
    /// Reservations that expired.
    pub expired: u64,
    /// Other commands that changed the state.
    pub commands: u64,
}

/// How a single pass ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// Nothing is left to do.
    Idle {
        /// What it did.
        totals: PassTotals,
    },
    /// Something was left.
    LeftOver {
        /// What it did.
        totals: PassTotals,
        /// Marks that stay until an operator does something: of composites whose
        /// links cannot be read.
        parked: Vec<LeftObject>,
        /// Marks that contradict the catalog.
        conflicts: Vec<LeftObject>,
        /// Objects that could not be deleted.
        failed: Vec<LeftObject>,
        /// Plugins whose tick failed: name and reason.
        plugins: Vec<(String, String)>,
        /// A doubt about the store as a whole.
        store_suspect: Option<String>,
    },
}

impl Outcome {
    /// What the pass did.
    pub fn totals(&self) -> PassTotals {
        match self {
            Self::Idle { totals } | Self::LeftOver { totals, .. } => *totals,
        }
    }

    /// Whether what is left is only conflicts and parked objects: nothing that
    /// another pass would change.
    pub fn only_conflicts_and_parked(&self) -> bool {
        match self {
            Self::Idle { .. } => false,
            Self::LeftOver {
                failed,
                plugins,
                store_suspect,
                ..
            } => failed.is_empty() && plugins.is_empty() && store_suspect.is_none(),
        }
    }
}

/// Longest that a stop waits for what the store does later.
const SETTLE: Duration = Duration::from_secs(2);

/// The way to start the runtime.
#[derive(Debug)]
pub struct Runtime;

impl Runtime {
    /// Start following the leadership. Returns once the plugins that are there
    /// are loaded; everything else is in the status.
    ///
    /// # Errors
    /// An option out of range, a built-in plugin that does not load, or a plugin
    /// directory that is not there. The parts are closed then.
    pub async fn start(
        options: RuntimeOptions,
        parts: Parts,
    ) -> Result<RuntimeHandle, RuntimeError> {
        // What is not there in time is loaded while the rest runs.
        let opened = open(&options, &parts, options.catch_up).await;
        let (sources, set) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                close(parts.keeper, parts.log).await;
                return Err(error);
            }
        };
        let path = options.plugin_dir.clone();
        let log = parts.log.clone();
        let tries = Tries::OnTheCurve(options.retries);
        let (shared, keeper) = share(options, parts, set, tries);
        let stop = CancellationToken::new();
        let status = watch::Sender::new(Arc::new(shared.status()));
        let receiver = status.subscribe();
        let views = log.views();
        let follow = sources.follow(shared.set.clone(), views, stop.clone(), path);
        let follow = tokio::spawn(follow);
        let stops = shared.options.stop_file.clone().map(|path| {
            let (stops, clock) = (shared.stops.clone(), shared.clock.clone());
            tokio::spawn(stopfile::follow(path, stops, clock, stop.clone()))
        });
        let supervisor = Supervisor::new(shared.clone(), keeper, status);
        let (stopping, ended) = (stop.clone(), stop.clone().drop_guard());
        let (store, clock) = (shared.store.clone(), shared.clock.clone());
        let work = tokio::spawn(async move {
            supervisor.run(stopping).await;
            // Whoever ends first takes the rest with it.
            drop(ended);
            let _ = follow.await;
            if let Some(stops) = stops {
                let _ = stops.await;
            }
            log.close().await;
            if clock.timeout(SETTLE, store.settle()).await.is_err() {
                let objects = store.unsettled();
                tracing::info!(
                    objects,
                    "stopped; empty directories of deleted objects are left"
                );
            }
        });
        Ok(RuntimeHandle {
            shared,
            status: receiver,
            stop,
            work: Some(work),
        })
    }

    /// One pass: acquire the lease as usual, tick every plugin until nothing is
    /// left to do, trying each object once, then release and close everything.
    ///
    /// `wait` bounds how long the lease is waited for; none waits until
    /// `stop` is cancelled.
    ///
    /// # Errors
    /// The lease was not to be had, it was lost on the way, or a part failed.
    pub async fn run_until_idle(
        options: RuntimeOptions,
        parts: Parts,
        wait: Option<Duration>,
        stop: CancellationToken,
    ) -> Result<Outcome, RuntimeError> {
        let set = match open(&options, &parts, LOADING).await {
            Ok((_, set)) => set,
            Err(error) => {
                close(parts.keeper, parts.log).await;
                return Err(error);
            }
        };
        let (shared, keeper) = share(options, parts, set, Tries::Once);
        let outcome = crate::pass::run(&shared, &keeper, wait, &stop).await;
        close(keeper, shared.log.clone()).await;
        tokio::select! {
            () = shared.store.settle() => {}
            () = stop.cancelled() => {}
        }
        outcome
    }
}

async fn open(
    options: &RuntimeOptions,
    parts: &Parts,
    bound: Duration,
) -> Result<(Sources, PluginSet), RuntimeError> {
    options.validate()?;
    let state = parts.log.view().state.clone();
    let (engine, clock) = (parts.engine.clone(), parts.clock.clone());
    let origin = Origin {
        state: &state,
        store: parts.store.clone(),
        bound,
    };
    Sources::open(options, engine, clock, origin).await
}

async fn close(keeper: Keeper, log: Log) {
    keeper.stop().await;
    log.close().await;
}

fn share(
    options: RuntimeOptions,
    parts: Parts,
    set: PluginSet,
    tries: Tries,
) -> (Arc<Shared>, Keeper) {
    let policy = Policy {
        failures: options.failures,
        quarantine: options.quarantine,
        reject_wait: options.reject_wait,
    };
    let shared = Shared::new(SharedParts {
        entropy: Arc::new(Entropy::new(options.seed)),
        book: Arc::new(Book::new(parts.clock.clone(), policy)),
        aside: Arc::new(Aside::new(tries)),
        options,
        clock: parts.clock,
        log: parts.log,
        store: parts.store,
        set,
        leadership: parts.keeper.leadership(),
        holder: parts.keeper.holder().to_owned(),
    });
    (shared, parts.keeper)
}

/// A running runtime. Dropping it without [`RuntimeHandle::stop`] asks it to stop
/// and waits for nothing.
#[derive(Debug)]
pub struct RuntimeHandle {
    shared: Arc<Shared>,
    status: watch::Receiver<Arc<Status>>,
    stop: CancellationToken,
    work: Option<JoinHandle<()>>,
}

impl RuntimeHandle {
    /// What the runtime knows about itself now.
    pub fn status(&self) -> Arc<Status> {
        Arc::new(self.shared.status())
    }

    /// The status as it changes, at most five times a second. The sender is
    /// dropped when the runtime has stopped.
    pub fn watch(&self) -> watch::Receiver<Arc<Status>> {
        self.status.clone()
    }

    /// Stop: the ticks end, the lease is released, the log is closed; every
    /// task has been joined when this returns.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(work) = self.work.take()
            && let Err(error) = work.await
        {
            tracing::error!(%error, "the runtime did not end well");
        }
    }
}

impl Drop for RuntimeHandle {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
