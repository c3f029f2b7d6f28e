//! A database, a network that loses, delays and repeats, and some keepers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aedile_clock::BootInstant;
use proptest::prelude::*;

use crate::protocol::{Action, Claim, Event, Reply, Request, Row, Rules, Standing, State};

/// The database's clock is this far from the machines' time since boot.
const OFFSET_MS: i64 = 1_796_000_000_000;

pub(super) const TTL: Duration = Duration::from_secs(10);
pub(super) const MARGIN: Duration = Duration::from_secs(1);
pub(super) const INTERVAL: Duration = Duration::from_millis(2500);
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn rules(keeper: usize) -> Rules {
    Rules {
        holder: format!("keeper-{keeper}"),
        ttl: TTL,
        interval: INTERVAL,
        margin: MARGIN,
        timeout: TIMEOUT,
        take_over: false,
        others_ttl: TTL,
        seed: u64::try_from(keeper).ok(),
    }
}

/// A way in which the database's conditions may be wrong, to see that the checks
/// notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fault {
    #[default]
    None,
    /// Readings come with a clock that runs ahead, and an acquisition does not
    /// look at its own.
    ClockAhead,
    /// The lease lasts less long than its holder believes.
    ShortLease,
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Advance(u64),
    /// What is under way arrives, and so do the answers.
    RoundTrip(usize),
    Deliver(usize, usize),
    Answer(usize, usize),
    LoseRequest(usize, usize),
    LoseReply(usize, usize),
    RepeatReply(usize, usize),
    /// The keeper's timers do not run until the next of these.
    Pause(usize, bool),
    Eligible(usize, bool),
    OwnerDone(usize, usize),
    Announce(usize),
    Disconnect(usize),
}

pub(super) fn op(keepers: usize) -> impl Strategy<Value = Op> {
    let keeper = 0..keepers;
    let nth = prop_oneof![3 => Just(0), 1 => 1..4_usize];
    let pair = (keeper.clone(), nth);
    prop_oneof![
        6 => (1..3_000_u64).prop_map(Op::Advance),
        10 => keeper.clone().prop_map(Op::RoundTrip),
        4 => pair.clone().prop_map(|(k, n)| Op::Deliver(k, n)),
        4 => pair.clone().prop_map(|(k, n)| Op::Answer(k, n)),
        1 => pair.clone().prop_map(|(k, n)| Op::LoseRequest(k, n)),
        1 => pair.clone().prop_map(|(k, n)| Op::LoseReply(k, n)),
        1 => pair.clone().prop_map(|(k, n)| Op::RepeatReply(k, n)),
        1 => (keeper.clone(), any::<bool>()).prop_map(|(k, on)| Op::Pause(k, on)),
        1 => (keeper.clone(), prop::bool::weighted(0.8)).prop_map(|(k, on)| Op::Eligible(k, on)),
        2 => pair.prop_map(|(k, n)| Op::OwnerDone(k, n)),
        1 => keeper.clone().prop_map(Op::Announce),
        1 => keeper.prop_map(Op::Disconnect),
    ]
}

#[derive(Default)]
pub(super) struct Keeper {
    state: Option<State>,
    requests: Vec<(u64, Request)>,
    replies: Vec<(u64, Reply)>,
    paused: bool,
    sent: BTreeMap<u64, BootInstant>,
    flying: Option<u64>,
    /// The open term and the end of its authority.
    window: Option<(u64, BootInstant)>,
    opened: BTreeSet<u64>,
    closed: BTreeSet<u64>,
    done: BTreeSet<u64>,
    stop_sent: bool,
    pub(super) stopped: bool,
    pub(super) standing: Option<Standing>,
    pub(super) warnings: usize,
}

impl Keeper {
    /// The end of its authority, if a term of its is open.
    pub(super) fn until(&self) -> Option<BootInstant> {
        self.window.map(|(_, until)| until)
    }
}

pub(super) struct World {
    pub(super) now: BootInstant,
    pub(super) row: Option<Row>,
    pub(super) keepers: Vec<Keeper>,
    pub(super) fault: Fault,
    /// How far the database's clock was stepped.
    pub(super) stepped_ms: i64,
    /// When a keeper read the row.
    pub(super) reads: Vec<BootInstant>,
    rules: Vec<Rules>,
    acquired: u64,
    last_answered: Option<(u64, BootInstant)>,
}

