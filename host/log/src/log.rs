//! The client: what opens, proposes, catches up and closes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use aedile_clock::{SharedClock, UnixMillis};
use aedile_state::Command;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::applier::Applier;
use crate::pending::{Pending, Waiter};
use crate::proposer::{Proposal, Proposer};
use crate::records::Records;
use crate::selfcheck::SelfCheck;
use crate::snapshots::Snapshots;
use crate::store::{self, Access, Store};
use crate::tailer::{Passes, Tailer, diverged};
use crate::view::{Answer, LogHealth, View};
use crate::{Fence, LogError, LogOptions, MetaUrl, schema};

/// Most commands in one call of [`Log::propose`].
const PROPOSE_MAX: usize = 100_000;

/// A client of the metadata log. Clones share one client.
#[derive(Clone)]
pub struct Log {
    inner: Arc<Inner>,
}

struct Inner {
    url: String,
    store: Arc<dyn Store>,
    options: LogOptions,
    clock: SharedClock,
    queue: mpsc::Sender<Proposal>,
    nudge: Arc<Notify>,
    passes: Arc<Passes>,
    views: watch::Receiver<Arc<View>>,
    health: watch::Receiver<LogHealth>,
    cancel: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Log {
    /// Connect, make sure that the tables are there, and read everything that
    /// the log holds now. A node that had diverged begins as one that has.
    ///
    /// # Errors
    /// [`LogError::Unreachable`], [`LogError::ReadOnly`],
    /// [`LogError::ForeignTable`], and those of a row or a snapshot that cannot
    /// be read. Nothing was changed then.
    pub async fn open(
        url: &MetaUrl,
        options: LogOptions,
        clock: SharedClock,
    ) -> Result<Self, LogError> {
        let store = store::connect(url, Access::Write, &options, &clock).await?;
        match Self::start(url, store.clone(), options, clock).await {
            Ok(log) => Ok(log),
            Err(error) => {
                store.close().await;
                Err(error)
            }
        }
    }

    pub(crate) async fn start(
        url: &MetaUrl,
        store: Arc<dyn Store>,
        options: LogOptions,
        clock: SharedClock,
    ) -> Result<Self, LogError> {
        store.writable().await?;
        let mut applier = Applier::default();
        // A log that cannot be read is left as it was found: no table is made.
        let tables = schema::inspect(store.as_ref(), url.backend()).await?;
        let there = tables.iter().all(|table| table.present || !table.of_log);
        if there {
            applier.load(store.as_ref(), &options).await?;
        }
        schema::ensure(store.as_ref(), url.backend(), &tables).await?;
        if !there {
            applier.load(store.as_ref(), &options).await?;
        }
        let tip = store.tip().await?;
        let noted = store.divergences().await?;
        let noted = noted.into_iter().find(|noted| noted.node == options.node);

        let (view_sender, views) = watch::channel(Arc::new(applier.view.clone()));
        let (health_sender, health) =
            watch::channel(noted.as_ref().map_or(LogHealth::Healthy, diverged));
        let own = Arc::new(AtomicU64::new(0));
        let reloads = Arc::new(AtomicU64::new(0));
        let (queue, queued) = mpsc::channel(options.queue.max(1));
        let cancel = CancellationToken::new();
        let nudge = Arc::new(Notify::new());
        let passes = Arc::new(Passes::default());
        let pending = Arc::new(Pending::default());
        pending.answered(applier.view.index);
        let proposer = Proposer {
            store: store.clone(),
            options: options.clone(),
            clock: clock.clone(),
            pending: pending.clone(),
            nudge: nudge.clone(),
            views: views.clone(),
            health: health.clone(),
            cancel: cancel.clone(),
            last: tip.last(),
            reloads: reloads.clone(),
            reloads_seen: 0,
        };
        let tailer = Tailer {
            snapshots: Snapshots::start(
                store.clone(),
                &options,
                clock.clone(),
                tip.snapshot.unwrap_or(0),
                own.clone(),
            ),
            check: SelfCheck::start(store.clone(), clock.clone(), own),
            store: store.clone(),
            options: options.clone(),
            clock: clock.clone(),
            pending,
            nudge: nudge.clone(),
            views: view_sender,
            health: health_sender,
            passes: passes.clone(),
            reloads,
            cancel: cancel.clone(),
        };
        let tasks = vec![
            tokio::spawn(proposer.run(queued)),
            tokio::spawn(tailer.run(applier, noted)),
        ];
        Ok(Self {
            inner: Arc::new(Inner {
                url: url.to_string(),
                store,
                options,
                clock,
                queue,
                nudge,
                passes,
                views,
                health,
                cancel,
                tasks: Mutex::new(tasks),
            }),
        })
    }

    /// The newest view.
    pub fn view(&self) -> Arc<View> {
        self.inner.views.borrow().clone()
    }

    /// Views as they are published; several rows may come in one.
    pub fn views(&self) -> watch::Receiver<Arc<View>> {
        self.inner.views.clone()
    }

    /// How the client stands to its log.
    pub fn health(&self) -> watch::Receiver<LogHealth> {
        self.inner.health.clone()
    }

    /// Append commands, together with what others propose at the same time,
    /// and wait for their answers: one for each, in order. The view that holds
    /// them is published before.
    ///
    /// Dropping the future does not take the commands back.
    ///
    /// # Errors
    /// [`LogError::NotAppended`] if none of them stands in the log;
    /// [`LogError::Stopped`], [`LogError::Diverged`] and [`LogError::Closed`] if
    /// the client ended first, and then they may.
    pub async fn propose(&self, commands: Vec<Command>) -> Result<Vec<Answer>, LogError> {
        self.propose_with(commands, None).await
    }

    /// The same, under a fence: the commands land only while its term stands, and
    /// never in one row with others'. Once it is over they are answered
    /// [`Answer::FencedOut`], and none of them stands in the log.
    ///
    /// # Errors
    /// As [`Log::propose`].
    pub async fn propose_fenced(
        &self,
        commands: Vec<Command>,
        fence: &Fence,
    ) -> Result<Vec<Answer>, LogError> {
        self.propose_with(commands, Some(Arc::new(fence.clone())))
            .await
    }

    async fn propose_with(
        &self,
        mut commands: Vec<Command>,
        fence: Option<Arc<Fence>>,
    ) -> Result<Vec<Answer>, LogError> {
        if commands.len() > PROPOSE_MAX {
            return Err(LogError::TooMany {
                count: commands.len(),
                limit: PROPOSE_MAX,
            });
        }
        let count = commands.len();
        let batch = self.inner.options.batch_max.max(1);
        let until = self.inner.clock.boot() + self.inner.options.propose_timeout;
        let mut replies = Vec::with_capacity(count.div_ceil(batch));
        while !commands.is_empty() {
            let rest = commands.split_off(commands.len().min(batch));
            let (reply, answer) = oneshot::channel();
            let waiter = Waiter {
                count: commands.len(),
                reply,
            };
            replies.push((commands.len(), answer));
            let proposal = Proposal {
                commands,
                waiter,
                until,
                fence: fence.clone(),
            };
            if self.queue(proposal).await.is_err() {
                return Err(self.ended());
            }
            commands = rest;
        }
        let mut answers = Vec::new();
        for (count, reply) in replies {
            // Whoever has the other end lets go of it when nobody will answer.
            match reply.await {
                Ok(more) if answers.is_empty() => answers = more?,
                Ok(more) => answers.extend(more?),
                Err(_) if self.has_ended() => return Err(self.ended()),
                Err(_) => answers.extend(std::iter::repeat_n(Answer::Unknown, count)),
            }
        }
        Ok(answers)
    }

    async fn queue(&self, proposal: Proposal) -> Result<(), ()> {
        if self.has_ended() {
            return Err(());
        }
        let proposal = match self.inner.queue.try_send(proposal) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(()),
            Err(TrySendError::Full(proposal)) => proposal,
        };
        tokio::select! {
            () = self.inner.cancel.cancelled() => Err(()),
            sent = self.inner.queue.send(proposal) => sent.map_err(|_| ()),
        }
    }

