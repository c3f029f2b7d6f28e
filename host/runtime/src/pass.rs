//! One pass: every plugin ticks until nothing is left to do, and each object is
//! tried once. The live pass and the dry run are this one loop.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aedile_engine::Control;
use aedile_lease::{Authority, Keeper, Leadership, Term};
use aedile_state::State;

use tokio_util::sync::CancellationToken;

use crate::backend::{Backend, Live, Trouble, fence};
use crate::error::RuntimeError;
use crate::guard::{Guards, StoreTrust, Why};
use crate::parked::keep;
use crate::plan::LeftObject;
use crate::runtime::{Outcome, PassTotals};
use crate::shared::{Shared, left};
use crate::source::{Loaded, PluginSet};
use crate::term::{Identity, Runs, Ticked, tick};

/// Ticks of one plugin after which a pass gives up on it.
const TICKS: u64 = 100_000;
/// Rounds over all plugins: what one does may give another work, but two that
/// feed each other must not go on for ever.
const ROUNDS: usize = 8;

/// Why a mark is left that nothing speaks against.
const UNTAKEN: &str = "no plugin that ran took it off the queue";

/// How one plugin's ticks went.
#[derive(Clone, Debug)]
pub(crate) struct Went {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) ticks: u64,
    /// Why it was given up; none if it came to its end.
    pub(crate) failure: Option<String>,
}

/// Tick every plugin until nothing is left to do.
pub(crate) async fn drain<B: Backend + std::fmt::Debug>(
    guards: &Arc<Guards<B>>,
    set: &PluginSet,
    identity: &Identity,
    control: impl Fn() -> Control,
    mut after: impl AsyncFnMut(&Loaded, &Ticked),
) -> Result<Vec<Went>, Trouble> {
    let mut all: Vec<Went> = set
        .plugins
        .values()
        // One that stands for its trial alone does nothing.
        .filter(|loaded| loaded.settings.enabled && !loaded.shadow)
        .map(|loaded| Went {
            loaded: loaded.clone(),
            ticks: 0,
            failure: None,
        })
        .collect();
    // With the wrong bucket nothing at all is changed. A store that cannot be
    // looked at is for the ticks to report.
    if matches!(guards.in_doubt().await, Ok(true)) {
        return Ok(all);
    }
    for _ in 0..ROUNDS {
        let mut effects = 0;
        for went in all.iter_mut().filter(|went| went.failure.is_none()) {
            loop {
                guards.authority()?;
                let ticked = tick(guards, &went.loaded, identity, control()).await;
                went.ticks += 1;
                effects += ticked.effects;
                after(&went.loaded, &ticked).await;
                if ticked.end.lost {
                    return Err(Trouble::LeaseLost);
                }
                if ticked.end.failure.is_some() {
                    went.failure = Some(ticked.end.text.clone());
                } else if ticked.goes_on() {
                    if went.ticks < TICKS {
                        continue;
                    }
                    went.failure = Some(format!("it still asks for more after {TICKS} ticks"));
                }
                break;
            }
        }
        if effects == 0 {
            break;
        }
    }
    Ok(all)
}

/// What a pass has left, by kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Left {
    pub(crate) parked: Vec<LeftObject>,
    pub(crate) conflicts: Vec<LeftObject>,
    pub(crate) failed: Vec<LeftObject>,
    pub(crate) refused: Vec<LeftObject>,
}