impl World {
    pub(super) fn new(rules: Vec<Rules>) -> Self {
        let now = BootInstant::from_boot(Duration::from_secs(3600));
        let mut world = Self {
            now,
            row: None,
            keepers: Vec::new(),
            fault: Fault::None,
            stepped_ms: 0,
            reads: Vec::new(),
            acquired: 0,
            last_answered: None,
            rules,
        };
        for rules in world.rules.clone() {
            world.keepers.push(Keeper {
                state: Some(State::new(rules, now)),
                ..Keeper::default()
            });
        }
        world
    }

    pub(super) fn db_now(&self) -> i64 {
        let since_boot = i64::try_from(self.now.since_boot().as_millis()).unwrap_or(0);
        OFFSET_MS + self.stepped_ms + since_boot
    }

    /// Run one operation and check everything that must always hold.
    pub(super) fn run(&mut self, op: &Op) -> Result<(), String> {
        match *op {
            Op::Advance(ms) => self.advance(Duration::from_millis(ms))?,
            Op::RoundTrip(k) => self.settle_one(k)?,
            Op::Deliver(k, n) => self.deliver(k, n),
            Op::Answer(k, n) => self.answer(k, n)?,
            Op::LoseRequest(k, n) => drop(take(&mut self.keepers[k].requests, n)),
            Op::LoseReply(k, n) => drop(take(&mut self.keepers[k].replies, n)),
            Op::RepeatReply(k, n) => {
                if let Some(reply) = self.keepers[k].replies.get(n).cloned() {
                    self.keepers[k].replies.push(reply);
                }
            }
            Op::Pause(k, paused) => self.keepers[k].paused = paused,
            Op::Eligible(k, true) => self.step(k, Event::Eligible(Ok(())))?,
            Op::Eligible(k, false) => self.step(k, Event::Eligible(Err("ill".into())))?,
            Op::OwnerDone(k, n) => {
                let term = self.keepers[k].opened.iter().rev().nth(n).copied();
                if let Some(epoch) = term {
                    self.owner_done(k, epoch, None)?;
                }
            }
            Op::Announce(k) => self.step(k, Event::Announced)?,
            Op::Disconnect(k) => self.step(k, Event::Disconnected)?,
        }
        self.check()
    }

    pub(super) fn owner_done(
        &mut self,
        k: usize,
        epoch: u64,
        cool_down: Option<Duration>,
    ) -> Result<(), String> {
        // Its owner ends one term before it begins the next.
        let ended = self.keepers[k].opened.range(..=epoch).copied();
        let ended: Vec<u64> = ended.chain([epoch]).collect();
        self.keepers[k].done.extend(ended);
        self.step(k, Event::OwnerDone { epoch, cool_down })
    }

    pub(super) fn stop(&mut self, k: usize) -> Result<(), String> {
        self.keepers[k].stop_sent = true;
        self.step(k, Event::Stop)
    }

    /// Let time pass; timers run when they are due, except where paused.
    pub(super) fn advance(&mut self, by: Duration) -> Result<(), String> {
        let end = self.now + by;
        loop {
            let due = (0..self.keepers.len())
                .filter(|k| !self.keepers[*k].paused)
                .filter_map(|k| Some((self.wake(k)?.max(self.now), k)))
                .filter(|(at, _)| *at <= end)
                .min();
            let Some((at, k)) = due else {
                self.now = end;
                return self.check();
            };
            self.now = at;
            self.step(k, Event::Timer)?;
            self.check()?;
        }
    }

    /// Let time pass on a network that answers at once.
    pub(super) fn smooth(&mut self, by: Duration) -> Result<(), String> {
        let end = self.now + by;
        loop {
            self.settle()?;
            let awake = (0..self.keepers.len()).filter(|k| !self.keepers[*k].paused);
            match awake.filter_map(|k| self.wake(k)).min() {
                Some(next) if next < end => self.advance(next.since(self.now))?,
                _ => {
                    self.advance(end.since(self.now))?;
                    return self.settle();
                }
            }
        }
    }

    fn settle(&mut self) -> Result<(), String> {
        (0..self.keepers.len()).try_for_each(|k| self.settle_one(k))
    }

