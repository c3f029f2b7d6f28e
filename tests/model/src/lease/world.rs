//! A database row, two nodes of Aedile, perhaps one of PicoMQ, and time.

use std::time::Duration;

use aedile_clock::BootInstant;
use aedile_lease::protocol::{Event, Reply, Request, Row};

use super::database::{Caller, Change, perform};
use super::native::Native;
use super::node::Node;
use super::setup::{BOOT, DATABASE_MS, Setup, UNIT_MS, Variant};
use crate::fired::{Fired, Kind};

/// How far back a replica may lag: in writes of the row.
const LAG: usize = 2;

/// What must never happen, noticed where it happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Breaches {
    /// An epoch was given out that is not greater than all before.
    pub epoch_repeated: bool,
    /// A holder was given an epoch that is not greater than all that it knew.
    pub known_repeated: bool,
    /// A renewal for one term extended another.
    pub foreign_renewal: bool,
}

/// What may still go wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Pauses, late and lost messages.
    pub faults: u8,
    /// Units by which clocks go wrong.
    pub drift: u8,
    /// Terms given up.
    pub give_ups: u8,
    /// Nodes that become ineligible.
    pub ills: u8,
    /// Nodes stopped.
    pub stops: u8,
    /// Failovers that forget.
    pub failovers: u8,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The database's clock, in units.
    pub now: u8,
    /// The lease row.
    pub row: Option<Row>,
    /// The nodes `a` and `b`.
    pub nodes: [Node; 2],
    /// The PicoMQ node.
    pub native: Option<Native>,
    /// What may still go wrong.
    pub left: Budget,
    /// The row before each of its last writes: what a replica may have. Kept
    /// while a failover may come.
    pub past: Vec<Option<Row>>,
    /// When a failover forgot something.
    pub forgot_at: Option<u8>,
    /// The greatest epoch given out.
    pub granted: u64,
    /// What went wrong.
    pub breaches: Breaches,
}

impl World {
    /// The beginning: a free row, and both nodes eligible.
    pub fn new(setup: &Setup, skew: Option<i8>, fired: &Fired) -> Self {
        let row = Row {
            holder: String::new(),
            epoch: 0,
            expires_at_ms: 0,
            now_ms: 0,
        };
        let node = |n| Node::new(setup.rules(n), BootInstant::from_boot(BOOT));
        let mut world = Self {
            now: 0,
            row: Some(row),
            nodes: [node(0), node(1)],
            native: skew.map(Native::new),
            left: Budget {
                faults: setup.faults,
                drift: setup.drift,
                give_ups: setup.give_ups,
                ills: setup.ills,
                stops: setup.stops,
                failovers: setup.failovers,
            },
            past: Vec::new(),
            forgot_at: None,
            granted: 0,
            breaches: Breaches::default(),
        };
        world.tell(0, Event::Eligible(Ok(())), setup);
        if !setup.race {
            // It reads the row and acquires it.
            world.round_trip(0, setup, fired);
            world.round_trip(0, setup, fired);
        }
        world.tell(1, Event::Eligible(Ok(())), setup);
        world
    }

    /// The boot-time clock of a node.
    pub fn clock(&self, n: usize) -> BootInstant {
        let units = i64::from(self.now) + i64::from(self.nodes[n].offset);
        BootInstant::from_boot(BOOT) + Duration::from_millis(millis(units).unsigned_abs())
    }

    /// The database's clock, in Unix milliseconds.
    pub fn database_ms(&self) -> i64 {
        DATABASE_MS + millis(i64::from(self.now))
    }

    /// The term in whose name a node may act.
    pub fn authority(&self, n: usize) -> Option<u64> {
        self.nodes[n].authority(self.clock(n))
    }

    /// Whether nothing of this node has to come before time goes on.
    pub fn is_quiet(&self, n: usize) -> bool {
        let node = &self.nodes[n];
        let interrupted = node.tick.is_some() && node.tick != self.authority(n);
        node.request.is_none() && (node.paused || !(node.is_due(self.clock(n)) || interrupted))
    }

    /// Tell a keeper something.
    pub fn tell(&mut self, n: usize, event: Event, setup: &Setup) {
        let clock = self.clock(n);
        self.nodes[n].tell(event, clock, setup.variant);
    }

