//! One execution of a plugin: what goes in and what comes out.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::host::Host;
use crate::limits::LimitName;
use crate::wit::Report;

/// What a tick is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickInput {
    /// Time of the tick by the database's clock, in milliseconds since the Unix epoch.
    pub now: i64,
    /// Name of the plugin as it was deployed.
    pub plugin: String,
    /// Name of this node.
    pub node: String,
    /// Epoch of the lease.
    pub epoch: u64,
    /// Configuration: JSON text, an object.
    pub config: String,
    /// Seed for the plugin's choices.
    pub seed: u64,
}

/// What a tick heeds while it runs.
#[derive(Clone)]
pub struct Control {
    /// Whether the term still stands. Asked every 10 ms while the plugin's code
    /// runs and before and after every host call; it must be cheap.
    pub authority: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Cancelled: the plugin is asked to return soon (`job.should-stop`). It
    /// does not end the tick.
    pub stop: CancellationToken,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("holds", &(self.authority)())
            .field("stop", &self.stop.is_cancelled())
            .finish()
    }
}

/// A tick that has ended. Nothing of it runs on.
#[must_use]
pub struct Tick {
    /// How it ended.
    pub end: TickEnd,
    /// What it used.
    pub usage: Usage,
    /// Figures that the plugin set.
    pub metrics: Metrics,
    /// The host that was passed in; none if it panicked.
    pub host: Option<Box<dyn Host>>,
}

impl fmt::Debug for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tick")
            .field("end", &self.end)
            .field("usage", &self.usage)
            .field("metrics", &self.metrics)
            .field("host", &self.host.is_some())
            .finish()
    }
}

/// How a tick ended. Texts that come from the plugin are one line, escaped and
/// cut to 4 KiB.
#[derive(Clone, Debug, PartialEq)]
pub enum TickEnd {
    /// It did its work and nothing is waiting.
    Done(Report),
    /// It did its work and more is waiting.
    More(Report),
    /// It asks to be called again later.
    Retry {
        /// How long to wait at least; zero leaves it to the caller.
        after: Duration,
        /// Why.
        reason: String,
    },
    /// Trying again is of no use until an operator acts.
    Reject {
        /// Why, and what to do.
        reason: String,
    },
    /// Its code trapped.
    Trap {
        /// The trap, the plugin's own last words if it left any, and a hint.
        message: String,
    },
    /// It exceeded a limit.
    Limit {
        /// Which.
        which: LimitName,
        /// By what.
        detail: String,
    },
    /// The term ended first.
    LeaseLost,
    /// The host failed or panicked: not the plugin's fault.
    HostError(String),
}

impl fmt::Display for TickEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(report) if report.summary.is_empty() => f.write_str("done"),
            Self::Done(report) => write!(f, "done: {}", report.summary),
            Self::More(report) => write!(f, "done for now: {}", report.summary),
            Self::Retry { after, reason } if after.is_zero() => write!(f, "to retry: {reason}"),
            Self::Retry { after, reason } => write!(f, "to retry in {after:?}: {reason}"),
            Self::Reject { reason } => write!(f, "rejected: {reason}"),
            Self::Trap { message } => write!(f, "trapped: {message}"),
            Self::Limit { which, detail } => write!(f, "limit `{which}` exceeded: {detail}"),
            Self::LeaseLost => f.write_str("the lease was lost"),
            Self::HostError(text) => write!(f, "the host failed: {text}"),
        }
    }
}

/// What a tick used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time that counts against [`Limits::cpu`](crate::Limits::cpu).
    pub cpu: Duration,
    /// Time from start to end.
    pub wall: Duration,
    /// Largest sum of linear memories, in bytes.
    pub peak_memory: usize,
    /// Instructions, as [`EngineOptions::count_fuel`](crate::EngineOptions::count_fuel)
    /// counts them; 0 where they are not counted.
    pub fuel: u64,
    /// Log lines passed on.
    pub log_lines: u64,
    /// Log lines dropped past [`Limits::log_bytes`](crate::Limits::log_bytes).
    pub log_dropped: u64,
    /// Commands proposed.
    pub commands: u64,
    /// Requests to the store.
    pub storage_operations: u64,
}

/// Figures that a tick set, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// What is to be added to counters.
    pub counters: BTreeMap<String, u64>,
    /// Gauges, each with its last value.
    pub gauges: BTreeMap<String, f64>,
    /// Calls dropped: a bad name, a value that is no number, or too many names.
    pub dropped: u64,
}