/// Sort what is left: every mark of the view, and every refusal. A mark below
/// `until`, the place that was next when the pass began, was there for a plugin
/// to take.
pub(crate) fn left_over<B: Backend>(guards: &Guards<B>, state: &State, until: u64) -> Left {
    let mut left_over = Left::default();
    // A doubt about the store is reported once, not for each object.
    let doubt = guards.trust.doubt().is_some();
    let aside: std::collections::HashMap<u64, Why> = guards.aside.list().into_iter().collect();
    let parked = guards.parked.of(state);
    for (seq, id, operation) in state.marks_after(None) {
        if let Some(parked) = parked.get(id) {
            left_over.parked.push(left(id.0, operation, &parked.reason));
            continue;
        }
        match aside.get(&id.0) {
            Some(Why::Unreadable(text)) => left_over.parked.push(left(id.0, operation, text)),
            Some(Why::Conflict(text)) => left_over.conflicts.push(left(id.0, operation, text)),
            Some(Why::Failed(text) | Why::Held(text)) => {
                left_over.failed.push(left(id.0, operation, text));
            }
            None if seq < until && !doubt => {
                left_over.failed.push(left(id.0, operation, UNTAKEN));
            }
            None => {}
        }
    }
    for (id, text) in guards.refusals() {
        let operation = state.mark(id).map_or("none", |(_, operation)| {
            crate::guard::operation_name(operation)
        });
        left_over.refused.push(LeftObject {
            id: id.0,
            operation: operation.to_owned(),
            reason: text,
        });
    }
    left_over
}

/// Acquire the lease, drain, release.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    keeper: &Keeper,
    wait: Option<Duration>,
    stop: &CancellationToken,
) -> Result<Outcome, RuntimeError> {
    let held = Held::begin(shared, keeper, wait, stop).await?;
    let outcome = lead(shared, &held.guards, &held.term, stop).await;
    held.end(keeper).await;
    outcome
}

/// A term, and the guards that stand in it.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) guards: Arc<Guards<Live>>,
    term: Term,
    /// Nothing is sent once it is cancelled.
    hard: CancellationToken,
}

impl Held {
    /// Catch up, contend and wait for the term.
    pub(crate) async fn begin(
        shared: &Shared,
        keeper: &Keeper,
        wait: Option<Duration>,
        stop: &CancellationToken,
    ) -> Result<Self, RuntimeError> {
        let stopped = || stop.cancelled();
        tokio::select! {
            biased;
            () = stopped() => return Err(RuntimeError::Stopped),
            caught_up = shared.log.catch_up(shared.options.catch_up) => {
                caught_up.map_err(RuntimeError::Log)?;
            }
        }
        keeper.set_eligible(Ok(()));
        let (term, authority) = acquire(shared, wait, stop).await?;
        // Asked to stop, the pass sends nothing more.
        let hard = stop.child_token();
        let guards = Guards::new(
            Live {
                log: shared.log.clone(),
                store: shared.store.clone(),
                authority,
                clock: shared.clock.clone(),
                stop: hard.clone(),
                catch_up: shared.options.catch_up,
                fence: fence(&term),
                set: shared.set.subscribe(),
            },
            shared.aside.clone(),
            StoreTrust::new(shared.options.confirm_empty_store),
            shared.entropy.clone(),
        );
        let guards = Arc::new(guards.with_orphans(shared.options.orphans));
        Ok(Self { guards, term, hard })
    }

    /// Stop, join what is in flight, then release.
    pub(crate) async fn end(self, keeper: &Keeper) {
        self.hard.cancel();
        self.guards.in_flight.close();
        self.guards.in_flight.wait().await;
        keeper.release(&self.term).await;
    }
}

/// Wait for the lease.
async fn acquire(
    shared: &Shared,
    wait: Option<Duration>,
    stop: &CancellationToken,
) -> Result<(Term, Authority), RuntimeError> {
    let mut leadership = shared.leadership.clone();
    let began = shared.clock.boot();
    let mut warned = None;
    loop {
        let now = leadership.borrow_and_update().clone();
        let reason = match now {
            Leadership::Holder { term, authority } if authority.holds() => {
                return Ok((term, authority));
            }
            Leadership::Holder { .. } => "the authority has just ended".to_owned(),
            Leadership::Ineligible { reason } => reason,
            Leadership::Follower { seen: Some(seen) } if !seen.holder.is_empty() => {
                let native = if seen.native {
                    " (a PicoMQ node: it renews for ever, and only --take-over takes the lease from it)"
                } else {
                    ""
                };
                format!("{} holds it{native}", seen.holder)
            }
            Leadership::Follower { .. } => "nobody holds it yet".to_owned(),
            Leadership::Unreachable { error, .. } => error,
            Leadership::WrongRole { detail } => detail,
        };
        if warned.as_ref() != Some(&reason) {
            tracing::info!(%reason, "waiting for the lease");
            warned = Some(reason.clone());
        }
        let waited = shared.clock.boot().since(began);
        let left = match wait {
            Some(wait) if waited >= wait => return Err(RuntimeError::NoLease { waited, reason }),
            Some(wait) => wait - waited,
            None => Duration::from_secs(3600),
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return Err(RuntimeError::Stopped),
            changed = leadership.changed() => if changed.is_err() {
                return Err(RuntimeError::NoLease { waited, reason: "the keeper is gone".to_owned() });
            },
            () = shared.clock.sleep(left) => {}
        }
    }
}

