//! A term: one task for each plugin, from winning the lease to the join.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::SharedClock;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Book, Identity, Runs, tick};
use crate::backend::{Backend as _, Live, Trouble};
use crate::guard::Guards;
use crate::source::{Loaded, PluginSet};

/// How long a tick may go on after it was asked to stop.
const GRACE: Duration = Duration::from_secs(2);
/// Wait before a task that died is started again, or the log asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// What a term needs.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(crate) clock: SharedClock,
    pub(crate) guards: Arc<Guards<Live>>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) book: Arc<Book>,
    /// Asks the ticks to return.
    pub(crate) soft: CancellationToken,
    /// Interrupts them.
    pub(crate) hard: CancellationToken,
}

/// Lead until the authority ends or `soft` is cancelled. When this returns, every
/// tick has ended and everything that was sent has been answered.
pub(crate) async fn lead(lead: Arc<Lead>, mut set: watch::Receiver<Arc<PluginSet>>) {
    if caught_up(&lead).await {
        run(&lead, &mut set).await;
    }
    lead.hard.cancel();
    lead.guards.in_flight.close();
    lead.guards.in_flight.wait().await;
    lead.book.rest();
}

/// No tick before the view has caught up with the log's tail in this term.
async fn caught_up(lead: &Lead) -> bool {
    while !lead.soft.is_cancelled() {
        match lead.guards.backend.fresh().await {
            Ok(_) => return true,
            Err(Trouble::LeaseLost) => return false,
            Err(Trouble::Unavailable(reason)) => {
                tracing::warn!(%reason, "leading, but not caught up with the log yet");
                tokio::select! {
                    () = lead.soft.cancelled() => {}
                    () = lead.guards.backend.authority.ended() => {}
                    () = lead.clock.sleep(AGAIN) => {}
                }
            }
        }
    }
    false
}

async fn run(lead: &Arc<Lead>, set: &mut watch::Receiver<Arc<PluginSet>>) {
    let mut tasks: JoinSet<()> = JoinSet::new();
    let mut names: HashMap<tokio::task::Id, String> = HashMap::new();
    let mut running: HashMap<String, CancellationToken> = HashMap::new();
    loop {
        let now = set.borrow_and_update().clone();
        let wanted = |name: &str| now.plugins.get(name).is_some_and(|l| l.settings.enabled);
        for (name, stop) in &running {
            if !wanted(name) {
                stop.cancel();
            }
        }
        for name in now.plugins.keys().filter(|name| wanted(name)) {
            if running.contains_key(name) {
                continue;
            }
            let stop = lead.soft.child_token();
            running.insert(name.clone(), stop.clone());
            let task = follow(lead.clone(), name.clone(), set.clone(), stop);
            names.insert(tasks.spawn(task).id(), name.clone());
        }
        tokio::select! {
            () = lead.soft.cancelled() => break,
            () = lead.guards.backend.authority.ended() => break,
            changed = set.changed() => if changed.is_err() { break },
            Some(ended) = tasks.join_next_with_id(), if !tasks.is_empty() => {
                let id = match ended {
                    Ok((id, ())) => id,
                    Err(error) => {
                        tracing::error!(%error, "the task of a plugin died; it is started again");
                        tokio::select! {
                            () = lead.soft.cancelled() => {}
                            () = lead.clock.sleep(AGAIN) => {}
                        }
                        error.id()
                    }
                };
                if let Some(name) = names.remove(&id) {
                    running.remove(&name);
                }
            }
        }
    }
    lead.soft.cancel();
    let joined = async { while tasks.join_next().await.is_some() {} };
    tokio::pin!(joined);
    // A lost lease interrupts at once: the engine reads the authority itself.
    if lead.clock.timeout(GRACE, &mut joined).await.is_err() {
        lead.hard.cancel();
        joined.await;
    }
}

/// Tick one plugin until it is to stop. A newer module is taken up between two
/// ticks, and runs at once.
async fn follow(
    lead: Arc<Lead>,
    name: String,
    mut set: watch::Receiver<Arc<PluginSet>>,
    stop: CancellationToken,
) {
    let entropy = lead.guards.entropy.clone();
    let log = lead.guards.backend.log.clone();
    let mut runs = Runs::new(log, lead.clock.clone(), lead.identity.clone());
    let mut current: Option<Arc<Loaded>> = None;
    let mut due = lead
        .book
        .not_before(&name)
        .unwrap_or_else(|| lead.clock.boot());
    loop {
        let Some(loaded) = set.borrow_and_update().plugins.get(&name).cloned() else {
            return;
        };
        let swapped = current
            .as_ref()
            .is_some_and(|now| !Arc::ptr_eq(now, &loaded));
        if swapped {
            // The clean slate of a new version is laid before its first tick.
            let now = set.borrow().clone();
            lead.book.install(&now);
            due = lead
                .book
                .not_before(&name)
                .unwrap_or_else(|| lead.clock.boot());
        }
        current = Some(loaded.clone());
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = lead.guards.backend.authority.ended() => return,
            changed = set.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
            () = lead.clock.sleep_until(due) => {}
        }
        lead.book.began(&name);
        let ticked = tick(&lead.guards, &loaded, &lead.identity, lead.control(&stop)).await;
        let wait = lead.book.ended(&loaded, &ticked, &entropy);
        runs.note(&loaded, &ticked).await;
        due = lead.clock.boot() + wait;
        if ticked.end.lost {
            return;
        }
    }
}

impl Lead {
    /// What a tick is to heed.
    fn control(&self, stop: &CancellationToken) -> aedile_engine::Control {
        let authority = self.guards.backend.authority.clone();
        let hard = self.hard.clone();
        aedile_engine::Control {
            authority: Arc::new(move || !hard.is_cancelled() && authority.holds()),
            stop: stop.clone(),
        }
    }
}
