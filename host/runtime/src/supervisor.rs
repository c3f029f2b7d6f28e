//! Follows the leadership: leads while this node holds the lease, and says
//! whether it is fit to.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::BootInstant;
use aedile_lease::{Keeper, Leadership, Term};
use aedile_log::LogHealth;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::backend::{Live, fence};
use crate::guard::{Guards, StoreTrust};
use crate::heartbeat::Heartbeat;
use crate::shared::Shared;
use crate::status::Status;
use crate::term::{Identity, Lead, lead};

/// How often fitness is looked at when nothing else happens.
const LOOK: Duration = Duration::from_secs(1);

/// Least time between two published statuses.
const PUBLISH: Duration = Duration::from_millis(200);

/// A term that is being led.
struct Leading {
    term: Term,
    lead: Arc<Lead>,
    task: JoinHandle<()>,
    /// Cancelled when the task ends, however it does.
    done: CancellationToken,
}

impl std::fmt::Debug for Leading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leading")
            .field("term", &self.term)
            .finish_non_exhaustive()
    }
}

/// Follows the leadership until it is told to stop.
#[derive(Debug)]
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    keeper: Keeper,
    leading: Option<Leading>,
    /// The last term that was led to its end: it does not begin again.
    over: Option<Term>,
    caught_up: bool,
    /// Not a contender before this: its plugins were all quarantined.
    cool_down: Option<BootInstant>,
    eligible: Option<Result<(), String>>,
    status: watch::Sender<Arc<Status>>,
    published: Option<BootInstant>,
}

impl Supervisor {
    pub(crate) fn new(
        shared: Arc<Shared>,
        keeper: Keeper,
        status: watch::Sender<Arc<Status>>,
    ) -> Self {
        Self {
            shared,
            keeper,
            leading: None,
            over: None,
            caught_up: false,
            cool_down: None,
            eligible: None,
            status,
            published: None,
        }
    }

