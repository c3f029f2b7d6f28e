//! The state of one keeper and how events change it.

use std::time::Duration;

use aedile_clock::BootInstant;

use super::sighting::Sightings;
use super::{Action, Event, Reply, Request, Row, Rules, Standing};

/// The state of one keeper. Two that are equal will do the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) rules: Rules,
    pub(super) eligible: Result<(), String>,
    pub(super) role: Role,
    pub(super) flight: Option<Flight>,
    pub(super) attempts: u64,
    /// When to send the next request, if the role wants one at all.
    pub(super) next_at: BootInstant,
    pub(super) sightings: Sightings,
    pub(super) trouble: Option<Trouble>,
    /// Failures and refusals in a row: what backs off.
    pub(super) setbacks: u32,
    /// The answer to an acquisition was lost: the row may become ours.
    pub(super) unsettled: Option<Unsettled>,
    /// The last term that ended by itself: its row may still stand.
    pub(super) lost: Option<Lost>,
    /// Leave the lease to others until then.
    pub(super) cool_until: BootInstant,
    /// A release was announced while a reading was under way.
    pub(super) announced: bool,
    /// The last reading was brought about by something that others saw as well:
    /// a start, an announcement, the end of a lease.
    pub(super) in_step: bool,
    pub(super) stopping: Option<BootInstant>,
    pub(super) stopped: bool,
    pub(super) warned: Option<BootInstant>,
    pub(super) published: Standing,
    pub(super) random: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Contending,
    Holding {
        epoch: u64,
        until: BootInstant,
        /// Renewed no more: the owner is ending its ticks.
        ending: bool,
    },
    Releasing {
        epoch: u64,
        give_up: BootInstant,
    },
}

/// The one request in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    pub(super) attempt: u64,
    pub(super) request: Request,
    pub(super) sent: BootInstant,
    pub(super) bound: BootInstant,
}

