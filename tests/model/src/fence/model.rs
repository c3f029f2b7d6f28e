//! What can happen next.

use stateright::{Model, Property};

use super::client::Settling;
use super::database::{NATIVE, Node, Stage};
use super::properties;
use super::setup::{Setup, Variant};
use super::world::{Reply, World};

/// The model of the log.
#[derive(Clone, Debug)]
pub struct FenceModel {
    /// Its bounds.
    pub setup: Setup,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A node takes the lease: 0 and 1 are Aedile's, 2 is PicoMQ's.
    Acquire(Node),
    /// A node sends a row to the place behind the last that it knows.
    Send(Node),
    /// A node whose place was taken asks where the log ends.
    AskTip(Node),
    /// The transaction of an append is opened early (broken variants only).
    Open(usize),
    /// An append inserts its row.
    Insert(usize),
    /// An append reads what it depends on.
    Check(usize),
    /// An append commits.
    Commit(usize),
    /// An append commits and its reply is lost.
    CommitUnheard(usize),
    /// The client waits no longer for an append, which goes on.
    GiveUpWaiting(usize),
    /// After a lost reply the same row goes out again.
    Resend(Node),
    /// After a lost reply the client asks who stands at its place.
    Compare(Node),
    /// A node reads the log.
    Look(Node),
    /// A node stores what it has applied as a snapshot.
    Snapshot(Node),
    /// The log is truncated to the snapshot.
    Truncate,
    /// The PicoMQ node reads the log.
    NativeLook,
    /// The PicoMQ node appends.
    NativeAppend,
    /// A replica takes over that lacks one commit more than this number.
    FailOver(usize),
}

impl FenceModel {
    /// The model within these bounds.
    pub fn new(setup: Setup) -> Self {
        Self { setup }
    }

    /// The same bounds, broken in this way.
    pub fn broken(setup: Setup, variant: Variant) -> Self {
        Self::new(Setup { variant, ..setup })
    }

    fn of_client(&self, world: &World, node: Node, actions: &mut Vec<Action>) {
        let client = &world.clients[node];
        if client.tailer.stopped {
            return;
        }
        let mut looked = client.clone();
        match self.setup.variant {
            Variant::TrustingTailer => looked.tailer.trust(&world.database),
            _ => looked.tailer.look(&world.database),
        }
        looked.blind = false;
        if looked != *client {
            actions.push(Action::Look(node));
        }
        match client.pending.map(|pending| pending.settling) {
            None => {
                let more = client.draft.is_some() || client.made < self.setup.rows;
                if more && client.term.is_some() {
                    actions.push(Action::Send(node));
                }
                let known = client.last.max(client.tailer.view.len());
                if client.draft.is_some() && world.database.tip() > known {
                    actions.push(Action::AskTip(node));
                }
            }
            Some(Settling::Waiting) => {}
            Some(Settling::Resend) => actions.push(Action::Resend(node)),
            Some(Settling::Compare) => actions.push(Action::Compare(node)),
        }
        let longer = client.tailer.view.len() > world.database.covered();
        if world.left.snapshots > 0 && longer && !client.blind {
            actions.push(Action::Snapshot(node));
        }
    }

    fn of_append(&self, world: &World, at: usize, actions: &mut Vec<Action>) {
        let append = &world.appends[at];
        let opens = matches!(
            self.setup.variant,
            Variant::FenceInOldSnapshot | Variant::SnapshotReadFirst
        );
        match append.stage {
            Stage::Sent if opens && append.opened.is_none() => actions.push(Action::Open(at)),
            Stage::Sent if !world.is_blocked(append.index) => actions.push(Action::Insert(at)),
            Stage::Sent => {}
            Stage::Inserted => actions.push(Action::Check(at)),
            Stage::Checked => {
                actions.push(Action::Commit(at));
                if world.left.lost > 0 && !append.abandoned {
                    actions.push(Action::CommitUnheard(at));
                }
            }
        }
        if world.left.lost > 0 && !append.abandoned {
            actions.push(Action::GiveUpWaiting(at));
        }
    }
}

impl Model for FenceModel {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.setup)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.left.terms > 0 && !world.lease_is_locked(self.setup.variant) {
            actions.extend([Action::Acquire(0), Action::Acquire(1)]);
            if self.setup.native_rows > 0 {
                actions.push(Action::Acquire(NATIVE));
            }
        }
        for node in 0..2 {
            self.of_client(world, node, actions);
        }
        for at in 0..world.appends.len() {
            self.of_append(world, at, actions);
        }
        if world.database.truncating {
            actions.push(Action::Truncate);
        }
        if self.setup.native_rows > 0 {
            let next = world.native.view.len() + 1;
            let mut looked = world.native.clone();
            looked.trust(&world.database);
            if looked != world.native {
                actions.push(Action::NativeLook);
            }
            let free = !world.database.rows.contains_key(&next) && !world.is_blocked(next);
            if world.left.native_rows > 0 && free {
                actions.push(Action::NativeAppend);
            }
        }
        if world.left.failovers > 0 {
            actions.extend((0..world.past.len()).map(Action::FailOver));
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let variant = self.setup.variant;
        let mut world = last.clone();
        match action {
            Action::Acquire(node) => world.acquire(node),
            Action::Send(node) => world.send(node),
            Action::AskTip(node) => world.ask_tip(node),
            Action::Open(at) => world.open(at),
            Action::Insert(at) => world.insert(at, variant),
            Action::Check(at) => world.check(at, variant),
            Action::Commit(at) => world.commit(at, Reply::Arrives),
            Action::CommitUnheard(at) => world.commit(at, Reply::Lost),
            Action::GiveUpWaiting(at) => world.give_up_waiting(at),
            Action::Resend(node) => world.resend(node, variant),
            Action::Compare(node) => world.compare(node),
            Action::Look(node) => world.look(node, variant),
            Action::Snapshot(node) => {
                let view = world.clients[node].tailer.view.clone();
                world.store_snapshot(view);
            }
            Action::Truncate => world.truncate(),
            Action::NativeLook => world.native_look(),
            Action::NativeAppend => world.native_append(),
            Action::FailOver(back) => world.fail_over(back),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(&self.setup)
    }
}
