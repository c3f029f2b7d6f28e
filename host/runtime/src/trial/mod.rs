//! A plugin tried on a captured state: with the production host, its limits and
//! its guards, on copies that are its own.
//!
//! First the plugin ticks until it is at rest: until a tick changes nothing any
//! more, or brings back a state that was there before. That is the end that
//! every other run must come to. Then its idempotency is attacked:
//!
//! - each tick runs twice on the view that it began with, as on two nodes of
//!   which one does not know yet that its term is over;
//! - at every call that sends something, the tick is stopped: before the call,
//!   after it, and with half of its items done. A holder that knows nothing of
//!   the one before goes on from there;
//! - at every such call, the answer is lost.
//!
//! Nothing is written: commands change a scratch copy of the state, and what is
//! deleted is absent from then on for the run that deleted it.

mod attack;
mod differ;
mod measure;
mod watched;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use aedile_clock::{SharedClock, UnixMillis};
use aedile_engine::Engine;
use aedile_log::View;
use aedile_storage::Store;
use serde::{Deserialize, Serialize};

use crate::guard::OrphanOptions;
use crate::plan::{LeftObject, PlannedClean, PlannedCommand, PlannedDelete, PlannedExpiry};
use crate::source::PluginSettings;

pub use measure::{MeasureError, Measured, Share, measure};
pub use watched::{Boundary, Sent, Stop};

/// Ticks that a run may take until it is at rest, backlogs apart.
pub(super) const RESTLESS: usize = 64;

/// What a trial is made on. None of it is written to.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Time.
    pub clock: SharedClock,
    /// The Wasm engine.
    pub engine: Arc<Engine>,
    /// The captured state.
    pub view: View,
    /// The time of the ticks. It stands still.
    pub now: UnixMillis,
    /// The object store; only looked at.
    pub store: Store,
    /// The operator confirms that the store is the right one although no object
    /// of the catalog is in it.
    pub confirm_empty_store: bool,
    /// The rules of the sweep for orphans.
    pub orphans: OrphanOptions,
}

/// What is tried.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The module.
    pub bytes: Arc<[u8]>,
    /// Configuration, prefixes and limits.
    pub settings: PluginSettings,
    /// Whether it gets what its manifest wants, whatever the settings grant.
    pub grant_wanted: bool,
}

/// Why there is no trial.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The plugin does not load, or refuses its configuration.
    #[error("{0}")]
    Unfit(String),
}

/// A tick of the undisturbed run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialTick {
    /// How it ended, in one word.
    pub outcome: String,
    /// What it says of itself, or what went wrong.
    pub text: String,
    /// Whether it asked for the next tick at once.
    pub more: bool,
    /// What it says that it did.
    pub done: u64,
    /// What it says that it left because it failed.
    pub failed: u64,
    /// Objects deleted and commands that changed something.
    pub effects: u64,
    /// What it added to counters.
    pub counters: BTreeMap<String, u64>,
    /// Its gauges.
    pub gauges: BTreeMap<String, f64>,
}

/// An attack after which the end was another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Divergence {
    /// What was done to the plugin.
    pub attack: String,
    /// At which of the calls that send something, from 1; none if at none.
    pub at: Option<usize>,
    /// That call.
    pub call: Option<Sent>,
    /// How it was stopped there.
    pub stop: Option<Stop>,
    /// In what the end differs, or why there was none.
    pub difference: String,
}

/// What a trial found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The plugin's name.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// Digest of its module.
    pub digest: String,
    /// Index of the captured state.
    pub index: u64,
    /// Time of the ticks, in Unix milliseconds.
    pub now: i64,
    /// The ticks of the undisturbed run.
    pub ticks: Vec<TrialTick>,
    /// The calls of those ticks that sent something.
    pub sent: Vec<Sent>,
    /// Commands that changed the state, other than those below.
    pub commands: Vec<PlannedCommand>,
    /// Bytes that went.
    pub deletes: Vec<PlannedDelete>,
    /// Marks that left the destroyed queue.
    pub cleans: Vec<PlannedClean>,
    /// Reservations that expired.
    pub expires: Vec<PlannedExpiry>,
    /// Objects that the host refused to delete or to clean.
    pub refused: Vec<LeftObject>,
    /// A doubt about the store as a whole; nothing is deleted while it stands.
    pub store_suspect: Option<String>,
    /// Why the undisturbed run came to no end; none if it did.
    pub failure: Option<String>,
    /// What crossed the boundary in the undisturbed run.
    pub boundary: Boundary,
    /// Attacks that could be made: each tick doubled, and each call stopped in
    /// each way.
    pub attacks: usize,
    /// Attacks that were made.
    pub tried: usize,
    /// Those after which the end was another one.
    pub divergences: Vec<Divergence>,
}

impl Trial {
    /// Whether it came to an end, and to the same one whatever was done to it.
    pub fn passed(&self) -> bool {
        self.failure.is_none() && self.divergences.is_empty()
    }
}

/// Try a plugin; at most `attacks` attacks are made, spread over the calls.
///
/// # Errors
/// [`TrialError`] if it does not load.
pub async fn trial(
    ground: &Ground,
    subject: &Subject,
    attacks: usize,
) -> Result<Trial, TrialError> {
    let attack = attack::Attack::prepare(ground, subject).await?;
    Ok(attack.run(attacks).await)
}
