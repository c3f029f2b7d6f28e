//! The task that reads the log, applies its rows in order and publishes views.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aedile_clock::SharedClock;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::applier::{Applier, Progress};
use crate::pending::Pending;
use crate::records::DivergenceRecord;
use crate::selfcheck::{Found, SelfCheck};
use crate::snapshots::Snapshots;
use crate::store::Store;
use crate::view::{LogHealth, View};
use crate::{LogError, LogOptions};

/// Longest time between two looks whether a divergence was cleared.
const CLEARED: Duration = Duration::from_secs(1);

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
    pub(crate) check: SelfCheck,
    pub(crate) passes: Arc<Passes>,
    /// Raised when the log was read anew.
    pub(crate) reloads: Arc<AtomicU64>,
    pub(crate) cancel: CancellationToken,
}

/// Who asks for a look at the log that begins now, and which of them had it.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    asked: AtomicU64,
    done: watch::Sender<u64>,
}

impl Passes {
    /// Ask for one.
    pub(crate) fn ask(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Wait until it was made and found no more rows.
    pub(crate) async fn wait(&self, number: u64) {
        let mut done = self.done.subscribe();
        // The sender lives as long as `self`.
        let _ = done.wait_for(|done| *done >= number).await;
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }

    /// The last that had it.
    fn last(&self) -> u64 {
        *self.done.borrow()
    }

    fn done(&self, number: u64) {
        self.done.send_replace(number);
    }
}

/// Says so if the applier ends in a way that it should not.
struct Unexpected {
    health: watch::Sender<LogHealth>,
    views: watch::Sender<Arc<View>>,
    pending: Arc<Pending>,
    armed: bool,
}

impl Unexpected {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Unexpected {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let index = self.views.borrow().index + 1;
        self.health.send_replace(LogHealth::Poisoned {
            index,
            reason: "the applier ended; its last words are in the log".to_owned(),
        });
        self.pending.abandon();
    }
}

impl Tailer {
    /// Apply until cancelled, or until something is found that forbids it.
    /// With `noted`, this node had diverged when it started.
    pub(crate) async fn run(mut self, mut applier: Applier, noted: Option<DivergenceRecord>) {
        let mut wait = self.options.poll_min;
        let unexpected = Unexpected {
            health: self.health.clone(),
            views: self.views.clone(),
            pending: self.pending.clone(),
            armed: true,
        };
        let mut go_on = true;
        if let Some(noted) = noted {
            tracing::error!(health = %diverged(&noted), "the log is not read");
            go_on = self.sit_out(&mut applier, noted, true).await;
        }
        // A look is never cut in the middle: its statements are bounded.
        while go_on && !self.cancel.is_cancelled() {
            self.pending.overdue(self.clock.boot());
            match self.look(&mut applier).await {
                Look::More => {
                    wait = self.options.poll_min;
                    continue;
                }
                Look::Moved => wait = self.options.poll_min,
                Look::Idle | Look::Unreachable => {}
                Look::Final => break,
                Look::Diverged(noted) => {
                    go_on = self.sit_out(&mut applier, noted, false).await;
                    continue;
                }
            }
            let mut due = std::pin::pin!(self.clock.sleep(wait));
            loop {
                tokio::select! {
                    () = self.cancel.cancelled() => {}
                    // For the next look to take.
                    Ok(()) = self.check.found.changed() => self.check.found.mark_changed(),
                    () = self.nudge.notified() => wait = self.options.poll_min,
                    () = self.pending.registered() => {
                        applier.prepare(&self.pending);
                        continue;
                    }
                    () = &mut due => wait = (wait * 2).min(self.options.poll_max),
                }
                break;
            }
        }
        unexpected.disarm();
        self.pending.abandon();
        self.check.close().await;
        if let Some(snapshots) = self.snapshots.take() {
            snapshots.close().await;
        }
    }

    /// This node has diverged: remember it, then wait until that is cleared, and
    /// read the log anew. False if the client is to end.
    async fn sit_out(
        &mut self,
        applier: &mut Applier,
        record: DivergenceRecord,
        mut noted: bool,
    ) -> bool {
        self.health.send_replace(diverged(&record));
        self.pending.abandon();
        while !self.cancel.is_cancelled() {
            let stands = if noted {
                let all = self.store.divergences().await;
                all.map(|all| all.iter().any(|noted| noted.node == record.node))
            } else {
                self.store.note_divergence(&record).await.map(|()| true)
            };
            match stands {
                Ok(true) => noted = true,
                Ok(false) => match self.start_anew(applier).await {
                    Ok(()) => return true,
                    Err(error) => match self.failed(applier, error) {
                        Look::Final => return false,
                        // The database went away: still diverged, as far as is known.
                        _ => drop(self.health.send_replace(diverged(&record))),
                    },
                },
                Err(error) => tracing::debug!(%error, "diverged, and the database does not answer"),
            }
            tokio::select! {
                () = self.cancel.cancelled() => {}
                () = self.clock.sleep(self.options.poll_max.min(CLEARED)) => {}
            }
        }
        false
    }

