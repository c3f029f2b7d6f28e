//! What can happen next.

use std::sync::Arc;

use aedile_lease::protocol::Event;
use stateright::{Model, Property};

use super::properties;
use super::setup::{Setup, Variant};
use super::world::World;
use crate::fired::{Fired, Kind};

/// The model of the lease.
#[derive(Clone, Debug)]
pub struct LeaseModel {
    /// Its bounds.
    pub setup: Setup,
    /// What has happened on any path.
    pub fired: Arc<Fired>,
}

/// One step. The number is the node's: 0 for `a`, 1 for `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A unit passes.
    Pass,
    /// A unit passes; this node's clock stands still.
    PassSlow(usize),
    /// A unit passes; this node's clock counts two.
    PassFast(usize),
    /// The new request is carried out and answered.
    RoundTrip(usize),
    /// The new request is lost.
    LoseRequest(usize),
    /// The new request is on its way for longer.
    DelayRequest(usize),
    /// The new request is carried out, its answer lost.
    LoseReply(usize),
    /// The new request is carried out, its answer on its way for longer.
    DelayReply(usize),
    /// A late request is carried out.
    LandLate(usize, usize),
    /// A late answer arrives.
    AnswerLate(usize, usize),
    /// The keeper's timer fires.
    Wake(usize),
    /// The keeper hears that the lease was released.
    Announce(usize),
    /// The node runs no more.
    Pause(usize),
    /// The node runs again.
    Resume(usize),
    /// A tick begins.
    BeginTick(usize),
    /// The tick ends.
    EndTick(usize),
    /// The owner gives its term up.
    GiveUp(usize),
    /// The node may not hold the lease any more.
    FallIll(usize),
    /// The keeper is stopped; its tick has ended.
    Stop(usize),
    /// A replica takes over that lacks one write more than this number.
    FailOver(usize),
    /// The PicoMQ node's keeper makes its attempt.
    NativeAttempt,
    /// The PicoMQ node is stopped.
    NativeStop,
}

impl LeaseModel {
    /// The model within these bounds.
    pub fn new(setup: Setup) -> Self {
        Self {
            setup,
            fired: Arc::default(),
        }
    }

    fn of_node(&self, world: &World, n: usize, actions: &mut Vec<Action>) {
        let node = &world.nodes[n];
        let faulty = world.left.faults > 0;
        if node.request.is_some() {
            actions.push(Action::RoundTrip(n));
            if faulty {
                actions.extend([
                    Action::LoseRequest(n),
                    Action::DelayRequest(n),
                    Action::LoseReply(n),
                    Action::DelayReply(n),
                ]);
            }
        }
        actions.extend((0..node.late_requests.len()).map(|i| Action::LandLate(n, i)));
        if node.paused {
            actions.push(Action::Resume(n));
            return;
        }
        actions.extend((0..node.late_replies.len()).map(|i| Action::AnswerLate(n, i)));
        if node.is_due(world.clock(n)) {
            actions.push(Action::Wake(n));
        }
        if node.announced {
            actions.push(Action::Announce(n));
        }
        if faulty && !node.stopped {
            actions.push(Action::Pause(n));
        }
        let authority = world.authority(n);
        let open = authority.filter(|epoch| node.ending != Some(*epoch));
        if let Some(epoch) = open {
            if self.setup.ticks && !node.ill && node.tick.is_none() && node.ticked < epoch {
                actions.push(Action::BeginTick(n));
            }
            if world.left.give_ups > 0 {
                actions.push(Action::GiveUp(n));
            }
        }
        if world.left.ills > 0 && !node.ill && !node.stopped {
            actions.push(Action::FallIll(n));
        }
        if node.tick.is_some() {
            actions.push(Action::EndTick(n));
        } else if world.left.stops > 0 && !node.stopped {
            actions.push(Action::Stop(n));
        }
    }

    fn note(&self, action: Action) {
        let kind = match action {
            Action::PassSlow(_) => Kind::ClockSlow,
            Action::PassFast(_) => Kind::ClockFast,
            Action::LoseRequest(_) => Kind::RequestLost,
            Action::DelayRequest(_) => Kind::RequestDelayed,
            Action::LoseReply(_) => Kind::ReplyLost,
            Action::DelayReply(_) => Kind::ReplyDelayed,
            Action::LandLate(..) => Kind::RequestLate,
            Action::AnswerLate(..) => Kind::ReplyLate,
            Action::Announce(_) => Kind::Announced,
            Action::Pause(_) => Kind::Paused,
            Action::EndTick(_) => Kind::TickEnded,
            Action::GiveUp(_) => Kind::GivenUp,
            Action::FallIll(_) => Kind::FellIll,
            Action::Stop(_) => Kind::Stopped,
            Action::FailOver(_) => Kind::FailedOver,
            Action::NativeStop => Kind::NativeStopped,
            _ => return,
        };
        self.fired.note(kind);
    }
}