    fn has_ended(&self) -> bool {
        self.inner.cancel.is_cancelled() || self.inner.health.borrow().has_stopped()
    }

    fn ended(&self) -> LogError {
        match &*self.inner.health.borrow() {
            health @ LogHealth::Diverged { .. } => LogError::Diverged(health.to_string()),
            health if health.is_final() => LogError::Stopped(health.to_string()),
            _ => LogError::Closed,
        }
    }

    /// Have the database read now, and wait until the view holds all that the
    /// log does.
    ///
    /// # Errors
    /// [`LogError::Unreachable`] or [`LogError::Timeout`] if it does not get
    /// there in time; [`LogError::Stopped`] also where the log went back;
    /// [`LogError::Diverged`].
    pub async fn catch_up(&self, limit: Duration) -> Result<Arc<View>, LogError> {
        if self.has_ended() {
            return Err(self.ended());
        }
        let mut health = self.inner.health.clone();
        let number = self.inner.passes.ask();
        self.inner.nudge.notify_one();
        let caught = async {
            tokio::select! {
                () = self.inner.passes.wait(number) => Ok(self.view()),
                _ = health.wait_for(LogHealth::has_stopped) => Err(self.ended()),
                () = self.inner.cancel.cancelled() => Err(LogError::Closed),
            }
        };
        match self.inner.clock.timeout(limit, caught).await {
            Ok(view) => view,
            Err(elapsed) => match &*self.inner.health.borrow() {
                LogHealth::Unreachable { error, .. } => Err(LogError::Unreachable {
                    url: self.inner.url.clone(),
                    reason: error.clone(),
                }),
                _ => Err(LogError::Timeout {
                    what: "catching up with the log",
                    limit: elapsed.0,
                }),
            },
        }
    }

    /// The database's clock.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn database_now(&self) -> Result<UnixMillis, LogError> {
        self.inner.store.now().await
    }

    /// The tables for nodes and runs.
    pub fn records(&self) -> Records {
        Records::new(self.inner.store.clone())
    }

    /// End the tasks, wait for them, and close every connection. Proposals that
    /// have no answer yet get [`LogError::Closed`].
    pub async fn close(self) {
        self.inner.cancel.cancel();
        let mut tasks = self.inner.tasks.lock().await;
        for task in tasks.drain(..) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the log client did not end well");
            }
        }
        drop(tasks);
        self.inner.store.close().await;
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("index", &self.view().index)
            .field("health", &*self.inner.health.borrow())
            .finish_non_exhaustive()
    }
}
