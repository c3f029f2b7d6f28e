//! The client's own tables: who is up, what ran, and who has diverged. Only
//! the last holds something that the work depends on.

use std::fmt;
use std::sync::Arc;

use aedile_clock::UnixMillis;

use crate::LogError;
use crate::store::Store;

/// How many runs are kept of each plugin.
pub const RUNS_KEPT: u32 = 1000;

/// A node that is up, or was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its name.
    pub node: String,
    /// When it started, by its own wall clock.
    pub started: UnixMillis,
    /// When it was last seen, by the database's clock. Filled in by the
    /// database.
    pub seen: UnixMillis,
    /// Version of its program.
    pub version: String,
    /// The last row that it had applied.
    pub applied_index: u64,
    /// What it told of itself: a JSON object.
    pub status: serde_json::Value,
}

/// A run: ticks of one plugin that did something, or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// Number of the record; given by the database.
    pub id: i64,
    /// Name of the plugin.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of its module, in hex.
    pub digest: String,
    /// The node that ran it.
    pub node: String,
    /// Epoch of the lease under which it ran.
    pub epoch: u64,
    /// When it began, by the node's wall clock.
    pub started: UnixMillis,
    /// When it ended, by the node's wall clock.
    pub ended: UnixMillis,
    /// How it ended, in a word.
    pub outcome: String,
    /// The plugin's own line.
    pub summary: String,
    /// Figures: a JSON object.
    pub detail: serde_json::Value,
}

/// A lease row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// Its name; `shared` is the row that PicoMQ nodes contend for too.
    pub name: String,
    /// Who holds it or held it last; empty if nobody ever did.
    pub holder: String,
    /// The fencing epoch.
    pub epoch: u64,
    /// When it expires; 0 after a release.
    pub expires: UnixMillis,
}

/// A node whose state contradicts the cluster's snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DivergenceRecord {
    /// The node.
    pub node: String,
    /// Index of the snapshot.
    pub index: u64,
    /// The first section that differs.
    pub section: String,
    /// What contradicts what.
    pub reason: String,
    /// When it was found, by the database's clock. Filled in by the database.
    pub found: UnixMillis,
}

/// Writes the client's own tables.
#[derive(Clone)]
pub struct Records {
    store: Arc<dyn Store>,
}

impl Records {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Say that a node is up. `seen` is filled in by the database.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn heartbeat(&self, record: &NodeRecord) -> Result<(), LogError> {
        self.store.heartbeat(record).await
    }

    /// Add a run to the history; the oldest of the plugin beyond
    /// [`RUNS_KEPT`] go.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn run(&self, record: &RunRecord) -> Result<(), LogError> {
        self.store.add_run(record).await
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").finish_non_exhaustive()
    }
}
