//! The one applier: reads rows, applies them in order, publishes views.
//!
//! It trusts nobody's rows blindly. A node whose tail lags can insert below a
//! snapshot, and a restored backup can end before what was applied here. Each
//! look therefore reads, in one statement, the snapshot's index and the rows
//! from the last applied one on, that one included.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::SharedClock;
use aedile_state::{Command, State, codec};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::pending::{Delivery, Pending};
use crate::snapshots::Snapshots;
use crate::store::{Fetch, Row, Store};
use crate::view::{Answer, LogHealth, View};
use crate::{LogError, LogOptions};

/// How many commands are applied before other tasks get a turn.
const TURN: usize = 4096;

/// The position that the applier has reached.
#[derive(Debug, Default)]
pub(crate) struct Applier {
    pub(crate) view: View,
    /// The bytes of the last applied row; none if a snapshot was installed.
    last: Option<Vec<u8>>,
}

/// What a fetch means for the applier.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// These rows follow; perhaps none.
    Apply(Vec<Row>),
    /// A newer snapshot must be installed; nothing of this fetch is applied.
    Reinstall,
    /// Log and snapshot end before what was applied.
    WentBack(String),
    /// A row is missing and no snapshot covers it.
    Gap(u64),
}

impl Applier {
    /// Judge a fetch that began at the last applied row.
    fn judge(&self, fetch: Fetch) -> Step {
        let applied = self.view.index;
        let snapshot = fetch.snapshot.unwrap_or(0);
        let mut rows = fetch.rows;
        let found = match rows.first() {
            Some((index, _)) if *index == applied && applied > 0 => Some(rows.remove(0).1),
            _ => None,
        };
        let same = match (&found, &self.last) {
            (Some(found), Some(last)) => found == last,
            // Its bytes were never seen here: a snapshot was installed.
            (Some(_), None) => snapshot <= applied,
            (None, _) => false,
        };
        if snapshot > applied && !same {
            return Step::Reinstall;
        }
        if snapshot < applied && !same {
            return Step::WentBack(match found {
                Some(_) => format!("row {applied} has other bytes now"),
                None => match rows.first() {
                    Some((index, _)) => {
                        format!("row {applied} is gone while row {index} is there")
                    }
                    None => format!("the log ends before it now and the snapshot at {snapshot}"),
                },
            });
        }
        match rows.first() {
            Some((index, _)) if *index != applied + 1 => {
                if snapshot > applied {
                    Step::Reinstall
                } else {
                    Step::Gap(*index)
                }
            }
            _ => {
                // Contiguous as far as it goes; what follows a hole waits.
                let keep = rows
                    .iter()
                    .zip(applied + 1..)
                    .take_while(|((index, _), expected)| index == expected)
                    .count();
                rows.truncate(keep);
                Step::Apply(rows)
            }
        }
    }

    /// Apply one row and hand its answers to whoever waits for them.
    fn apply(
        &mut self,
        index: u64,
        payload: Vec<u8>,
        pending: &Pending,
        delivery: &mut Delivery,
    ) -> Result<usize, LogError> {
        let commands: Vec<Command> =
            codec::decode_batch(&payload).map_err(|source| LogError::Row { index, source })?;
        let count = commands.len();
        let outcomes: Vec<_> = commands
            .iter()
            .map(|command| self.view.state.apply(command))
            .collect();
        let mut answers = outcomes.into_iter().map(Answer::from);
        pending.applied(index, &payload, &mut answers, delivery);
        self.view.index = index;
        self.last = Some(payload);
        Ok(count)
    }

    /// Install the stored snapshot if it is newer than what was applied.
    pub(crate) async fn install(&mut self, store: &dyn Store) -> Result<bool, LogError> {
        let Some((index, payload)) = store.snapshot().await? else {
            return Ok(false);
        };
        if index <= self.view.index {
            return Ok(false);
        }
        let state = tokio::task::spawn_blocking(move || State::decode_snapshot(&payload))
            .await
            .map_err(|error| LogError::Stopped(format!("decoding a snapshot: {error}")))?
            .map_err(|source| LogError::Snapshot { index, source })?;
        self.view = View { index, state };
        self.last = None;
        Ok(true)
    }

    /// Read everything that is there now.
    pub(crate) async fn load(
        &mut self,
        store: &dyn Store,
        options: &LogOptions,
    ) -> Result<(), LogError> {
        self.install(store).await?;
        let pending = Pending::default();
        loop {
            match self.step(store, options, &pending).await? {
                Progress::Rows(0, _) => return Ok(()),
                Progress::Rows(..) | Progress::Installed => {}
                Progress::Final(health) => return Err(LogError::Stopped(health.to_string())),
            }
        }
    }

