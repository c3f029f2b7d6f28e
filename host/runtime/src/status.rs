//! What the runtime knows about itself: what `aedile status` and the heartbeat
//! row show.

use serde::{Deserialize, Serialize};

use crate::plan::LeftObject;
use crate::source::Problem;

/// What this node is at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It has not looked yet.
    #[default]
    Starting,
    /// It does not contend; the detail says why.
    Ineligible,
    /// Another holds the lease, or nobody does yet.
    Follower,
    /// It holds the lease.
    Holder,
    /// The lease's database does not answer.
    Unreachable,
    /// The lease's database refuses writes.
    WrongRole,
    /// It has stopped.
    Stopped,
}

/// How a plugin stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginState {
    /// It waits for this node to lead.
    #[default]
    Ready,
    /// It waits for its next tick.
    Waiting,
    /// It runs a tick.
    Running,
    /// Its last tick failed; it waits longer before the next.
    Backoff,
    /// It failed too often in a row; it is tried again after a longer time.
    Quarantined,
    /// The operator turned it off.
    Disabled,
}

/// How the last tick of a plugin ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastTick {
    /// When it began, in Unix milliseconds by this node's clock.
    pub started: i64,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// How it ended: `done`, `more`, `retry`, `reject`, `trap`, `limit`,
    /// `lease-lost`, `host-error`.
    pub outcome: String,
    /// What it says about itself, or what went wrong.
    pub summary: String,
}

/// One plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PluginStatus {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Digest of the module that really runs, in hexadecimal.
    pub digest: String,
    /// Where it comes from: `built-in`, or the file's path.
    pub origin: String,
    /// How it stands.
    pub state: PluginState,
    /// Its last tick on this node.
    pub last: Option<LastTick>,
    /// When its next tick is due, in Unix milliseconds by this node's clock;
    /// none while this node does not lead.
    pub next: Option<i64>,
    /// Ticks since the process began.
    pub ticks: u64,
    /// Failed ticks since the process began.
    pub failed: u64,
    /// Failures in a row.
    pub failures: u32,
    /// Modules swapped in since the process began, the first one included.
    pub loads: u64,
    /// Why the last failure happened.
    pub error: Option<String>,
    /// Counters and gauges of the plugin.
    pub metrics: std::collections::BTreeMap<String, f64>,
}

/// What waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// Marks in the destroyed queue.
    pub destroyed: u64,
    /// Reservations.
    pub reservations: u64,
    /// Objects in the catalog.
    pub objects: u64,
    /// Marks that this version does not handle.
    pub parked: u64,
    /// Marks that contradict the catalog, as far as they were met.
    pub conflicts: u64,
    /// Objects that could not be deleted and wait to be tried again.
    pub backed_off: u64,
}

/// What the runtime knows about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Name of this node.
    pub node: String,
    /// Name under which this node holds the lease.
    pub holder: String,
    /// Version of the program.
    pub version: String,
    /// When the process began, in Unix milliseconds by this node's clock.
    pub started: i64,
    /// What this node is.
    pub role: Role,
    /// More about the role: who leads, or why this node does not contend.
    pub detail: String,
    /// Epoch of the lease: this node's if it leads, else the one last seen.
    pub epoch: u64,
    /// What is left of the authority, in milliseconds; none unless this node leads.
    pub authority_ms: Option<u64>,
    /// Terms that this process has held.
    pub terms: u64,
    /// Index of the last applied log row.
    pub applied_index: u64,
    /// What is wrong with the log; none if nothing is.
    pub log: Option<String>,
    /// A doubt about the store as a whole; nothing is deleted while it stands.
    pub store_suspect: Option<String>,
    /// The plugins by name.
    pub plugins: Vec<PluginStatus>,
    /// Plugin files that do not run, and why.
    pub problems: Vec<Problem>,
    /// What waits.
    pub backlog: Backlog,
    /// Marks by the reason for which they are parked (text, how many).
    pub parked_reasons: Vec<(String, u64)>,
    /// Some of the parked objects: at most [`Status::LISTED`].
    pub parked: Vec<LeftObject>,
    /// Some of the conflicts: at most [`Status::LISTED`].
    pub conflicts: Vec<LeftObject>,
    /// Some of the objects that could not be deleted: at most [`Status::LISTED`].
    pub failing: Vec<LeftObject>,
}

impl Status {
    /// Most entries of each list.
    pub const LISTED: usize = 100;
}
