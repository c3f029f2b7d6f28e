//! A term: one task for each plugin, from winning the lease to the join.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::SharedClock;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::follow::follow;
use super::{Book, Identity};
use crate::backend::{Backend as _, Live, Trouble};
use crate::guard::Guards;
use crate::parked::keep;
use crate::source::PluginSet;
use crate::stopfile::Stops;

/// How long a tick may go on after it was asked to stop.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// Wait before a task that died is started again, or the log asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// How often parked objects are looked after.
const KEEP: Duration = Duration::from_secs(1);

/// What a term needs.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(crate) clock: SharedClock,
    pub(crate) guards: Arc<Guards<Live>>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) book: Arc<Book>,
    /// What this node's stop file says.
    pub(crate) stops: watch::Receiver<Arc<Stops>>,
    /// Names of the plugins that the binary has.
    pub(crate) builtins: BTreeSet<String>,
    /// Failures in a row of a revision's first ticks after which it is taken
    /// back; 0: never.
    pub(crate) roll_back_after: u32,
    /// Asks the ticks to return.
    pub(crate) soft: CancellationToken,
    /// Interrupts them; also cancelled once an append was fenced out.
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

/// Park what is due and do what operators ask of parked objects, until the term
/// ends. Looks at the latest view, so that it costs nothing when nothing waits.
async fn keep_parked(lead: Arc<Lead>) {
    while !lead.soft.is_cancelled() {
        match keep(&lead.guards).await {
            Ok(()) => {}
            Err(Trouble::LeaseLost) => return,
            Err(Trouble::Unavailable(reason)) => {
                tracing::warn!(%reason, "parked objects are not brought up to date");
            }
        }
        tokio::select! {
            () = lead.soft.cancelled() => {}
            () = lead.guards.backend.authority.ended() => return,
            () = lead.clock.sleep(KEEP) => {}
        }
    }
}

async fn run(lead: &Arc<Lead>, set: &mut watch::Receiver<Arc<PluginSet>>) {
    let mut tasks: JoinSet<()> = JoinSet::new();
    let mut names: HashMap<tokio::task::Id, String> = HashMap::new();
    let mut running: HashMap<String, CancellationToken> = HashMap::new();
    let keeping = tokio::spawn(keep_parked(lead.clone()));
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
            () = lead.hard.cancelled() => break,
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
    let joined = async {
        while tasks.join_next().await.is_some() {}
        if let Err(error) = keeping.await {
            tracing::error!(%error, "the task that keeps the parked objects died");
        }
    };
    tokio::pin!(joined);
    // A lost lease interrupts at once: the engine reads the authority itself.
    if lead.clock.timeout(GRACE, &mut joined).await.is_err() {
        lead.hard.cancel();
        joined.await;
    }
}