async fn lead(
    shared: &Arc<Shared>,
    guards: &Arc<Guards<Live>>,
    term: &Term,
    stop: &CancellationToken,
) -> Result<Outcome, RuntimeError> {
    let set = shared.unstopped();
    let identity = Arc::new(Identity {
        node: shared.options.node.clone(),
        epoch: term.epoch,
    });
    let control = || {
        let authority = guards.backend.authority.clone();
        let stop = stop.clone();
        Control {
            authority: Arc::new({
                let stop = stop.clone();
                move || !stop.is_cancelled() && authority.holds()
            }),
            stop,
        }
    };
    if let Err(trouble) = keep(guards).await {
        match trouble {
            Trouble::LeaseLost if stop.is_cancelled() => return Err(RuntimeError::Stopped),
            Trouble::LeaseLost => return Err(RuntimeError::LeaseLost),
            Trouble::Unavailable(reason) => {
                tracing::warn!(%reason, "what operators ask of parked objects is not done");
            }
        }
    }
    let until = shared.log.view().state.next_mark_seq();
    let mut ticks = 0;
    let mut runs = std::collections::HashMap::new();
    let drained = drain(guards, &set, &identity, control, async |loaded, ticked| {
        ticks += 1;
        runs.entry(loaded.name().to_owned())
            .or_insert_with(|| {
                Runs::new(shared.log.clone(), shared.clock.clone(), identity.clone())
            })
            .note(loaded, ticked)
            .await;
    })
    .await;
    // Fenced out, the last tick may still have come to its end.
    let over = guards.backend.stop.is_cancelled() && !stop.is_cancelled();
    let went = match drained {
        Ok(_) if over => return Err(RuntimeError::LeaseLost),
        Ok(went) => went,
        Err(_) if stop.is_cancelled() => return Err(RuntimeError::Stopped),
        Err(_) => return Err(RuntimeError::LeaseLost),
    };
    let counters = &guards.counters;
    let totals = PassTotals {
        ticks,
        deleted: counters.deleted.load(Ordering::Relaxed),
        parts: counters.parts.load(Ordering::Relaxed),
        cleaned: counters.cleaned.load(Ordering::Relaxed),
        expired: counters.expired.load(Ordering::Relaxed),
        commands: counters.commands.load(Ordering::Relaxed),
    };
    let view = shared.log.view();
    let left = left_over(guards, &view.state, until);
    let plugins: Vec<(String, String)> = went
        .into_iter()
        .filter_map(|went| Some((went.loaded.name().to_owned(), went.failure?)))
        .chain(
            set.problems
                .iter()
                .map(|problem| (problem.origin.clone(), problem.text.clone())),
        )
        .chain(guards.orphans.found().and_then(|found| {
            let text = format!("no orphan is deleted: {}", found.held?);
            Some(("orphans".to_owned(), text))
        }))
        .collect();
    let store_suspect = guards.doubt(&view.state);
    let nothing = left.parked.is_empty()
        && left.conflicts.is_empty()
        && left.failed.is_empty()
        && plugins.is_empty()
        && store_suspect.is_none();
    Ok(if nothing {
        Outcome::Idle { totals }
    } else {
        Outcome::LeftOver {
            totals,
            parked: left.parked,
            conflicts: left.conflicts,
            failed: left.failed,
            plugins,
            store_suspect,
        }
    })
}