    /// A node's new request is carried out and answered at once; a paused node
    /// finds the answer when it runs again.
    pub fn round_trip(&mut self, n: usize, setup: &Setup, fired: &Fired) {
        if let Some((attempt, request)) = self.nodes[n].request.take() {
            let reply = self.perform(n, &request, setup, fired);
            if self.nodes[n].paused {
                self.nodes[n].late_replies.push((attempt, reply));
            } else {
                self.tell(n, Event::Reply { attempt, reply }, setup);
            }
        }
    }

    /// The database carries out a request.
    pub fn perform(&mut self, n: usize, request: &Request, setup: &Setup, fired: &Fired) -> Reply {
        let ahead = match (setup.variant, n) {
            (Variant::NodeClockJudges, 1) => millis(6),
            _ => 0,
        };
        let holder = setup.rules(n).holder;
        let caller = Caller {
            holder: &holder,
            now_ms: self.database_ms() + ahead,
            variant: setup.variant,
        };
        let before = self.row.clone();
        let (reply, change) = perform(&mut self.row, request, &caller);
        fired.request(request, &reply, before.as_ref(), &holder);
        match (request, change) {
            (_, Change::Acquired(epoch)) => {
                self.breaches.known_repeated |= epoch <= self.nodes[n].known;
                self.grant(epoch);
            }
            (Request::Renew { epoch }, Change::Renewed(found)) => {
                self.breaches.foreign_renewal |= found != *epoch;
            }
            (Request::Release { epoch }, Change::Released) => {
                self.nodes[n].released = *epoch;
                self.nodes[1 - n].announced = true;
            }
            _ => {}
        }
        if change != Change::None {
            self.keep(before);
        }
        reply
    }

    /// The attempt of the PicoMQ node's keeper.
    pub fn native_attempt(&mut self, fired: &Fired) {
        let (now, before) = (self.database_ms(), self.row.clone());
        let Some(native) = &mut self.native else {
            return;
        };
        let led = native.leads.is_some();
        match native.attempt(&mut self.row, now) {
            Change::Acquired(epoch) => {
                if before.as_ref().is_some_and(|row| row.expires_at_ms >= now) {
                    fired.note(Kind::NativeStole);
                }
                fired.note(Kind::NativeAcquired);
                self.grant(epoch);
                self.keep(before);
            }
            Change::Renewed(_) => self.keep(before),
            _ if led => fired.note(Kind::NativeDemoted),
            _ => {}
        }
    }

    /// The PicoMQ node is stopped.
    pub fn native_stop(&mut self) {
        let before = self.row.clone();
        if let Some(native) = &mut self.native {
            native.stop(&mut self.row);
        }
        if self.row != before {
            self.keep(before);
        }
    }

    /// A replica takes over that lacks the last `back` + 1 writes.
    pub fn fail_over(&mut self, back: usize) {
        let at = self.past.len() - 1 - back;
        self.row = self.past.swap_remove(at);
        self.past.clear();
        self.left.failovers -= 1;
        self.forgot_at = Some(self.now);
    }

    /// A unit passes; the clock of at most one node goes wrong meanwhile.
    pub fn pass(&mut self, drift: Option<(usize, i8)>) {
        self.now += 1;
        if let Some((n, by)) = drift {
            self.nodes[n].offset += by;
            self.left.drift -= 1;
        }
        for n in 0..2 {
            let authority = self.authority(n);
            let node = &mut self.nodes[n];
            // What nobody heard in this unit is lost.
            node.announced = false;
            node.overslept |= node.paused && node.tick.is_some() && node.tick != authority;
        }
        if let Some(native) = &mut self.native {
            native.tried = false;
        }
    }

    fn grant(&mut self, epoch: u64) {
        self.breaches.epoch_repeated |= epoch <= self.granted;
        self.granted = self.granted.max(epoch);
    }

    fn keep(&mut self, before: Option<Row>) {
        if self.left.failovers > 0 {
            self.past.push(before);
            if self.past.len() > LAG {
                self.past.remove(0);
            }
        }
    }
}

/// Units in milliseconds.
fn millis(units: i64) -> i64 {
    units * UNIT_MS
}
