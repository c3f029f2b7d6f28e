//! What the runtime knows about itself: what `aedile status` and the heartbeat
//! row show.

use serde::{Deserialize, Serialize};

use crate::parked::ParkedProblem;
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
    /// The stop file of this node names it: it does not tick here.
    Stopped,
    /// Nothing of it runs here: what is wanted says why.
    Absent,
}

/// The newest revision of a deployed plugin, and how far this node is with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Its number.
    pub number: u64,
    /// Digest of its module; empty of the one that is built in, and of a
    /// revision that cannot be read.
    pub digest: String,
    /// Version of its module, as the revision has it.
    pub version: String,
    /// How far this node is with it.
    #[serde(flatten)]
    pub state: WantedState,
}

/// How far a node is with a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum WantedState {
    /// It is the one that runs, or that rests if it is disabled.
    #[default]
    Running,
    /// Its module is being fetched.
    Fetching,
    /// Its module is being compiled.
    Compiling,
    /// It is ready, and takes over when the tick of the version before it ends.
    Swapping,
    /// It wants more than it was granted.
    NeedsApproval {
        /// The grants that are missing.
        missing: Vec<String>,
        /// The command that gives them.
        command: String,
    },
    /// It cannot run on this node.
    Refused {
        /// Why, and what to do.
        reason: String,
    },
    /// It could not be had, and is tried again.
    Retrying {
        /// Why.
        reason: String,
        /// How often it was tried.
        tries: u32,
    },
    /// It plans beside the version before it, and nothing of it is applied.
    Canary {
        /// Ticks that it has planned on this node; a new holder begins again.
        done: u32,
        /// How many there are to be.
        of: u32,
        /// In how many it would have done something else.
        differing: u32,
        /// The last difference.
        last: Option<String>,
    },
}

impl WantedState {
    /// The word for it, as in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Fetching => "fetching",
            Self::Compiling => "compiling",
            Self::Swapping => "swapping",
            Self::NeedsApproval { .. } => "needs-approval",
            Self::Refused { .. } => "refused",
            Self::Retrying { .. } => "retrying",
            Self::Canary { .. } => "canary",
        }
    }
}

/// That a version was taken back by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolledBack {
    /// The revision that was taken back.
    pub number: u64,
    /// Version of its module.
    pub version: String,
    /// Digest of its module.
    pub digest: String,
    /// The node that did it.
    pub by: String,
    /// Why.
    pub why: String,
    /// When, by the database's clock in Unix milliseconds.
    pub at: i64,
}

/// The limits that a plugin runs with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveLimits {
    /// Bytes of linear memory.
    pub memory: u64,
    /// Time of its own code a tick, in milliseconds.
    pub cpu_ms: u64,
    /// Time of a tick from start to end, in milliseconds.
    pub wall_ms: u64,
    /// Bytes that one host call may carry in each direction.
    pub host_call_bytes: u64,
    /// Bytes of log lines a tick.
    pub log_bytes: u64,
    /// Commands a tick.
    pub commands: u64,
    /// Requests to the store a tick.
    pub storage_operations: u64,
}

impl From<&aedile_engine::Limits> for EffectiveLimits {
    fn from(limits: &aedile_engine::Limits) -> Self {
        let millis =
            |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            memory: limits.memory as u64,
            cpu_ms: millis(limits.cpu),
            wall_ms: millis(limits.wall),
            host_call_bytes: limits.host_call_bytes as u64,
            log_bytes: limits.log_bytes as u64,
            commands: limits.commands,
            storage_operations: limits.storage_operations,
        }
    }
}

/// What this node's stop file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopFile {
    /// Its path.
    pub path: String,
    /// The plugins that it stops; `*` stops all.
    pub plugins: Vec<String>,
    /// Why it is not heeded, or a name in it that no plugin has.
    pub problem: Option<String>,
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
    /// Where it comes from: `built-in`, the file's path, or the revision.
    pub origin: String,
    /// The revision that runs; none of a file or of what the binary has.
    #[serde(default)]
    pub revision: Option<u64>,
    /// The revision that is to run; none if nothing was deployed.
    #[serde(default)]
    pub wanted: Option<Wanted>,
    /// The version that was taken back by itself, until the next deploy.
    #[serde(default)]
    pub rolled_back_from: Option<RolledBack>,
    /// When its ticks are due, for people.
    #[serde(default)]
    pub schedule: String,
    /// The limits that it runs with.
    #[serde(default)]
    pub limits: EffectiveLimits,
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
    /// Objects that stay until an operator does something.
    pub parked: u64,
    /// Marks that contradict the catalog, as far as they were met.
    pub conflicts: u64,
    /// Objects that could not be deleted and wait to be tried again.
    pub backed_off: u64,
}

/// What the last complete sweep for orphans of this term found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanStatus {
    /// When it was complete, by the database's clock in Unix milliseconds.
    pub at: i64,
    /// Keys of any kind in the store.
    pub listed: u64,
    /// Data objects among them.
    pub objects: u64,
    /// Orphans among those.
    pub orphans: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Orphans that were old enough.
    pub ripe: u64,
    /// Why none of them may go; none if nothing stands against it.
    pub held: Option<String>,
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
    /// What an operator should know of the store, such as that it keeps the bytes
    /// of what is deleted.
    #[serde(default)]
    pub store_notes: Vec<String>,
    /// The plugins by name.
    pub plugins: Vec<PluginStatus>,
    /// Plugin files that do not run, and why.
    pub problems: Vec<Problem>,
    /// What this node's stop file says; none while there is none.
    #[serde(default)]
    pub stop_file: Option<StopFile>,
    /// What waits.
    pub backlog: Backlog,
    /// What the sweep for orphans found; none before the first complete one of
    /// this term.
    #[serde(default)]
    pub orphans: Option<OrphanStatus>,
    /// Marks by the reason for which they are parked (text, how many).
    pub parked_reasons: Vec<(String, u64)>,
    /// Some of the parked objects: at most [`Status::LISTED`].
    pub parked: Vec<LeftObject>,
    /// What is kept of parked objects and cannot be read.
    #[serde(default)]
    pub parked_problems: Vec<ParkedProblem>,
    /// Some of the conflicts: at most [`Status::LISTED`].
    pub conflicts: Vec<LeftObject>,
    /// Some of the objects that could not be deleted: at most [`Status::LISTED`].
    pub failing: Vec<LeftObject>,
}

impl Status {
    /// Most entries of each list.
    pub const LISTED: usize = 100;
}
