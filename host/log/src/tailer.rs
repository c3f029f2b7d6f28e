//! The task that reads the log, applies its rows in order and publishes views.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aedile_clock::SharedClock;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::applier::{Applier, Progress};
use crate::pending::Pending;
use crate::snapshots::Snapshots;
use crate::store::Store;
use crate::view::{LogHealth, View};
use crate::{LogError, LogOptions};

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
    pub(crate) passes: Arc<Passes>,
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

    fn done(&self, number: u64) {
        self.done.send_replace(number);
    }
}

/// Says so if the applier ends in a way that it should not.
struct Unexpected {
    health: watch::Sender<LogHealth>,
    views: watch::Sender<Arc<View>>,
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
    }
}

impl Tailer {
    /// Apply until cancelled, or until something is found that forbids it.
    pub(crate) async fn run(mut self, mut applier: Applier) {
        let mut wait = self.options.poll_min;
        let unexpected = Unexpected {
            health: self.health.clone(),
            views: self.views.clone(),
            armed: true,
        };
        // A look is never cut in the middle: its statements are bounded.
        while !self.cancel.is_cancelled() {
            match self.look(&mut applier).await {
                Look::More => {
                    wait = self.options.poll_min;
                    continue;
                }
                Look::Moved => wait = self.options.poll_min,
                Look::Idle | Look::Unreachable => {}
                Look::Final => break,
            }
            tokio::select! {
                () = self.cancel.cancelled() => {}
                () = self.nudge.notified() => wait = self.options.poll_min,
                () = self.clock.sleep(wait) => wait = (wait * 2).min(self.options.poll_max),
            }
        }
        unexpected.disarm();
        self.pending.abandon();
        if let Some(snapshots) = self.snapshots.take() {
            snapshots.close().await;
        }
    }

    async fn look(&mut self, applier: &mut Applier) -> Look {
        let asked = self.passes.asked();
        let step = applier.step(self.store.as_ref(), &self.options, &self.pending);
        match step.await {
            Ok(Progress::Rows(rows)) => {
                self.reached();
                if rows.count > 0 {
                    self.publish(applier);
                    rows.delivery.send();
                }
                if let Some(error) = rows.corrupt {
                    return self.failed(applier, error);
                }
                if rows.all {
                    self.passes.done(asked);
                }
                match (rows.count, rows.all) {
                    (0, _) => Look::Idle,
                    (_, true) => Look::Moved,
                    (_, false) => Look::More,
                }
            }
            Ok(Progress::Installed) => {
                self.reached();
                self.publish(applier);
                tracing::info!(index = applier.view.index, "a newer snapshot was installed");
                Look::More
            }
            Ok(Progress::Final(health)) => {
                tracing::error!(%health, "the log is not read any further");
                self.health.send_replace(health);
                Look::Final
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
            let health = LogHealth::Poisoned {
                index,
                reason: error.to_string(),
            };
            tracing::error!(%health, "the log is not read any further");
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
}
