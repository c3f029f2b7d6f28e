//! One plugin through a term: tick after tick, from version to version.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{BootInstant, UnixMillis};
use aedile_engine::Control;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::canary::{self, Step};
use super::lead::GRACE;
use super::probation::{self, Reviser, Verdict};
use super::requests::Requests;
use super::{Lead, Runs, Ticked, calendar, tick};
use crate::backend::Backend as _;
use crate::source::{Loaded, PluginSet};
use crate::stopfile::Stops;
use crate::timetable::{Cron, Timetable};

/// Wait before the database's clock is asked again that did not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// When the next tick is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// Then.
    At(BootInstant),
    /// Then, for this time of the calendar.
    Slot(BootInstant, UnixMillis),
    /// Not yet: the calendar is looked at again then.
    Look(BootInstant),
    /// When somebody asks.
    Asked,
}

impl Due {
    fn time(self) -> Option<BootInstant> {
        match self {
            Self::At(time) | Self::Slot(time, _) | Self::Look(time) => Some(time),
            Self::Asked => None,
        }
    }
}

/// One plugin of a term.
struct Follower {
    lead: Arc<Lead>,
    name: String,
    runs: Runs,
    requests: Requests,
    /// Up to when the runs of the calendar are done.
    done: Option<UnixMillis>,
    due: Due,
}

/// Tick one plugin until it is to stop. A newer module is taken up between two
/// ticks, and runs at once unless a calendar or an operator decides when.
pub(super) async fn follow(
    lead: Arc<Lead>,
    name: String,
    mut set: watch::Receiver<Arc<PluginSet>>,
    stop: CancellationToken,
) {
    let log = lead.guards.backend.log.clone();
    let mut views = log.views();
    let mut stops = lead.stops.clone();
    let mut current: Option<Arc<Loaded>> = None;
    let mut follower = Follower {
        runs: Runs::new(log, lead.clock.clone(), lead.identity.clone()),
        due: Due::Asked,
        done: None,
        requests: Requests::default(),
        lead: lead.clone(),
        name: name.clone(),
    };
    loop {
        let Some(loaded) = set.borrow_and_update().plugins.get(&name).cloned() else {
            return;
        };
        let same = current
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, &loaded));
        if !same {
            if current.is_some() {
                // The clean slate of a new version is laid before its first tick.
                let now = set.borrow().clone();
                lead.book.install(&now);
            }
            follower.begin(&loaded).await;
            current = Some(loaded.clone());
        }
        let stopped = stops.borrow_and_update().stops(&name);
        let asked = if stopped {
            Vec::new()
        } else {
            let state = views.borrow_and_update().state.clone();
            follower.requests.waiting(&state, &name)
        };
        if asked.is_empty() {
            let due = async {
                match follower.due.time() {
                    Some(time) if !stopped => lead.clock.sleep_until(time).await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = lead.guards.backend.authority.ended() => return,
                changed = set.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                changed = stops.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                changed = views.changed(), if !stopped => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                () = due => {}
            }
        }
        if stop.is_cancelled() || !lead.guards.backend.authority.holds() {
            return;
        }
        if asked.is_empty() && matches!(follower.due, Due::Look(_)) {
            follower.look(&loaded).await;
            continue;
        }
        let was_due = follower.is_due();
        if let Some(trial) = &loaded.trial {
            follower.plan_beside(&loaded, trial, &stop).await;
            if loaded.shadow {
                follower.requests.answer(&lead.guards, &name, asked).await;
                let entropy = &lead.guards.entropy;
                let wait = loaded.timetable.wait(Duration::ZERO, entropy);
                follower.after(&loaded, wait, None, was_due).await;
                continue;
            }
        }
        lead.book.began(&loaded);
        let (mut ticked, halted) = follower.tick(&loaded, &stop, &mut stops).await;
        ticked.asked = asked.iter().map(|(_, who)| who.clone()).collect();
        let wait = lead.book.ended(&loaded, &ticked, &lead.guards.entropy);
        follower.runs.note(&loaded, &ticked).await;
        if ticked.end.lost && !halted {
            return;
        }
        if !asked.is_empty() {
            follower.requests.answer(&lead.guards, &name, asked).await;
        }
        follower.judge(&loaded, &ticked).await;
        follower.after(&loaded, wait, Some(&ticked), was_due).await;
    }
}

impl Follower {
    fn is_due(&self) -> bool {
        let now = self.lead.clock.boot();
        self.due.time().is_some_and(|time| time <= now)
    }

    /// A version begins: when its first tick is due.
    async fn begin(&mut self, loaded: &Loaded) {
        let now = self.lead.clock.boot();
        let debts = self.lead.book.not_before(&self.name);
        match &loaded.timetable {
            Timetable::Every(_) => self.due = Due::At(debts.unwrap_or(now)),
            Timetable::OnDemand => {
                self.due = Due::Asked;
                self.lead.book.due_in(&self.name, None);
            }
            Timetable::Cron(_) => {
                let state = self.lead.guards.backend.log.view().state.clone();
                self.done = calendar::done(&state, &self.name, loaded.revision).max(self.done);
                self.look(loaded).await;
                if let (Some(debts), Due::Slot(at, slot)) = (debts, self.due) {
                    self.due = Due::Slot(debts.max(at), slot);
                }
            }
        }
    }

    /// Look at the calendar.
    async fn look(&mut self, loaded: &Loaded) {
        let Timetable::Cron(cron) = &loaded.timetable else {
            return;
        };
        let boot = self.lead.clock.boot();
        let Ok(now) = self.lead.guards.backend.now().await else {
            self.due = Due::Look(boot + AGAIN);
            return;
        };
        self.plan_slot(cron, now);
    }