    /// Forget what was applied, and read what the database holds now.
    async fn start_anew(&mut self, applier: &mut Applier) -> Result<(), LogError> {
        let mut fresh = Applier::default();
        fresh.load(self.store.as_ref(), &self.options).await?;
        *applier = fresh;
        self.pending.begin_anew(applier.view.index);
        self.check.found.mark_unchanged();
        self.reloads.fetch_add(1, Ordering::SeqCst);
        self.publish(applier);
        self.health.send_replace(LogHealth::Healthy);
        tracing::info!(
            index = applier.view.index,
            "the divergence was cleared; the log was read anew"
        );
        Ok(())
    }

    /// What the last comparison found wrong, if that is news.
    fn found(&mut self) -> Option<Look> {
        if !self.check.found.has_changed().unwrap_or(false) {
            return None;
        }
        let found = self.check.found.borrow_and_update().clone()?;
        Some(match found {
            Found::Differs(index, section) => {
                let what = "differs from this node's own state at that row";
                self.diverge(index, section, what)
            }
            Found::Unreadable(index, reason) => self.poisoned(index, reason),
        })
    }

    fn diverge(&self, index: u64, section: &str, what: &str) -> Look {
        let node = &self.options.node;
        let record = DivergenceRecord {
            node: node.clone(),
            index,
            section: section.to_owned(),
            reason: format!(
                "the snapshot at index {index} {what}, first in its section \"{section}\"; \
                 this node does no maintenance until that is settled and cleared: \
                 aedile log clear-divergence --node {node}"
            ),
            // The database fills in its own time.
            found: self.clock.unix(),
        };
        tracing::error!(health = %diverged(&record), "the log is not read any further");
        Look::Diverged(record)
    }

    async fn look(&mut self, applier: &mut Applier) -> Look {
        if let Some(look) = self.found() {
            return look;
        }
        let asked = self.passes.asked();
        let store = self.store.as_ref();
        // What this client appended it need not read. Whatever else is there, the
        // next append meets, or the next look.
        let (own, step) = match applier.own(store, &self.pending).await {
            Some(step) => (true, step),
            None => {
                let step = applier.step(store, &self.options, &self.pending);
                (false, step.await)
            }
        };
        match step {
            Ok(Progress::Rows(rows)) => {
                self.reached();
                if rows.count > 0 {
                    self.publish(applier);
                    rows.delivery.send();
                    self.pending.answered(applier.view.index);
                }
                if let Some(view) = applier.take_due() {
                    self.check.offer(view);
                }
                if let Some(error) = rows.corrupt {
                    return self.failed(applier, error);
                }
                if rows.all {
                    self.passes.done(asked);
                }
                match (rows.count, rows.all) {
                    _ if own && asked != self.passes.last() => Look::More,
                    _ if own => Look::Moved,
                    (0, _) => Look::Idle,
                    (_, true) => Look::Moved,
                    (_, false) => Look::More,
                }
            }
            Ok(Progress::Installed) => {
                self.reached();
                self.publish(applier);
                self.pending.answered(applier.view.index);
                tracing::info!(index = applier.view.index, "a newer snapshot was installed");
                Look::More
            }
            Ok(Progress::Final(health)) => {
                tracing::error!(%health, "the log is not read any further");
                self.health.send_replace(health);
                Look::Final
            }
            Ok(Progress::Contradicts(index, section)) => {
                let what = "does not follow from what this node had applied before it";
                self.diverge(index, section, what)
            }
            Err(error) => self.failed(applier, error),
        }
    }

    fn failed(&self, applier: &Applier, error: LogError) -> Look {
        let poison = match &error {
            LogError::Row { index, .. } | LogError::Snapshot { index, .. } => Some(*index),
            LogError::Gap { expected, .. } => Some(*expected),
            LogError::Index { .. } => Some(applier.view.index + 1),
            _ => None,
        };
        if let Some(index) = poison {
            return self.poisoned(index, error.to_string());
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

    fn poisoned(&self, index: u64, reason: String) -> Look {
        let health = LogHealth::Poisoned { index, reason };
        tracing::error!(%health, "the log is not read any further");
        self.health.send_replace(health);
        Look::Final
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
        self.views.send_replace(Arc::new(applier.view.clone()));
        if let Some(snapshots) = &self.snapshots {
            snapshots.offer(&applier.view, applier.snapshot());
        }
    }
}

/// What a look came to.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// Rows came, and more may wait.
    More,
    /// Rows came, and these were all.
    Moved,
    Idle,
    Unreachable,
    Final,
    /// A snapshot contradicts this node.
    Diverged(DivergenceRecord),
}

/// What is said of a node that has diverged.
pub(crate) fn diverged(record: &DivergenceRecord) -> LogHealth {
    LogHealth::Diverged {
        index: record.index,
        section: record.section.clone(),
        reason: record.reason.clone(),
    }
}