    /// One look at the database.
    async fn step(
        &mut self,
        store: &dyn Store,
        options: &LogOptions,
        pending: &Pending,
    ) -> Result<Progress, LogError> {
        let fetch = store.fetch(self.view.index, options.fetch).await?;
        match self.judge(fetch) {
            Step::Apply(rows) => {
                let count = rows.len();
                let mut delivery = Delivery::default();
                let mut since = 0;
                for (index, payload) in rows {
                    since += self.apply(index, payload, pending, &mut delivery)?;
                    if since >= TURN {
                        since = 0;
                        tokio::task::yield_now().await;
                    }
                }
                Ok(Progress::Rows(count, delivery))
            }
            Step::Reinstall => {
                self.install(store).await?;
                pending.covered(self.view.index);
                Ok(Progress::Installed)
            }
            Step::WentBack(found) => Ok(Progress::Final(LogHealth::WentBack {
                applied: self.view.index,
                found,
            })),
            // A snapshot may have come between the two looks.
            Step::Gap(found) if !self.install(store).await? => Err(LogError::Gap {
                expected: self.view.index + 1,
                found,
            }),
            Step::Gap(_) => {
                pending.covered(self.view.index);
                Ok(Progress::Installed)
            }
        }
    }
}

/// What one look brought.
#[derive(Debug)]
enum Progress {
    /// So many rows were applied.
    Rows(usize, Delivery),
    /// A snapshot was installed.
    Installed,
    /// Nothing will ever be applied again.
    Final(LogHealth),
}

/// The task that applies.
pub(crate) struct Tailer {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) options: LogOptions,
    pub(crate) clock: SharedClock,
    pub(crate) pending: Arc<Pending>,
    pub(crate) nudge: Arc<Notify>,
    pub(crate) views: watch::Sender<Arc<View>>,
    pub(crate) health: watch::Sender<LogHealth>,
    pub(crate) snapshots: Option<Snapshots>,
    pub(crate) cancel: CancellationToken,
}

impl Tailer {
    /// Apply until cancelled, or until something is found that forbids it.
    pub(crate) async fn run(mut self, mut applier: Applier) {
        let mut wait = self.options.poll_min;
        // A look is never cut in the middle: it is bounded.
        while !self.cancel.is_cancelled() {
            match self.look(&mut applier).await {
                // What just arrived is followed at once.
                Look::Moved => {
                    wait = self.options.poll_min;
                    continue;
                }
                Look::Idle | Look::Unreachable => {}
                Look::Final => break,
            }
            tokio::select! {
                () = self.cancel.cancelled() => {}
                () = self.nudge.notified() => wait = self.options.poll_min,
                () = self.clock.sleep(wait) => wait = (wait * 2).min(self.options.poll_max),
            }
        }
        self.pending.abandon();
        if let Some(snapshots) = self.snapshots.take() {
            snapshots.close().await;
        }
    }

    async fn look(&mut self, applier: &mut Applier) -> Look {
        let bound = self.bound();
        let step = applier.step(self.store.as_ref(), &self.options, &self.pending);
        let progress = match self.clock.timeout(bound, step).await {
            Ok(progress) => progress,
            Err(elapsed) => Err(LogError::Timeout {
                what: "reading the log",
                limit: elapsed.0,
            }),
        };
        match progress {
            Ok(Progress::Rows(count, delivery)) => {
                self.reached();
                if count == 0 {
                    return Look::Idle;
                }
                self.publish(applier);
                delivery.send();
                Look::Moved
            }
            Ok(Progress::Installed) => {
                self.reached();
                self.publish(applier);
                tracing::info!(index = applier.view.index, "a newer snapshot was installed");
                Look::Moved
            }
            Ok(Progress::Final(health)) => {
                tracing::error!(%health, "the log is not read any further");
                self.health.send_replace(health);
                Look::Final
            }
            Err(error) => self.failed(applier, error),
        }
    }

    /// A snapshot of the whole state may be large.
    fn bound(&self) -> Duration {
        self.options.statement_timeout * 60
    }

    fn failed(&self, applier: &Applier, error: LogError) -> Look {
        let poison = match &error {
            LogError::Row { index, .. } | LogError::Snapshot { index, .. } => Some(*index),
            LogError::Gap { expected, .. } => Some(*expected),
            LogError::Index { .. } => Some(applier.view.index + 1),
            _ => None,
        };
        if let Some(index) = poison {
            let health = LogHealth::Poisoned {
                index,
                reason: error.to_string(),
            };
            tracing::error!(%health, "the log is not read any further");
            self.publish(applier);
            self.health.send_replace(health);
            return Look::Final;
        }
        let now = self.clock.boot();
        self.health.send_if_modified(|health| {
            let since = match health {
                LogHealth::Unreachable { since, .. } => *since,
                _ => {
                    tracing::warn!(%error, "the metadata database does not answer");
                    now
                }
            };
            *health = LogHealth::Unreachable {
                since,
                error: error.to_string(),
            };
            true
        });
        Look::Unreachable
    }

    fn reached(&self) {
        self.health.send_if_modified(|health| {
            let was = matches!(health, LogHealth::Unreachable { .. });
            if was {
                tracing::info!("the metadata database answers again");
                *health = LogHealth::Healthy;
            }
            was
        });
    }

    fn publish(&self, applier: &Applier) {
        if self.views.borrow().index == applier.view.index {
            return;
        }
        self.views.send_replace(Arc::new(applier.view.clone()));
        if let Some(snapshots) = &self.snapshots {
            snapshots.offer(&applier.view);
        }
    }
}

/// What a look came to.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Moved,
    Idle,
    Unreachable,
    Final,
}