/// An acquisition that may still land: on a row at this epoch, until the
/// database's clock has passed this Unix millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Unsettled {
    epoch: u64,
    not_after_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lost {
    pub(super) epoch: u64,
    /// The epoch at which the row is ours, unless it was seen to be another's:
    /// greater than the term's once an acquisition has landed under which no tick
    /// was to run.
    pub(super) row: Option<u64>,
    /// Its ticks have ended: the row may be released.
    pub(super) owner_done: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Trouble {
    Unreachable { since: BootInstant, error: String },
    WrongRole(String),
}

impl State {
    /// A keeper that has just started and is not eligible yet.
    pub fn new(rules: Rules, now: BootInstant) -> Self {
        let eligible = Err("starting".to_owned());
        Self {
            sightings: Sightings::new(&rules),
            random: rules.seed,
            rules,
            published: Standing::Ineligible {
                reason: "starting".to_owned(),
            },
            eligible,
            role: Role::Contending,
            flight: None,
            attempts: 0,
            next_at: now,
            trouble: None,
            setbacks: 0,
            unsettled: None,
            lost: None,
            cool_until: now,
            announced: false,
            in_step: true,
            stopping: None,
            stopped: false,
            warned: None,
        }
    }

    /// The state after an event, and what to do about it. No other input exists.
    #[must_use]
    pub fn step(mut self, event: Event, now: BootInstant) -> (Self, Vec<Action>) {
        let mut actions = Vec::new();
        if !self.stopped {
            self.end_what_ran_out(now, &mut actions);
            self.take(event, now, &mut actions);
            self.turn(now, &mut actions);
            self.publish(now, &mut actions);
        }
        (self, actions)
    }

    /// The end of the authority, of a holder.
    pub fn authority_until(&self) -> Option<BootInstant> {
        match self.role {
            Role::Holding { until, .. } => Some(until),
            _ => None,
        }
    }

    /// Time decides before any event does: a reply that arrives together with
    /// the end of its term is late.
    fn end_what_ran_out(&mut self, now: BootInstant, actions: &mut Vec<Action>) {
        if let Some(flight) = self.flight.take_if(|flight| now >= flight.bound) {
            actions.push(Action::Cancel {
                attempt: flight.attempt,
            });
            let waited = flight.bound.since(flight.sent);
            let error = format!("no answer within {} ms", waited.as_millis());
            self.answered(&flight, Reply::Failed(error), now, actions);
        }
        if let Role::Holding { epoch, until, .. } = self.role
            && now >= until
        {
            self.lose(epoch, actions);
        }
    }

    fn take(&mut self, event: Event, now: BootInstant, actions: &mut Vec<Action>) {
        match event {
            Event::Timer => {}
            Event::Announced => {
                if matches!(self.role, Role::Contending) {
                    self.hurry(now, Duration::from_millis(15));
                }
            }
            Event::Disconnected => self.hurry(now, self.rules.interval / 10),
            Event::Reply { attempt, reply } => {
                // An answer to what was given up is about another time.
                if let Some(flight) = self.flight.take_if(|flight| flight.attempt == attempt) {
                    self.answered(&flight, reply, now, actions);
                }
            }
            Event::Ended { epoch } => {
                if matches!(self.role, Role::Holding { epoch: held, .. } if held == epoch) {
                    self.next_at = now;
                    self.lose(epoch, actions);
                }
            }
            Event::Eligible(eligible) => self.judge(eligible, now),
            Event::OwnerDone { epoch, cool_down } => {
                self.owner_done(epoch, cool_down, now, actions);
            }
            Event::Stop => {
                if self.stopping.is_none() {
                    let end = now + 3 * self.rules.timeout;
                    self.stopping = Some(end);
                    match (&mut self.role, self.lost) {
                        (Role::Releasing { give_up, .. }, _) => *give_up = end,
                        (Role::Holding { epoch, .. }, _) => {
                            let epoch = *epoch;
                            self.begin_release(epoch, now, actions);
                        }
                        (Role::Contending, Some(Lost { row: Some(row), .. })) => {
                            self.begin_release(row, now, actions);
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Look at the row soon, a little later than others might.
    fn hurry(&mut self, now: BootInstant, spread: Duration) {
        self.announced = true;
        self.in_step = true;
        if self.trouble.is_none() {
            let soon = now + self.part(spread);
            self.next_at = self.next_at.min(soon).max(self.cool_until);
        }
    }

    fn judge(&mut self, eligible: Result<(), String>, now: BootInstant) {
        match &mut self.role {
            Role::Holding { ending, .. } => *ending |= eligible.is_err(),
            Role::Contending if self.eligible.is_err() && eligible.is_ok() => {
                self.next_at = now.max(self.cool_until);
                self.trouble = None;
                self.in_step = true;
            }
            _ => {}
        }
        self.eligible = eligible;
    }

    fn owner_done(
        &mut self,
        epoch: u64,
        cool_down: Option<Duration>,
        now: BootInstant,
        actions: &mut Vec<Action>,
    ) {
        match self.role {
            Role::Holding { epoch: held, .. } if held == epoch => {
                let by_wish = if self.contends() {
                    self.rules.interval
                } else {
                    Duration::ZERO
                };
                self.cool_until = now + cool_down.unwrap_or(by_wish);
                self.begin_release(epoch, now, actions);
            }
            Role::Releasing { epoch: held, .. } if held == epoch => {}
            // It ended by itself and its row may still stand. Who contends takes
            // it back under a new epoch; who does not should not keep it.
            Role::Contending if self.lost.is_some_and(|lost| lost.epoch == epoch) => {
                let row = self.lost.and_then(|lost| lost.row);
                self.lost = row.map(|row| Lost {
                    epoch,
                    row: Some(row),
                    owner_done: true,
                });
                let row = row.filter(|_| !self.contends());
                if let Some(row) = row {
                    self.begin_release(row, now, actions);
                }
                if row != Some(epoch) {
                    actions.push(Action::Released { epoch });
                }
            }
            _ => actions.push(Action::Released { epoch }),
        }
    }

    pub(super) fn begin_release(
        &mut self,
        epoch: u64,
        now: BootInstant,
        actions: &mut Vec<Action>,
    ) {
        if let Role::Holding { epoch, .. } = self.role {
            actions.push(Action::Close { epoch });
        }
        self.lost = None;
        self.setbacks = 0;
        self.next_at = now;
        self.role = Role::Releasing {
            epoch,
            give_up: now + 2 * self.rules.timeout,
        };
    }

    pub(super) fn lose(&mut self, epoch: u64, actions: &mut Vec<Action>) {
        actions.push(Action::Close { epoch });
        self.role = Role::Contending;
        self.lost = Some(Lost {
            epoch,
            row: Some(epoch),
            owner_done: false,
        });
        // What is shown next is read anew.
        self.sightings.last = None;
    }

    fn answered(
        &mut self,
        flight: &Flight,
        reply: Reply,
        now: BootInstant,
        actions: &mut Vec<Action>,
    ) {
        match &reply {
            Reply::Row(row) => {
                self.sightings.note(row.clone(), flight.sent, now);
                self.trouble = None;
            }
            Reply::Refused | Reply::Missing => self.trouble = None,
            Reply::Busy(error) | Reply::Failed(error) => {
                let since = match self.trouble.take() {
                    Some(Trouble::Unreachable { since, .. }) => since,
                    _ => now,
                };
                let error = error.clone();
                self.trouble = Some(Trouble::Unreachable { since, error });
            }
            Reply::WrongRole(detail) => self.trouble = Some(Trouble::WrongRole(detail.clone())),
        }
        match (&flight.request, &reply) {
            // A row that looks free may still not be had: see `have_read`.
            (Request::Read | Request::Seed { .. }, Reply::Row(_)) => {}
            (_, Reply::Row(_)) => self.setbacks = 0,
            _ => self.setbacks = self.setbacks.saturating_add(1),
        }
        match (&flight.request, reply) {
            (Request::Read | Request::Seed { .. }, Reply::Row(row)) => {
                self.have_read(&row, now, actions);
            }
            (Request::Acquire { .. }, Reply::Row(row)) => {
                self.have_acquired(&row, flight, now, actions);
            }
            (
                Request::Acquire {
                    seen, not_after_ms, ..
                },
                Reply::Failed(_),
            ) => {
                let before = self
                    .unsettled
                    .map_or(i64::MIN, |before| before.not_after_ms);
                self.unsettled = Some(Unsettled {
                    epoch: seen.epoch,
                    not_after_ms: before.max(*not_after_ms),
                });
                self.back_off(now);
            }
            (Request::Renew { epoch }, Reply::Row(row)) => {
                self.have_renewed(*epoch, &row, flight, now, actions);
            }
            (Request::Renew { epoch }, Reply::Refused | Reply::Missing) => {
                self.next_at = now;
                if matches!(self.role, Role::Holding { epoch: held, .. } if held == *epoch) {
                    self.lose(*epoch, actions);
                }
            }
            // It hung while the owner ended the term: on to the release.
            (Request::Renew { .. }, _) if matches!(self.role, Role::Releasing { .. }) => {
                self.next_at = now;
            }
            (Request::Release { epoch }, Reply::Row(_) | Reply::Refused | Reply::Missing) => {
                self.have_released(*epoch, now, actions);
            }
            // An acquisition that misses something is not such proof: a trigger
            // of somebody's may have lost its table. The next reading tells.
            (Request::Read, Reply::Missing) => {
                let epoch = self.sightings.greatest;
                self.send(Request::Seed { epoch }, now, actions);
            }
            (_, Reply::WrongRole(_)) if matches!(self.role, Role::Contending) => {
                self.next_at = now + self.interval();
            }
            (_, _) => self.back_off(now),
        }
    }

    fn have_read(&mut self, row: &Row, now: BootInstant, actions: &mut Vec<Action>) {
        let ours = row.holder == self.rules.holder;
        self.unsettled = self
            .unsettled
            .filter(|may| row.epoch <= may.epoch && row.now_ms <= may.not_after_ms);
        if !matches!(self.role, Role::Contending) {
            return;
        }
        self.lost = self.lost.filter(|lost| ours || !lost.owner_done);
        if let Some(lost) = &mut self.lost {
            lost.row = ours.then_some(row.epoch);
        }
        let in_use = self.lost.is_some_and(|lost| !lost.owner_done);
        if self.contends() && now >= self.cool_until {
            if let Some(claim) = self.sightings.claim(&self.rules) {
                let timeout = i64::try_from(self.rules.timeout.as_millis()).unwrap_or(i64::MAX);
                let request = Request::Acquire {
                    seen: row.clone(),
                    claim,
                    floor: self.sightings.greatest,
                    not_after_ms: row.now_ms.saturating_add(timeout),
                };
                self.send(request, now, actions);
            } else {
                self.setbacks = 0;
            }
        } else if ours && row.expires_at_ms > 0 && !in_use {
            // A lost answer's acquisition: no tick ever ran under it.
            self.begin_release(row.epoch, now, actions);
        }
        if matches!(self.role, Role::Contending) {
            self.plan_reading(now);
        }
        if let Some(holder) = self.sightings.native()
            && !self.rules.take_over
            && self.contends()
            && self
                .warned
                .is_none_or(|at| now.since(at) >= Duration::from_secs(600))
        {
            let holder = holder.to_owned();
            self.warned = Some(now);
            actions.push(Action::WarnNative { holder });
        }
    }

    fn have_acquired(
        &mut self,
        row: &Row,
        flight: &Flight,
        now: BootInstant,
        actions: &mut Vec<Action>,
    ) {
        // What the row says decides, not that a statement succeeded.
        if row.holder != self.rules.holder {
            self.back_off(now);
            return;
        }
        self.next_at = now;
        self.unsettled = None;
        if let Role::Releasing { epoch, .. } = &mut self.role {
            // An earlier term was to be released meanwhile; this one replaced it.
            let replaced = std::mem::replace(epoch, row.epoch);
            actions.push(Action::Released { epoch: replaced });
            return;
        }
        if !self.contends() {
            match &mut self.lost {
                // The ticks of the term before may still run: their owner's word
                // releases this one too.
                Some(lost) if !lost.owner_done => lost.row = Some(row.epoch),
                // No tick has run: nothing is to be waited for.
                _ => self.begin_release(row.epoch, now, actions),
            }
            return;
        }
        let until = self.until(flight);
        // Too late to be of use; it is taken again, at the next epoch.
        if now < until {
            self.role = Role::Holding {
                epoch: row.epoch,
                until,
                ending: false,
            };
            self.lost = None;
            self.plan_renewal(flight, now);
            let epoch = row.epoch;
            actions.push(Action::Open { epoch, until });
        }
    }

    fn have_renewed(
        &mut self,
        asked: u64,
        row: &Row,
        flight: &Flight,
        now: BootInstant,
        actions: &mut Vec<Action>,
    ) {
        let extended = self.until(flight);
        let ours = row.holder == self.rules.holder && row.epoch == asked;
        if let Role::Holding { epoch, until, .. } = &mut self.role
            && *epoch == asked
        {
            if !ours {
                self.next_at = now;
                self.lose(asked, actions);
                return;
            }
            *until = extended.max(*until);
            actions.push(Action::Extend {
                epoch: asked,
                until: *until,
            });
        }
        self.plan_renewal(flight, now);
    }

    /// Authority counts from the sending of a request, whenever it is answered.
    fn until(&self, flight: &Flight) -> BootInstant {
        flight.sent + self.rules.ttl.saturating_sub(self.rules.margin)
    }

    pub(super) fn have_released(
        &mut self,
        asked: u64,
        now: BootInstant,
        actions: &mut Vec<Action>,
    ) {
        if let Role::Releasing { epoch, .. } = self.role
            && epoch == asked
        {
            self.role = Role::Contending;
            self.sightings.last = None;
            self.setbacks = 0;
            self.next_at = now.max(self.cool_until);
            actions.push(Action::Released { epoch });
        }
    }

    pub(super) fn contends(&self) -> bool {
        self.eligible.is_ok() && self.stopping.is_none()
    }
}
