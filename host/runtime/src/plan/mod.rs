//! What a pass would do now, computed without writing anything.

use serde::{Deserialize, Serialize};

mod run;
mod trial;

pub use run::{PlanParts, plan};
pub use trial::{Candidate, TrialError, try_out};

/// An object whose bytes a pass would delete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedDelete {
    /// The object.
    pub id: u64,
    /// Its key in the store.
    pub key: String,
    /// Size of its bytes in the store; none if they are already gone.
    pub bytes: Option<u64>,
    /// What its mark says: `delete` or `deep-delete`, of a part what its
    /// composite's says; `orphan` for bytes that no mark names.
    pub operation: String,
    /// The composite with which it goes; none if its own mark names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<u64>,
    /// Why it may go.
    pub reason: String,
    /// The plugin that asks for it.
    pub plugin: String,
}

/// A mark that a pass would take off the destroyed queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedClean {
    /// The object.
    pub id: u64,
    /// What its mark says: `delete`, `keep-data` or `deep-delete`.
    pub operation: String,
}

/// A reservation that a pass would expire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedExpiry {
    /// The reserved object.
    pub id: u64,
    /// When it lapsed, in Unix milliseconds.
    pub deadline: i64,
}

/// Any other command that a pass would propose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCommand {
    /// The plugin that proposes it.
    pub plugin: String,
    /// Name of the command.
    pub command: String,
    /// What it is about.
    pub detail: String,
}

/// An object that a pass would leave, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftObject {
    /// The object.
    pub id: u64,
    /// What its mark says.
    pub operation: String,
    /// Why it is left.
    pub reason: String,
}

/// An orphan that a pass would leave for now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedOrphan {
    /// The object.
    pub id: u64,
    /// Its key in the store.
    pub key: String,
    /// Size of its bytes.
    pub bytes: u64,
    /// When a complete sweep first saw it, by the database's clock in Unix
    /// milliseconds; the plan's own time if none has.
    pub first_seen: i64,
    /// What counts of the time since then, in milliseconds.
    pub age_ms: u64,
    /// Why it is left.
    pub reason: String,
}

/// What the sweep for orphans finds, where the plugin `orphans` runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedOrphans {
    /// Keys of any kind in the store.
    pub listed: u64,
    /// Data objects among them.
    pub objects: u64,
    /// Orphans among those that are left, and their bytes. Those that would go
    /// are among [`Plan::deletes`].
    pub left: u64,
    /// Bytes of those that are left.
    pub bytes: u64,
    /// How long an orphan must have been one, in milliseconds.
    pub grace_ms: u64,
    /// Why none may go; none if nothing stands against it.
    pub held: Option<String>,
    /// Those that are left, by id; at most 100 000.
    pub orphans: Vec<PlannedOrphan>,
}

/// How a plugin's ticks ended in the dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedTicks {
    /// The plugin.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// Digest of its module.
    pub digest: String,
    /// Ticks that it took.
    pub ticks: u64,
    /// What went wrong; none if nothing did.
    pub failure: Option<String>,
}

/// Sums over a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanTotals {
    /// Objects whose bytes would go.
    pub deletes: u64,
    /// Bytes that would go.
    pub bytes: u64,
    /// Marks that would leave the queue.
    pub cleans: u64,
    /// Reservations that would expire.
    pub expires: u64,
    /// Other commands.
    pub commands: u64,
    /// Parked objects.
    pub parked: u64,
    /// Conflicts.
    pub conflicts: u64,
    /// Other refusals.
    pub refused: u64,
}

/// What a pass would do now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Index of the view that it was computed from.
    pub index: u64,
    /// Time by the database's clock, in Unix milliseconds.
    pub now: i64,
    /// Bytes that would go, in the order of the pass.
    pub deletes: Vec<PlannedDelete>,
    /// Marks that would leave the destroyed queue.
    pub cleans: Vec<PlannedClean>,
    /// Reservations that would expire.
    pub expires: Vec<PlannedExpiry>,
    /// Other commands.
    pub commands: Vec<PlannedCommand>,
    /// Objects that stay until an operator does something: composites whose links
    /// cannot be read.
    pub parked: Vec<LeftObject>,
    /// Marks that contradict the catalog: never acted on.
    pub conflicts: Vec<LeftObject>,
    /// Objects that the host would refuse for another reason.
    pub refused: Vec<LeftObject>,
    /// A doubt about the store as a whole; nothing is deleted while it stands.
    pub store_suspect: Option<String>,
    /// What the sweep for orphans finds; none unless the plugin `orphans` runs.
    pub orphans: Option<PlannedOrphans>,
    /// The plugins' ticks.
    pub plugins: Vec<PlannedTicks>,
    /// Plugin files that do not run, and why.
    pub problems: Vec<crate::source::Problem>,
    /// Sums.
    pub totals: PlanTotals,
}
