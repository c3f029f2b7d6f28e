//! The one small row that says that this node is up, and what it runs.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::BootInstant;
use aedile_log::NodeRecord;
use tokio_util::sync::CancellationToken;

use crate::backend::chain;
use crate::shared::Shared;
use crate::status::{Role, Status};

/// Least time between two rows, however much changes.
const LEAST: Duration = Duration::from_secs(2);
/// How long a row may take to be written.
const WRITE: Duration = Duration::from_secs(2);

/// Writes the heartbeat row: regularly, and soon after role or plugins changed.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    shared: Arc<Shared>,
    last: Option<BootInstant>,
    written: Option<Key>,
}

/// What is worth a row at once.
type Key = (Role, u64, Vec<(String, String, bool)>, usize);

impl Heartbeat {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            last: None,
            written: None,
        }
    }

    /// Write rows until `stop`, then the last one. A task of its own: a database
    /// that hangs must not keep the supervisor from following the leadership.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut changes = self.shared.book.changes();
        let mut leadership = self.shared.leadership.clone();
        while !stop.is_cancelled() {
            self.beat_if_due().await;
            tokio::select! {
                () = stop.cancelled() => break,
                _ = changes.changed() => {}
                _ = leadership.changed() => {}
                () = self.shared.clock.sleep(LEAST) => {}
            }
        }
        self.last().await;
    }

    async fn beat_if_due(&mut self) {
        let since = self
            .last
            .map_or(Duration::MAX, |last| self.shared.clock.boot().since(last));
        if since < LEAST {
            return;
        }
        let status = self.shared.status();
        if since >= self.shared.options.heartbeat || self.written.as_ref() != Some(&key(&status)) {
            self.beat(status).await;
        }
    }

    /// The last row: this node has stopped.
    async fn last(&mut self) {
        let mut status = self.shared.status();
        status.role = Role::Stopped;
        status.detail.clear();
        status.authority_ms = None;
        self.beat(status).await;
    }

    async fn beat(&mut self, status: Status) {
        // A row that cannot be written is not tried again before its time.
        self.last = Some(self.shared.clock.boot());
        self.written = Some(key(&status));
        let text = match serde_json::to_value(&status) {
            Ok(text) => text,
            Err(error) => {
                tracing::warn!(%error, "the heartbeat's status cannot be written as JSON");
                return;
            }
        };
        let record = NodeRecord {
            node: self.shared.options.node.clone(),
            started: self.shared.started,
            // The database fills in its own time.
            seen: self.shared.clock.unix(),
            version: self.shared.options.version.clone(),
            applied_index: status.applied_index,
            status: text,
        };
        let records = self.shared.log.records();
        match self
            .shared
            .clock
            .timeout(WRITE, records.heartbeat(&record))
            .await
        {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(error = %chain(&error), "no heartbeat was written"),
            Err(elapsed) => tracing::warn!(error = %elapsed, "no heartbeat was written"),
        }
    }
}

fn key(status: &Status) -> Key {
    let plugins = status
        .plugins
        .iter()
        .map(|plugin| {
            let well = plugin.failures == 0;
            (plugin.name.clone(), plugin.digest.clone(), well)
        })
        .collect();
    (status.role, status.epoch, plugins, status.problems.len())
}
