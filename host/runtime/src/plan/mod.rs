//! What a pass would do now, computed without writing anything.

use serde::{Deserialize, Serialize};

mod run;

pub use run::{PlanParts, plan};

/// An object whose bytes a pass would delete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedDelete {
    /// The object.
    pub id: u64,
    /// Its key in the store.
    pub key: String,
    /// Size of its bytes in the store; none if they are already gone.
    pub bytes: Option<u64>,
    /// What its mark says: `delete` or `deep-delete`.
    pub operation: String,
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
    /// Objects that stay because this version does not handle them.
    pub parked: Vec<LeftObject>,
    /// Marks that contradict the catalog: never acted on.
    pub conflicts: Vec<LeftObject>,
    /// Objects that the host would refuse for another reason.
    pub refused: Vec<LeftObject>,
    /// A doubt about the store as a whole; nothing is deleted while it stands.
    pub store_suspect: Option<String>,
    /// The plugins' ticks.
    pub plugins: Vec<PlannedTicks>,
    /// Plugin files that do not run, and why.
    pub problems: Vec<crate::source::Problem>,
    /// Sums.
    pub totals: PlanTotals,
}
