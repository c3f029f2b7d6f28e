//! The real log and store, for one term.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, UnixMillis};
use aedile_lease::{Authority, LeaseName, Term};
use aedile_log::{Answer, Fence, Log, LogError, View};
use aedile_state::{Command, ObjectId};
use aedile_storage::{DeleteOutcome, Store};
use async_trait::async_trait;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Backend, Doomed, Trouble};
use crate::guard::Orphan;
use crate::source::PluginSet;

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
    /// The term, as the log knows it.
    pub(crate) fence: Fence,
    /// Whose settings say which plugins are fenced.
    pub(crate) set: watch::Receiver<Arc<PluginSet>>,
}

impl Live {
    /// How long one call may take now.
    fn bound(&self) -> Result<Duration, Trouble> {
        self.authority().ok_or(Trouble::LeaseLost)
    }

    async fn unlink(&self, ids: &[u64]) -> Vec<(ObjectId, DeleteOutcome)> {
        self.store
            .delete(ids, &|| self.authority())
            .await
            .into_iter()
            .map(|(id, outcome)| (ObjectId(id), outcome))
            .collect()
    }

    fn is_fenced(&self, plugin: &str) -> bool {
        let set = self.set.borrow();
        let loaded = set.plugins.get(plugin);
        loaded.is_some_and(|loaded| loaded.settings.fenced)
    }

    async fn propose_fenced(&self, commands: Vec<Command>) -> Result<Vec<Answer>, LogError> {
        let answers = self.log.propose_fenced(commands, &self.fence).await?;
        for answer in &answers {
            if let Answer::FencedOut(reason) = answer {
                // The row knows better than this node's clock.
                tracing::warn!(%reason, "the term is over");
                self.stop.cancel();
                break;
            }
        }
        Ok(answers)
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

    async fn propose(&self, plugin: &str, commands: Vec<Command>) -> Result<Vec<Answer>, Trouble> {
        self.bound()?;
        // Not bounded here: what was handed to the log may land, and its answer
        // is waited for. The log bounds its own statements.
        let answers = if self.is_fenced(plugin) {
            self.propose_fenced(commands).await
        } else {
            self.log.propose(commands).await
        };
        answers.map_err(|error| Trouble::Unavailable(chain(&error)))
    }

    async fn delete(&self, _: &str, objects: &[Doomed]) -> Vec<(ObjectId, DeleteOutcome)> {
        let ids: Vec<u64> = objects.iter().map(|doomed| doomed.id.0).collect();
        self.unlink(&ids).await
    }

    async fn delete_orphans(&self, _: &str, orphans: &[Orphan]) -> Vec<(ObjectId, DeleteOutcome)> {
        let ids: Vec<u64> = orphans.iter().map(|orphan| orphan.id.0).collect();
        self.unlink(&ids).await
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

/// A term as the log knows it.
pub(crate) fn fence(term: &Term) -> Fence {
    match &term.lease {
        LeaseName::Shared => Fence::shared(&term.holder, term.epoch),
        LeaseName::Named(name) => Fence::named(name, &term.holder, term.epoch),
    }
}
