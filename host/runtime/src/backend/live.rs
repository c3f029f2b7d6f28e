//! The real log and store, for one term.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, UnixMillis};
use aedile_lease::Authority;
use aedile_log::{Answer, Log, View};
use aedile_state::{Command, ObjectId, Operation};
use aedile_storage::{DeleteOutcome, Store};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{Backend, Trouble};

/// The real log and store, for as long as one term's authority holds.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) authority: Authority,
    pub(crate) clock: SharedClock,
    /// Cancelled when the term is to end before its authority does.
    pub(crate) stop: CancellationToken,
    /// How long a call waits for the log.
    pub(crate) catch_up: Duration,
}

impl Live {
    /// How long one call may take now.
    fn bound(&self) -> Result<Duration, Trouble> {
        self.authority().ok_or(Trouble::LeaseLost)
    }
}

#[async_trait]
impl Backend for Live {
    fn authority(&self) -> Option<Duration> {
        if self.stop.is_cancelled() || !self.authority.holds() {
            return None;
        }
        Some(self.authority.left()).filter(|left| !left.is_zero())
    }

    fn latest(&self) -> Arc<View> {
        self.log.view()
    }

    async fn fresh(&self) -> Result<Arc<View>, Trouble> {
        let limit = self.bound()?.min(self.catch_up);
        self.log
            .catch_up(limit)
            .await
            .map_err(|error| Trouble::Unavailable(chain(&error)))
    }

    async fn now(&self) -> Result<UnixMillis, Trouble> {
        let limit = self.bound()?;
        match self.clock.timeout(limit, self.log.database_now()).await {
            Ok(now) => now.map_err(|error| Trouble::Unavailable(chain(&error))),
            Err(_) => Err(Trouble::LeaseLost),
        }
    }

    async fn propose(&self, _: &str, commands: Vec<Command>) -> Result<Vec<Answer>, Trouble> {
        self.bound()?;
        // Not bounded here: what was handed to the log may land, and its answer
        // is waited for. The log bounds its own statements.
        self.log
            .propose(commands)
            .await
            .map_err(|error| Trouble::Unavailable(chain(&error)))
    }

    async fn delete(
        &self,
        _: &str,
        objects: &[(ObjectId, Operation)],
    ) -> Vec<(ObjectId, DeleteOutcome)> {
        let ids: Vec<u64> = objects.iter().map(|(id, _)| id.0).collect();
        self.store
            .delete(&ids, &|| self.authority())
            .await
            .into_iter()
            .map(|(id, outcome)| (ObjectId(id), outcome))
            .collect()
    }

    fn store(&self) -> &Store {
        &self.store
    }

    fn clock(&self) -> &SharedClock {
        &self.clock
    }
}

/// An error with its causes, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