    fn settle_one(&mut self, k: usize) -> Result<(), String> {
        while !self.keepers[k].requests.is_empty() || !self.keepers[k].replies.is_empty() {
            self.deliver(k, 0);
            self.answer(k, 0)?;
            self.check()?;
        }
        Ok(())
    }

    pub(super) fn heal(&mut self) -> Result<(), String> {
        for k in 0..self.keepers.len() {
            self.keepers[k].paused = false;
            self.step(k, Event::Eligible(Ok(())))?;
            for epoch in self.keepers[k].opened.clone() {
                if self.keepers[k].closed.contains(&epoch) {
                    self.owner_done(k, epoch, None)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn holding(&self) -> Vec<(usize, u64)> {
        let open = self.keepers.iter().enumerate();
        open.filter_map(|(k, keeper)| {
            let (epoch, until) = keeper.window?;
            (self.now < until).then_some((k, epoch))
        })
        .collect()
    }

    pub(super) fn pending(&self, k: usize) -> usize {
        self.keepers[k].requests.len()
    }

    pub(super) fn standing(&self, k: usize) -> Option<Standing> {
        self.keepers[k].standing.clone()
    }

    pub(super) fn deliver(&mut self, k: usize, n: usize) {
        if let Some((attempt, request)) = take(&mut self.keepers[k].requests, n) {
            let reply = self.perform(k, &request);
            self.keepers[k].replies.push((attempt, reply));
        }
    }

    pub(super) fn answer(&mut self, k: usize, n: usize) -> Result<(), String> {
        if let Some((attempt, reply)) = take(&mut self.keepers[k].replies, n) {
            if self.keepers[k].flying == Some(attempt) {
                self.keepers[k].flying = None;
            }
            let sent = self.keepers[k].sent.get(&attempt).copied();
            self.last_answered = sent.map(|sent| (attempt, sent));
            self.step(k, Event::Reply { attempt, reply })?;
            self.last_answered = None;
        }
        Ok(())
    }

    fn wake(&self, k: usize) -> Option<BootInstant> {
        self.keepers[k].state.as_ref().and_then(State::wake)
    }

    /// What the statements do.
    fn perform(&mut self, k: usize, request: &Request) -> Reply {
        let now = self.db_now();
        let me = &self.rules[k];
        let mut ttl = i64::try_from(me.ttl.as_millis()).unwrap_or(0);
        if self.fault == Fault::ShortLease {
            ttl -= 4_000;
        }
        if let Request::Seed { epoch } = request {
            self.row.get_or_insert(Row {
                holder: String::new(),
                epoch: *epoch,
                expires_at_ms: 0,
                now_ms: now,
            });
        }
        let Some(row) = &mut self.row else {
            return Reply::Missing;
        };
        let ours = |row: &Row, epoch: u64| row.holder == me.holder && row.epoch == epoch;
        let done = match request {
            Request::Read | Request::Seed { .. } => true,
            Request::Acquire {
                seen,
                claim,
                floor,
                not_after_ms,
            } => {
                let free = row.expires_at_ms < now
                    || matches!(claim, Claim::Own | Claim::Native)
                    || (*claim == Claim::Unchanged && row.expires_at_ms == seen.expires_at_ms)
                    || self.fault == Fault::ClockAhead;
                let same = row.holder == seen.holder && row.epoch == seen.epoch;
                let may = same && free && now <= *not_after_ms;
                if may {
                    row.holder.clone_from(&me.holder);
                    row.epoch = row.epoch.max(*floor) + 1;
                    row.expires_at_ms = now + ttl;
                    assert!(row.epoch > self.acquired, "epochs only grow");
                    self.acquired = row.epoch;
                }
                may
            }
            Request::Renew { epoch } => {
                let may = ours(row, *epoch) && row.expires_at_ms >= now;
                if may {
                    row.expires_at_ms = now + ttl;
                }
                may
            }
            Request::Release { epoch } => {
                let may = ours(row, *epoch);
                if may {
                    row.expires_at_ms = 0;
                }
                may
            }
        };
        row.now_ms = now;
        if self.fault == Fault::ClockAhead {
            row.now_ms += 8_000;
        }
        if done {
            Reply::Row(row.clone())
        } else {
            Reply::Refused
        }
    }

    pub(super) fn step(&mut self, k: usize, event: Event) -> Result<(), String> {
        let state = self.keepers[k].state.take().ok_or("a state is there")?;
        let (state, actions) = state.step(event, self.now);
        let stopped = self.keepers[k].stopped;
        self.keepers[k].state = Some(state);
        if stopped && !actions.is_empty() {
            return Err(format!("{k} acts after it stopped: {actions:?}"));
        }
        for action in actions {
            self.act(k, action)?;
        }
        Ok(())
    }

    fn act(&mut self, k: usize, action: Action) -> Result<(), String> {
        let now = self.now;
        let answered = self.last_answered;
        let keeper = &mut self.keepers[k];
        let latest = |until: BootInstant| match answered {
            Some((_, sent)) if until <= sent + (TTL - MARGIN) => Ok(()),
            _ => Err(format!(
                "{k}: authority beyond its attempt: {until:?} {answered:?}"
            )),
        };
        match action {
            Action::Send { attempt, request } => {
                if let Some(flying) = keeper.flying {
                    return Err(format!("{k} sends {attempt} while {flying} is in flight"));
                }
                if let Request::Release { epoch } = request
                    && let Some(running) = keeper.opened.difference(&keeper.done).next()
                    && !keeper.stop_sent
                {
                    return Err(format!("{k} releases {epoch} while ticks of {running} run"));
                }
                if let Request::Release { epoch } = request
                    && keeper.window.is_some_and(|(open, _)| open == epoch)
                {
                    return Err(format!("{k} releases {epoch} before it is closed"));
                }
                if request == Request::Read {
                    self.reads.push(now);
                }
                keeper.flying = Some(attempt);
                if keeper.sent.insert(attempt, now).is_some() {
                    return Err(format!("{k} uses {attempt} twice"));
                }
                keeper.requests.push((attempt, request));
            }
            Action::Cancel { attempt } => {
                // An answer may come together with the end of its time.
                let late = answered.is_some_and(|(answered, _)| answered == attempt);
                if keeper.flying.take() != Some(attempt) && !late {
                    return Err(format!("{k} cancels {attempt}, which is not in flight"));
                }
            }
            Action::Open { epoch, until } => {
                latest(until)?;
                if keeper.window.is_some() || !keeper.opened.insert(epoch) {
                    return Err(format!("{k} opens {epoch} twice or beside another"));
                }
                keeper.window = Some((epoch, until));
            }
            Action::Extend { epoch, until } => {
                latest(until)?;
                match &mut keeper.window {
                    Some((open, end)) if *open == epoch && now < *end => *end = until,
                    _ => return Err(format!("{k} extends {epoch}, which has ended")),
                }
            }
            Action::Close { epoch } => {
                if keeper.window.take().map(|(open, _)| open) != Some(epoch) {
                    return Err(format!("{k} closes {epoch}, which is not open"));
                }
                keeper.closed.insert(epoch);
            }
            Action::Publish(standing) => {
                if let Standing::Holder { epoch } = standing
                    && keeper
                        .window
                        .is_none_or(|(open, end)| open != epoch || now >= end)
                {
                    return Err(format!("{k} shows term {epoch} without authority"));
                }
                keeper.standing = Some(standing);
            }
            Action::Released { epoch } => {
                if keeper.window.is_some_and(|(open, _)| open == epoch) {
                    return Err(format!("{k} says that the open term {epoch} is released"));
                }
            }
            Action::WarnNative { .. } => keeper.warnings += 1,
            Action::Stopped => {
                if keeper.window.is_some() || keeper.flying.is_some() {
                    return Err(format!("{k} stops with something open"));
                }
                keeper.stopped = true;
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let holding = self.holding();
        if holding.len() > 1 {
            return Err(format!("several hold at once: {holding:?}"));
        }
        for (k, keeper) in self.keepers.iter().enumerate() {
            // Whoever is awake shows no term that has ended.
            let awake = !keeper.paused && self.wake(k).is_none_or(|at| at > self.now);
            if awake
                && matches!(keeper.standing, Some(Standing::Holder { .. }))
                && !holding.iter().any(|(holder, _)| *holder == k)
            {
                return Err(format!("{k} shows a term that has ended"));
            }
        }
        Ok(())
    }
}

fn take<T>(from: &mut Vec<T>, n: usize) -> Option<T> {
    (n < from.len()).then(|| from.remove(n))
}
