//! When to send what, and what to show.

use std::time::Duration;

use aedile_clock::BootInstant;

use super::state::{Flight, Lost, Role, State, Trouble};
use super::{Action, Request, Standing};

/// The first wait after a failure.
const BACKOFF: Duration = Duration::from_millis(20);

impl State {
    /// When [`super::Event::Timer`] is wanted, unless something else comes first.
    pub fn wake(&self) -> Option<BootInstant> {
        if self.stopped {
            return None;
        }
        let mut wake = self.stopping;
        let mut sooner = |at: BootInstant| {
            wake = Some(wake.map_or(at, |wake: BootInstant| wake.min(at)));
        };
        if let Some(flight) = &self.flight {
            sooner(flight.bound);
        } else if self.wanted().is_some() {
            sooner(self.next_at);
        }
        match self.role {
            Role::Contending => {}
            Role::Holding { until, .. } => sooner(until),
            Role::Releasing { give_up, .. } => sooner(give_up),
        }
        wake
    }

    /// What this role asks next, when its time has come.
    fn wanted(&self) -> Option<Request> {
        match self.role {
            Role::Holding { ending: true, .. } => None,
            Role::Holding { epoch, .. } => Some(Request::Renew { epoch }),
            Role::Releasing { epoch, .. } => Some(Request::Release { epoch }),
            Role::Contending => {
                (self.contends() || self.unsettled.is_some()).then_some(Request::Read)
            }
        }
    }

    /// Send what is due, and end what has to end.
    pub(super) fn turn(&mut self, now: BootInstant, actions: &mut Vec<Action>) {
        if let Role::Releasing { epoch, give_up } = self.role
            && now >= give_up
        {
            self.cancel(actions);
            self.have_released(epoch, now, actions);
            // It may still stand: a stop tries once more.
            self.lost = Some(Lost {
                epoch,
                row: Some(epoch),
                owner_done: true,
            });
        }
        if let Some(give_up) = self.stopping {
            let idle = matches!(self.role, Role::Contending) && self.unsettled.is_none();
            let reading = self
                .flight
                .as_ref()
                .is_none_or(|flight| matches!(flight.request, Request::Read));
            if (idle && reading) || now >= give_up {
                self.cancel(actions);
                if let Role::Releasing { epoch, .. } = self.role {
                    actions.push(Action::Released { epoch });
                }
                self.role = Role::Contending;
                self.stopped = true;
                actions.push(Action::Stopped);
                return;
            }
        }
        if self.flight.is_none()
            && now >= self.next_at
            && let Some(request) = self.wanted()
        {
            self.send(request, now, actions);
        }
    }

    pub(super) fn send(&mut self, request: Request, now: BootInstant, actions: &mut Vec<Action>) {
        let mut bound = now + self.rules.timeout;
        match self.role {
            Role::Contending => {}
            Role::Holding { until: end, .. } | Role::Releasing { give_up: end, .. } => {
                bound = bound.min(end);
            }
        }
        if let Some(end) = self.stopping {
            bound = bound.min(end);
        }
        self.attempts += 1;
        self.announced = false;
        let attempt = self.attempts;
        actions.push(Action::Send {
            attempt,
            request: request.clone(),
        });
        self.flight = Some(Flight {
            attempt,
            request,
            sent: now,
            bound,
        });
    }

    fn cancel(&mut self, actions: &mut Vec<Action>) {
        if let Some(flight) = self.flight.take() {
            actions.push(Action::Cancel {
                attempt: flight.attempt,
            });
        }
    }

    /// The next reading: at the usual time, or when the row can be taken.
    pub(super) fn plan_reading(&mut self, now: BootInstant) {
        let mut next = now + self.interval();
        if std::mem::take(&mut self.in_step) {
            // Who began together would go on together: each finds a place of
            // its own in the interval.
            next = now + self.part(self.rules.interval);
        }
        if let Some(takeable) = self.sightings.takeable()
            && takeable > now
        {
            let spread = (self.rules.ttl / 50).min(Duration::from_millis(50));
            let takeable = takeable + self.part(spread);
            if takeable < next {
                next = takeable;
                self.in_step = true;
            }
        }
        if self.announced {
            next = now;
            self.in_step = true;
        }
        self.next_at = next.max(self.cool_until);
        if self.unsettled.is_some() && !self.contends() {
            self.next_at = now + self.rules.timeout / 4;
        }
    }

    pub(super) fn plan_renewal(&mut self, flight: &Flight, now: BootInstant) {
        self.next_at = (flight.sent + self.interval()).max(now);
    }

    /// Wait longer after each setback, up to a tenth of the TTL: a dead
    /// connection must not cost more than that beyond its time limit.
    pub(super) fn back_off(&mut self, now: BootInstant) {
        let doubled = BACKOFF * (1 << self.setbacks.saturating_sub(1).min(10));
        let wait = doubled.min(self.rules.ttl / 10);
        self.next_at = now + wait / 2 + self.part(wait / 2);
        // What fails for one as a rule fails for all.
        self.in_step = true;
    }

    /// The interval, up to a tenth shorter, so that nodes spread.
    pub(super) fn interval(&mut self) -> Duration {
        let spread = self.rules.interval / 10;
        self.rules.interval - self.part(spread)
    }

    /// A random part of this; without a seed none.
    pub(super) fn part(&mut self, of: Duration) -> Duration {
        let Some(random) = &mut self.random else {
            return Duration::ZERO;
        };
        *random = random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let share = u32::try_from((mixed ^ (mixed >> 31)) >> 40).unwrap_or(0);
        (of * share) / (1 << 24)
    }

    /// Show the standing where it has changed.
    pub(super) fn publish(&mut self, now: BootInstant, actions: &mut Vec<Action>) {
        let standing = self.standing(now);
        if standing != self.published {
            self.published = standing.clone();
            actions.push(Action::Publish(standing));
        }
    }

    fn standing(&self, now: BootInstant) -> Standing {
        if self.stopping.is_some() {
            return Standing::Ineligible {
                reason: "stopping".to_owned(),
            };
        }
        if let Err(reason) = &self.eligible {
            return Standing::Ineligible {
                reason: reason.clone(),
            };
        }
        match self.role {
            Role::Holding {
                epoch,
                ending: false,
                ..
            } => return Standing::Holder { epoch },
            // Its owner was told that it ends; it does not begin again.
            Role::Holding { .. } | Role::Releasing { .. } => {
                return Standing::Ineligible {
                    reason: "its last term is ending".to_owned(),
                };
            }
            Role::Contending => {}
        }
        match &self.trouble {
            Some(Trouble::Unreachable { since, error }) => Standing::Unreachable {
                since: *since,
                error: error.clone(),
            },
            Some(Trouble::WrongRole(detail)) => Standing::WrongRole {
                detail: detail.clone(),
            },
            None if now < self.cool_until => Standing::Ineligible {
                reason: "it has stepped down".to_owned(),
            },
            None => Standing::Follower {
                seen: self.sightings.seen(),
            },
        }
    }
}
