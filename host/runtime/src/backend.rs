//! What stands below a plugin's calls: the real log and store, or a scratch copy
//! of the state for a dry run.
//!
//! The host above decides; a backend only carries out. So a plan is what a pass
//! does: everything but the carrying out is shared.

mod dry;
mod live;

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, UnixMillis};
use aedile_log::{Answer, View};
use aedile_state::{Command, ObjectId, Operation, State};
use aedile_storage::{DeleteOutcome, Store};
use async_trait::async_trait;

use crate::guard::Orphan;

pub(crate) use dry::{Dry, Noted, World};
pub(crate) use live::{Live, chain, fence};

/// Why a backend could not serve a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The term is over: nothing was sent.
    LeaseLost,
    /// A part failed; the next tick may succeed.
    Unavailable(String),
}

/// An object whose bytes are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doomed {
    pub(crate) id: ObjectId,
    /// What the mark says because of which it goes.
    pub(crate) operation: Operation,
    /// The composite with which it goes; none if its own mark names it.
    pub(crate) part_of: Option<ObjectId>,
}

impl Doomed {
    /// One that its own mark names.
    pub(crate) fn marked(state: &State, id: ObjectId) -> Self {
        Self {
            id,
            operation: state.mark(id).map_or(Operation::Delete, |(_, of)| of),
            part_of: None,
        }
    }
}

/// What stands below a plugin's calls.
#[async_trait]
pub(crate) trait Backend: Send + Sync + 'static {
    /// What is left of the authority; none once nothing may be sent.
    fn authority(&self) -> Option<Duration>;

    /// The latest view.
    fn latest(&self) -> Arc<View>;

    /// A view that has caught up with the log's tail.
    async fn fresh(&self) -> Result<Arc<View>, Trouble>;

    /// The database's time.
    async fn now(&self) -> Result<UnixMillis, Trouble>;

    /// Propose commands: one answer each.
    async fn propose(&self, plugin: &str, commands: Vec<Command>) -> Result<Vec<Answer>, Trouble>;

    /// Delete the bytes of objects that may go: one outcome each, in order.
    async fn delete(&self, plugin: &str, objects: &[Doomed]) -> Vec<(ObjectId, DeleteOutcome)>;

    /// Delete the bytes of orphans that may go: one outcome each, in order.
    async fn delete_orphans(
        &self,
        plugin: &str,
        orphans: &[Orphan],
    ) -> Vec<(ObjectId, DeleteOutcome)>;

    /// Whether a dry run has deleted the object, which the store still lists.
    fn gone(&self, _: ObjectId) -> bool {
        false
    }

    /// The store, to look at.
    fn store(&self) -> &Store;

    /// The clock.
    fn clock(&self) -> &SharedClock;
}
