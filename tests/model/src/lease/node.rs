//! A node of Aedile: the real protocol, the messages of its keeper, and the owner
//! of its terms.

use aedile_clock::BootInstant;
use aedile_lease::protocol::{Action, Event, Reply, Request, Rules, State};

use super::setup::{MARGIN, TTL, Variant};

/// What the owner of a term may go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// The term's epoch.
    pub epoch: u64,
    /// The end of its authority, by the node's clock.
    pub until: BootInstant,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The protocol's own state: `aedile_lease::protocol`.
    pub keeper: State,
    /// How far its boot-time clock is ahead of the database's, in units.
    pub offset: i8,
    /// It does not run: no timer, no answer, no tick.
    pub paused: bool,
    /// The request that was just sent.
    pub request: Option<(u64, Request)>,
    /// The attempt whose answer the keeper waits for.
    pub flying: Option<u64>,
    /// Requests that are still on their way.
    pub late_requests: Vec<(u64, Request)>,
    /// Answers that are still on their way.
    pub late_replies: Vec<(u64, Reply)>,
    /// The open term.
    pub window: Option<Window>,
    /// The greatest epoch of a term that it had.
    pub opened: u64,
    /// It had a term whose epoch is not greater than all before.
    pub reopened: bool,
    /// The tick that runs, by the epoch of its term.
    pub tick: Option<u64>,
    /// It was paused until its tick had lost its authority, and has not ended the
    /// tick since.
    pub overslept: bool,
    /// The last term that had a tick: each has one.
    pub ticked: u64,
    /// The term that its owner is giving up.
    pub ending: Option<u64>,
    /// It may not hold the lease any more.
    pub ill: bool,
    /// The last term whose release was carried out.
    pub released: u64,
    /// The greatest epoch that it was answered.
    pub known: u64,
    /// A release was announced to it.
    pub announced: bool,
    /// The keeper has stopped.
    pub stopped: bool,
}

impl Node {
    pub(super) fn new(rules: Rules, clock: BootInstant) -> Self {
        Self {
            keeper: State::new(rules, clock),
            offset: 0,
            paused: false,
            request: None,
            flying: None,
            late_requests: Vec::new(),
            late_replies: Vec::new(),
            window: None,
            opened: 0,
            reopened: false,
            tick: None,
            overslept: false,
            ticked: 0,
            ending: None,
            ill: false,
            released: 0,
            known: 0,
            announced: false,
            stopped: false,
        }
    }

    /// The term in whose name it may act now.
    pub fn authority(&self, clock: BootInstant) -> Option<u64> {
        let window = self.window.filter(|window| clock < window.until)?;
        Some(window.epoch)
    }

    /// Whether its timer is due.
    pub(super) fn is_due(&self, clock: BootInstant) -> bool {
        self.keeper.wake().is_some_and(|at| at <= clock)
    }

    /// An event for its keeper, and what follows from it at once.
    pub(super) fn tell(&mut self, event: Event, clock: BootInstant, variant: Variant) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            if let Event::Reply { attempt, reply } = &event {
                let awaited = self.flying.take_if(|flying| flying == attempt).is_some();
                let in_time = self.keeper.wake().is_none_or(|at| clock < at);
                if let Reply::Row(row) = reply
                    && awaited
                    && in_time
                {
                    self.known = self.known.max(row.epoch);
                }
            }
            let timed_out = self
                .keeper
                .authority_until()
                .is_some_and(|until| until <= clock);
            let (keeper, actions) = self.keeper.clone().step(event, clock);
            self.keeper = keeper;
            for action in actions {
                self.carry_out(action, clock, variant, timed_out, &mut events);
            }
        }
    }

    fn carry_out(
        &mut self,
        action: Action,
        clock: BootInstant,
        variant: Variant,
        timed_out: bool,
        events: &mut Vec<Event>,
    ) {
        let from_reply = variant == Variant::WindowFromReply;
        let end = |until: BootInstant| {
            if from_reply {
                clock + (TTL - MARGIN)
            } else {
                until
            }
        };
        match action {
            Action::Send { attempt, request } => {
                self.flying = Some(attempt);
                self.request = Some((attempt, request));
            }
            Action::Cancel { attempt } => {
                self.flying = self.flying.filter(|flying| *flying != attempt);
                self.late_replies.retain(|(late, _)| *late != attempt);
                // Whatever had been sent may still arrive.
                if let Some(request) = self.request.take_if(|(sent, _)| *sent == attempt)
                    && request.1 != Request::Read
                {
                    self.late_requests.push(request);
                }
            }
            Action::Open { epoch, until } => {
                let until = end(until);
                self.window = Some(Window { epoch, until });
                self.reopened |= epoch <= self.opened;
                self.opened = self.opened.max(epoch);
            }
            Action::Extend { epoch, until } => {
                // The board reads the clock again, and so says when it is late.
                if self.authority(clock) == Some(epoch) {
                    let until = end(until);
                    self.window = Some(Window { epoch, until });
                } else {
                    events.push(Event::Ended { epoch });
                }
            }
            Action::Close { epoch } => {
                if from_reply && timed_out && self.authority(clock) == Some(epoch) {
                    // The broken board goes by its own end.
                    return;
                }
                self.window = None;
                if self.tick.is_none() {
                    events.push(done(epoch));
                }
            }
            Action::Stopped => self.stopped = true,
            Action::Publish(_) | Action::Released { .. } | Action::WarnNative { .. } => {}
        }
    }

    /// A tick begins.
    pub(super) fn begin_tick(&mut self, epoch: u64) {
        self.tick = Some(epoch);
        self.ticked = epoch;
    }

    /// The tick ends; if its term is over, or to be given up, its owner says so.
    pub(super) fn end_tick(&mut self, clock: BootInstant, variant: Variant) {
        self.overslept = false;
        if let Some(epoch) = self.tick.take() {
            let over = self.authority(clock) != Some(epoch) || self.ending == Some(epoch);
            if over {
                self.tell(done(epoch), clock, variant);
            }
        }
    }

    /// It may not hold the lease any more: it renews no more, and its owner gives
    /// up what it holds.
    pub(super) fn fall_ill(&mut self, clock: BootInstant, variant: Variant) {
        self.ill = true;
        self.tell(Event::Eligible(Err("ill".to_owned())), clock, variant);
        if let Some(epoch) = self.authority(clock) {
            self.give_up(epoch, clock, variant);
        }
    }

    /// Its owner gives the term up: the tick first, then the lease.
    pub(super) fn give_up(&mut self, epoch: u64, clock: BootInstant, variant: Variant) {
        self.ending = Some(epoch);
        if self.tick.is_none() || variant == Variant::ReleaseBeforeStop {
            self.tell(done(epoch), clock, variant);
        }
    }
}

fn done(epoch: u64) -> Event {
    Event::OwnerDone {
        epoch,
        cool_down: None,
    }
}