    fn plan_slot(&mut self, cron: &Cron, now: UnixMillis) {
        let boot = self.lead.clock.boot();
        let done = *self.done.get_or_insert(now);
        let next = calendar::next(cron, done, now);
        self.due = match next {
            None => Due::Asked,
            Some(next) => match next.slot {
                Some(slot) => Due::Slot(boot + next.wait, slot),
                None => Due::Look(boot + next.wait),
            },
        };
        self.lead
            .book
            .due_in(&self.name, next.map(|next| next.left));
    }

    /// When the tick after this one is due. `was_due`: this one was not only asked
    /// for.
    async fn after(
        &mut self,
        loaded: &Loaded,
        wait: Option<Duration>,
        ticked: Option<&Ticked>,
        was_due: bool,
    ) {
        let boot = self.lead.clock.boot();
        if !matches!(loaded.timetable, Timetable::Cron(_)) {
            self.due = match wait {
                Some(wait) => Due::At(boot + wait),
                None => Due::Asked,
            };
            return;
        }
        let ended = ticked.is_none_or(|ticked| ticked.end.failure.is_none() && !ticked.goes_on());
        match (self.due, wait) {
            // The run goes on, or is tried again, whatever the calendar says.
            (Due::Slot(_, slot), Some(wait)) if !ended && was_due => {
                self.due = Due::Slot(boot + wait, slot);
                return;
            }
            (Due::Slot(_, slot), _) if ended && was_due => {
                let done = ticked
                    .and_then(|ticked| ticked.now)
                    .map_or(slot, |now| now.max(slot));
                self.done = Some(done);
                calendar::note(&self.lead.guards, &self.name, done).await;
            }
            // Somebody asked in between: the calendar stands.
            _ => {}
        }
        self.look(loaded).await;
    }

    /// One tick. It is asked to end when the stop file names it, then interrupted.
    async fn tick(
        &self,
        loaded: &Loaded,
        stop: &CancellationToken,
        stops: &mut watch::Receiver<Arc<Stops>>,
    ) -> (Ticked, bool) {
        let lead = &self.lead;
        let soft = stop.child_token();
        let halt = CancellationToken::new();
        let control = lead.control(&soft, &halt);
        let ticking = tick(&lead.guards, loaded, &lead.identity, control);
        tokio::pin!(ticking);
        let ticked = tokio::select! {
            ticked = &mut ticking => ticked,
            () = named(stops, &self.name) => {
                soft.cancel();
                match lead.clock.timeout(GRACE, &mut ticking).await {
                    Ok(ticked) => ticked,
                    Err(_) => {
                        halt.cancel();
                        ticking.await
                    }
                }
            }
        };
        (ticked, halt.is_cancelled())
    }

    /// Let the revision on trial plan, and draw the consequence.
    async fn plan_beside(
        &self,
        loaded: &Loaded,
        trial: &crate::source::Trial,
        stop: &CancellationToken,
    ) {
        let lead = &self.lead;
        let halt = CancellationToken::new();
        let control = || lead.control(stop, &halt);
        let book = |change: &mut dyn FnMut(&mut canary::Progress) -> Step| {
            lead.book.canary(&self.name, |progress| change(progress))
        };
        let step = canary::step(&lead.guards, loaded, trial, &lead.identity, control, book).await;
        let reviser = self.reviser();
        match step {
            Step::Nothing | Step::On { difference: None } => {}
            Step::On {
                difference: Some(difference),
            } => self.runs.trial(trial, "canary", difference).await,
            Step::Passed { summary, .. } => {
                self.runs.trial(trial, "promoted", summary.clone()).await;
                reviser.promote(trial.revision, &summary).await;
            }
            Step::Failed(error) => {
                self.runs.trial(trial, "canary-failed", error.clone()).await;
                let why = format!("on trial: {error}");
                reviser.roll_back(trial.revision, &why).await;
            }
        }
    }

    /// Draw the consequence of the first ticks of a revision.
    async fn judge(&self, loaded: &Loaded, ticked: &Ticked) {
        let Some(revision) = loaded.revision else {
            return;
        };
        let lead = &self.lead;
        match lead.book.judge(loaded, ticked, lead.roll_back_after) {
            Verdict::Open => {}
            Verdict::Good => probation::mark_good(&lead.guards, &self.name, revision).await,
            Verdict::Bad(error) => {
                let state = lead.guards.backend.log.view().state.clone();
                if !probation::is_good(&state, &self.name, revision) {
                    self.reviser().roll_back(revision, &error).await;
                }
            }
        }
    }

    fn reviser(&self) -> Reviser<'_> {
        Reviser {
            log: &self.lead.guards.backend.log,
            node: &self.lead.identity.node,
            name: &self.name,
            builtin: self.lead.builtins.contains(&self.name),
        }
    }
}

/// Ends when the stop file names the plugin.
async fn named(stops: &mut watch::Receiver<Arc<Stops>>, name: &str) {
    if stops.wait_for(|stops| stops.stops(name)).await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl Lead {
    /// What a tick is to heed.
    fn control(&self, stop: &CancellationToken, halt: &CancellationToken) -> Control {
        let authority = self.guards.backend.authority.clone();
        let (hard, halt) = (self.hard.clone(), halt.clone());
        Control {
            authority: Arc::new(move || {
                !hard.is_cancelled() && !halt.is_cancelled() && authority.holds()
            }),
            stop: stop.clone(),
        }
    }
}