impl Model for LeaseModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let world = |skew| World::new(&self.setup, skew, &self.fired);
        if self.setup.native.is_empty() {
            return vec![world(None)];
        }
        let skews = self.setup.native.iter();
        skews.map(|skew| world(Some(*skew))).collect()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for n in 0..2 {
            self.of_node(world, n, actions);
        }
        if let Some(native) = &world.native
            && !native.stopped
        {
            if !native.tried {
                actions.push(Action::NativeAttempt);
            }
            if native.leads.is_some() {
                actions.push(Action::NativeStop);
            }
        }
        if world.left.failovers > 0 {
            actions.extend((0..world.past.len()).map(Action::FailOver));
        }
        if world.now < self.setup.horizon && (0..2).all(|n| world.is_quiet(n)) {
            actions.push(Action::Pass);
            if world.left.drift > 0 {
                actions.extend((0..2).flat_map(|n| [Action::PassSlow(n), Action::PassFast(n)]));
            }
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        self.note(action);
        let (setup, fired) = (&self.setup, &*self.fired);
        let mut world = last.clone();
        match action {
            Action::Pass => world.pass(None),
            Action::PassSlow(n) => world.pass(Some((n, -1))),
            Action::PassFast(n) => world.pass(Some((n, 1))),
            Action::RoundTrip(n) => world.round_trip(n, setup, fired),
            Action::LoseRequest(n) => {
                world.left.faults -= 1;
                world.nodes[n].request = None;
            }
            Action::DelayRequest(n) => {
                world.left.faults -= 1;
                let request = world.nodes[n].request.take()?;
                world.nodes[n].late_requests.push(request);
            }
            Action::LoseReply(n) => {
                world.left.faults -= 1;
                let (_, request) = world.nodes[n].request.take()?;
                let _ = world.perform(n, &request, setup, fired);
            }
            Action::DelayReply(n) => {
                world.left.faults -= 1;
                let (attempt, request) = world.nodes[n].request.take()?;
                let reply = world.perform(n, &request, setup, fired);
                world.nodes[n].late_replies.push((attempt, reply));
            }
            Action::LandLate(n, i) => {
                let (attempt, request) = world.nodes[n].late_requests.remove(i);
                let reply = world.perform(n, &request, setup, fired);
                // On a connection that was dropped no answer comes.
                if world.nodes[n].flying == Some(attempt) {
                    world.nodes[n].late_replies.push((attempt, reply));
                }
            }
            Action::AnswerLate(n, i) => {
                let (attempt, reply) = world.nodes[n].late_replies.remove(i);
                world.tell(n, Event::Reply { attempt, reply }, setup);
            }
            Action::Wake(n) => world.tell(n, Event::Timer, setup),
            Action::Announce(n) => {
                world.nodes[n].announced = false;
                world.tell(n, Event::Announced, setup);
            }
            Action::Pause(n) => {
                world.left.faults -= 1;
                world.nodes[n].paused = true;
            }
            Action::Resume(n) => world.nodes[n].paused = false,
            Action::BeginTick(n) => {
                let epoch = world.authority(n)?;
                world.nodes[n].begin_tick(epoch);
            }
            Action::EndTick(n) => {
                let clock = world.clock(n);
                world.nodes[n].end_tick(clock, setup.variant);
            }
            Action::GiveUp(n) => {
                world.left.give_ups -= 1;
                let (epoch, clock) = (world.authority(n)?, world.clock(n));
                world.nodes[n].give_up(epoch, clock, setup.variant);
            }
            Action::FallIll(n) => {
                world.left.ills -= 1;
                let clock = world.clock(n);
                world.nodes[n].fall_ill(clock, setup.variant);
            }
            Action::Stop(n) => {
                world.left.stops -= 1;
                world.tell(n, Event::Stop, setup);
            }
            Action::FailOver(back) => world.fail_over(back),
            Action::NativeAttempt => world.native_attempt(fired),
            Action::NativeStop => world.native_stop(),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(&self.setup)
    }
}

impl LeaseModel {
    /// The same bounds, broken in this way.
    pub fn broken(setup: Setup, variant: Variant) -> Self {
        Self::new(Setup { variant, ..setup })
    }
}