    /// Run until `stop`. When this returns, the ticks have been joined, the lease
    /// is released and the keeper has stopped.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let clock = self.shared.clock.clone();
        let mut leadership = self.keeper.leadership();
        let mut health = self.shared.log.health();
        let mut changes = self.shared.book.changes();
        let mut set = self.shared.set.subscribe();
        let mut stops = self.shared.stops.subscribe();
        let over = CancellationToken::new();
        let heartbeat = tokio::spawn(Heartbeat::new(self.shared.clone()).run(over.clone()));
        self.shared.book.install(&set.borrow_and_update().clone());
        self.join_log(&stop).await;
        loop {
            self.judge_fitness().await;
            let now = leadership.borrow_and_update().clone();
            self.follow(now).await;
            self.publish();
            tokio::select! {
                () = stop.cancelled() => break,
                changed = leadership.changed() => if changed.is_err() {
                    tracing::error!("the lease's keeper is gone; stopping");
                    break;
                },
                _ = health.changed() => {}
                changed = set.changed() => if changed.is_ok() {
                    let set = set.borrow_and_update().clone();
                    self.shared.book.install(&set);
                },
                _ = changes.changed() => {}
                _ = stops.changed() => self.shared.book.touch(),
                () = ended(self.leading.as_ref().map(|now| now.done.clone())) => {}
                () = clock.sleep(LOOK) => {}
            }
        }
        self.end_term().await;
        over.cancel();
        if let Err(error) = heartbeat.await {
            tracing::error!(%error, "the heartbeat's task died");
        }
        self.keeper.stop().await;
    }

    fn publish(&mut self) {
        let now = self.shared.clock.boot();
        if self.published.is_none_or(|last| now.since(last) >= PUBLISH) {
            self.published = Some(now);
            self.status.send_replace(Arc::new(self.shared.status()));
        }
    }

    /// Catch up with the log once before contending.
    async fn join_log(&mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() && !self.caught_up {
            let wait = self.shared.options.catch_up;
            tokio::select! {
                () = stop.cancelled() => return,
                caught = self.shared.log.catch_up(wait) => match caught {
                    Ok(_) => self.caught_up = true,
                    Err(error) => {
                        let error = crate::backend::chain(&error);
                        self.set_eligible(Err(format!("not caught up with the log: {error}")));
                        self.publish();
                        tracing::warn!(%error, "not caught up with the log yet");
                        tokio::select! {
                            () = stop.cancelled() => return,
                            () = self.shared.clock.sleep(LOOK) => {}
                        }
                    }
                }
            }
        }
    }

    fn set_eligible(&mut self, eligible: Result<(), String>) {
        if self.eligible.as_ref() != Some(&eligible) {
            if let Err(reason) = &eligible {
                tracing::warn!(%reason, "this node does not contend for the lease");
            }
            self.keeper.set_eligible(eligible.clone());
            self.eligible = Some(eligible);
            self.shared.book.touch();
        }
    }

    /// Whether this node is fit to lead; a term is ended when it is not.
    async fn judge_fitness(&mut self) {
        let eligible = self.fitness();
        let unfit = eligible.is_err();
        self.set_eligible(eligible);
        if unfit {
            self.end_term().await;
        }
    }

    fn fitness(&mut self) -> Result<(), String> {
        let now = self.shared.clock.boot();
        match &*self.shared.log.health().borrow() {
            LogHealth::Healthy => {}
            LogHealth::Unreachable { error, since } => {
                // A short outage is the lease's own to judge.
                if now.since(*since) > self.shared.options.catch_up * 2 {
                    return Err(format!("the metadata log cannot be reached: {error}"));
                }
            }
            LogHealth::Poisoned { index, reason } => {
                return Err(format!(
                    "the metadata log is poisoned at row {index}: {reason}"
                ));
            }
            other => return Err(format!("the metadata log is not usable: {other}")),
        }
        if !self.caught_up {
            return Err("not caught up with the log".to_owned());
        }
        let set = self.shared.set.borrow().clone();
        let runs = |loaded: &crate::source::Loaded| loaded.settings.enabled;
        if !set.plugins.values().any(|loaded| runs(loaded)) {
            return Err("no plugin is there to run".to_owned());
        }
        // Another node may lead what is stopped here only.
        let stops = self.shared.stops.borrow().clone();
        if !set
            .plugins
            .iter()
            .any(|(name, loaded)| runs(loaded) && !stops.stops(name))
        {
            return Err("the stop file stops every plugin on this node".to_owned());
        }
        if self.cool_down.is_some_and(|until| now < until) {
            return Err("every plugin is quarantined; another node may try".to_owned());
        }
        self.cool_down = None;
        // A holder whose work is dead does not renew for ever.
        if self.leading.is_some() && self.shared.book.dead(&set) {
            self.cool_down = Some(now + self.shared.options.quarantine);
            return Err("every plugin is quarantined; another node may try".to_owned());
        }
        Ok(())
    }

    async fn follow(&mut self, leadership: Leadership) {
        match leadership {
            Leadership::Holder { term, authority } => {
                if self.leading.as_ref().is_some_and(|now| now.term == term) {
                    if self
                        .leading
                        .as_ref()
                        .is_some_and(|now| now.done.is_cancelled())
                    {
                        self.end_term().await;
                    }
                    return;
                }
                self.end_term().await;
                if self.over.as_ref() == Some(&term) || !authority.holds() {
                    return;
                }
                self.begin(term, authority);
            }
            _ => self.end_term().await,
        }
    }

    fn begin(&mut self, term: Term, authority: aedile_lease::Authority) {
        let shared = &self.shared;
        tracing::info!(epoch = term.epoch, holder = %term.holder, "leading");
        let soft = CancellationToken::new();
        let hard = CancellationToken::new();
        let backend = Live {
            log: shared.log.clone(),
            store: shared.store.clone(),
            authority,
            clock: shared.clock.clone(),
            stop: hard.clone(),
            catch_up: shared.options.catch_up,
            fence: fence(&term),
            set: shared.set.subscribe(),
        };
        let guards = Arc::new(
            Guards::new(
                backend,
                shared.aside.clone(),
                StoreTrust::new(shared.options.confirm_empty_store),
                shared.entropy.clone(),
            )
            .with_orphans(shared.options.orphans),
        );
        // What others cleaned meanwhile is nothing to remember.
        let view = shared.log.view();
        shared
            .aside
            .retain(|id| view.state.mark(aedile_state::ObjectId(id)).is_some());
        shared.began_term(guards.clone());
        let leading = Arc::new(Lead {
            clock: shared.clock.clone(),
            guards,
            identity: Arc::new(Identity {
                node: shared.options.node.clone(),
                epoch: term.epoch,
            }),
            book: shared.book.clone(),
            stops: shared.stops.subscribe(),
            builtins: shared.options.builtin_names(),
            roll_back_after: shared.options.roll_back_after,
            soft,
            hard,
        });
        let done = CancellationToken::new();
        let ended = done.clone().drop_guard();
        let work = lead(leading.clone(), shared.set.subscribe());
        let task = tokio::spawn(async move {
            work.await;
            drop(ended);
        });
        self.leading = Some(Leading {
            term,
            lead: leading,
            task,
            done,
        });
        shared.book.touch();
    }

    /// Stop the ticks, wait for the last to end, then release.
    async fn end_term(&mut self) {
        let Some(leading) = self.leading.take() else {
            return;
        };
        tracing::info!(
            epoch = leading.term.epoch,
            "the term ends; stopping its ticks"
        );
        leading.lead.soft.cancel();
        if let Err(error) = leading.task.await {
            // What it had in flight is still tracked: nothing may be left behind.
            tracing::error!(%error, "the task of the term died");
            leading.lead.hard.cancel();
            leading.lead.guards.in_flight.close();
            leading.lead.guards.in_flight.wait().await;
        }
        self.keeper.release(&leading.term).await;
        tracing::info!(epoch = leading.term.epoch, "no longer leading");
        self.over = Some(leading.term);
        self.shared.ended_term();
    }
}

/// Ends when the term's task does; never if no term is led.
async fn ended(leading: Option<CancellationToken>) {
    match leading {
        Some(done) => done.cancelled().await,
        None => std::future::pending().await,
    }
}
