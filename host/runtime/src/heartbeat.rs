//! The one small row that says that this node is up, and what it runs.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::BootInstant;
use aedile_log::NodeRecord;
use tokio_util::sync::CancellationToken;

use crate::backend::chain;
use crate::shared::Shared;
use crate::status::{Role, Status, StopFile};

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
    /// Rows in a row that could not be written.
    failures: u32,
}

/// What is worth a row at once.
type Key = (Role, u64, Vec<PluginKey>, usize, Option<StopFile>);

/// What is worth a row at once of one plugin: name, digest, whether it does well,
/// the revision that runs, and the one that is wanted and how far it is.
type PluginKey = (
    String,
    String,
    bool,
    Option<u64>,
    Option<(u64, &'static str)>,
);

impl Heartbeat {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            last: None,
            written: None,
            failures: 0,
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
        let due = since >= due_after(self.failures, self.shared.options.heartbeat);
        if due || (self.failures == 0 && self.written.as_ref() != Some(&key(&status))) {
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
        let error = match self
            .shared
            .clock
            .timeout(WRITE, records.heartbeat(&record))
            .await
        {
            Ok(Ok(())) => {
                self.failures = 0;
                return;
            }
            Ok(Err(error)) => chain(&error),
            Err(elapsed) => elapsed.to_string(),
        };
        self.failures = self.failures.saturating_add(1);
        tracing::warn!(%error, "no heartbeat was written");
    }
}

/// How long after the last row the next is due: regularly, and after a failure
/// sooner, but less and less so: a database that refuses it is not pestered.
fn due_after(failures: u32, heartbeat: Duration) -> Duration {
    match failures {
        0 => heartbeat,
        failures => (LEAST * (1 << failures.min(16).saturating_sub(1))).min(heartbeat),
    }
}

fn key(status: &Status) -> Key {
    let plugins = status
        .plugins
        .iter()
        .map(|plugin| {
            let well = plugin.failures == 0;
            let wanted = plugin
                .wanted
                .as_ref()
                .map(|wanted| (wanted.number, wanted.state.as_str()));
            (
                plugin.name.clone(),
                plugin.digest.clone(),
                well,
                plugin.revision,
                wanted,
            )
        })
        .collect();
    let stop_file = status.stop_file.clone();
    (
        status.role,
        status.epoch,
        plugins,
        status.problems.len(),
        stop_file,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_row_is_tried_again_soon_then_less_and_less_often() {
        let regular = Duration::from_secs(30);
        let waits: Vec<u64> = (0..8)
            .map(|failures| due_after(failures, regular).as_secs())
            .collect();
        assert_eq!(waits, [30, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(due_after(u32::MAX, regular), regular);
        let short = Duration::from_secs(1);
        assert_eq!(due_after(3, short), short);
    }
}
