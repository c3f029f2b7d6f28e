//! A database, two nodes of Aedile, one of PicoMQ, and appends on their way.

use super::client::{Client, Pending, Settling};
use super::database::{Append, Database, Lease, NATIVE, Node, Place, Refusal, Row, Stage};
use super::setup::{Setup, Variant};
use super::tailer::Tailer;

/// How far back a replica may lag: in commits.
const LAG: usize = 2;

/// What must never happen, noticed where it happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Breaches {
    /// A fenced row landed after its term.
    pub after_its_term: bool,
    /// A row of ours landed where it will never be read.
    pub below: bool,
    /// A row of ours landed without the row before it.
    pub alone: bool,
}

/// What may still happen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Acquisitions.
    pub terms: u8,
    /// Rows of the PicoMQ node.
    pub native_rows: u8,
    /// Snapshots.
    pub snapshots: u8,
    /// Lost replies.
    pub lost: u8,
    /// Failovers that forget.
    pub failovers: u8,
}

/// A state of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct World {
    /// What is committed.
    pub database: Database,
    /// The nodes of Aedile.
    pub clients: [Client; 2],
    /// What the PicoMQ node has applied.
    pub native: Tailer,
    /// Appends on their way.
    pub appends: Vec<Append>,
    /// What may still happen.
    pub left: Budget,
    /// How often the lease was taken.
    pub terms: u8,
    /// The database before each of its last commits, while a failover may come.
    pub past: Vec<Database>,
    /// A failover forgot something.
    pub forgot: bool,
    /// A row of the PicoMQ node landed below a snapshot.
    pub stray: bool,
    /// What went wrong.
    pub breaches: Breaches,
}

impl World {
    /// Nothing has happened.
    pub fn new(setup: &Setup) -> Self {
        Self {
            left: Budget {
                terms: setup.terms,
                native_rows: setup.native_rows,
                snapshots: setup.snapshots,
                lost: setup.lost,
                failovers: setup.failovers,
            },
            ..Self::default()
        }
    }

    /// Whether an append holds a lock on the lease row.
    pub fn lease_is_locked(&self, variant: Variant) -> bool {
        let locks = !matches!(
            variant,
            Variant::FenceInOldSnapshot | Variant::FenceUnlocked
        );
        locks && self.appends.iter().any(|a| a.stage == Stage::Checked)
    }

    /// Whether an append would wait for another's commit to insert its row.
    pub fn is_blocked(&self, index: usize) -> bool {
        let mut others = self.appends.iter();
        others.any(|a| a.index == index && a.stage != Stage::Sent)
    }

    /// A node takes the lease.
    pub fn acquire(&mut self, node: Node) {
        self.keep();
        self.left.terms -= 1;
        self.terms += 1;
        let known = self.clients.get(node).map_or(0, |client| client.known);
        let epoch = self.database.lease.epoch.max(known) + 1;
        self.database.lease = Lease {
            holder: Some(node),
            epoch,
            term: self.terms,
        };
        if let Some(client) = self.clients.get_mut(node) {
            client.known = epoch;
            client.term = Some((epoch, self.terms));
        }
    }

    /// A node sends a row to the place behind the last that it knows.
    pub fn send(&mut self, node: Node) {
        let client = &mut self.clients[node];
        client.last = client.last.max(client.tailer.view.len());
        let index = client.last + 1;
        let Some((epoch, term)) = client.term else {
            return;
        };
        let (row, epoch) = client.draft.take().unwrap_or_else(|| {
            client.made += 1;
            let number = client.made;
            let row = Row {
                writer: node,
                number,
                term,
            };
            (row, epoch)
        });
        self.launch(node, row, epoch, index, false);
    }

    /// A node whose place was taken asks where the log ends.
    pub fn ask_tip(&mut self, node: Node) {
        let client = &mut self.clients[node];
        client.last = client.last.max(self.database.tip());
    }

    /// The row whose reply was lost goes out again.
    pub fn resend(&mut self, node: Node, variant: Variant) {
        if let Some(pending) = self.clients[node].pending {
            let index = match variant {
                Variant::ResentElsewhere => self.database.tip() + 1,
                _ => pending.index,
            };
            self.launch(node, pending.row, pending.epoch, index, true);
        }
    }

    fn launch(&mut self, node: Node, row: Row, epoch: u8, index: usize, lost: bool) {
        self.clients[node].pending = Some(Pending {
            row,
            epoch,
            index,
            lost,
            fenced_out: false,
            settling: Settling::Waiting,
        });
        self.appends.push(Append {
            node,
            index,
            row,
            epoch,
            stage: Stage::Sent,
            abandoned: false,
            opened: None,
        });
    }

    /// The transaction of an append is opened before it knows anything else.
    pub fn open(&mut self, at: usize) {
        self.appends[at].opened = Some((self.database.lease, self.database.covered()));
    }

    /// The row of an append is inserted, or its place is taken.
    pub fn insert(&mut self, at: usize, variant: Variant) {
        if variant == Variant::FenceInOldSnapshot {
            let index = self.database.tip() + 1;
            self.appends[at].index = index;
            let node = self.appends[at].node;
            if let Some(pending) = &mut self.clients[node].pending {
                pending.index = index;
            }
        }
        let append = &mut self.appends[at];
        if self.database.rows.contains_key(&append.index) {
            self.refuse(at, Refusal::NoPlace);
        } else {
            append.stage = Stage::Inserted;
        }
    }

    /// What an append depends on is read after its insert, each by a statement of
    /// its own.
    pub fn check(&mut self, at: usize, variant: Variant) {
        let append = &self.appends[at];
        let database = &self.database;
        let (mut lease, mut covered) = (database.lease, database.covered());
        if let Some((old_lease, old_covered)) = append.opened {
            match variant {
                Variant::FenceInOldSnapshot => lease = old_lease,
                Variant::SnapshotReadFirst => covered = old_covered,
                _ => {}
            }
        }
        let follows = database.has_predecessor(append.index)
            || variant == Variant::PredecessorUnchecked
            || (variant == Variant::SnapshotReadFirst && covered == append.index - 1);
        if covered >= append.index || !follows {
            self.refuse(at, Refusal::NoPlace);
        } else if lease.holder != Some(append.node) || lease.epoch != append.epoch {
            self.refuse(at, Refusal::FencedOut);
        } else {
            self.appends[at].stage = Stage::Checked;
        }
    }

    /// An append commits; its reply may be lost.
    pub fn commit(&mut self, at: usize, reply: Reply) {
        self.keep();
        let append = self.appends.remove(at);
        let breaches = &mut self.breaches;
        breaches.after_its_term |= self.database.lease.term != append.row.term;
        breaches.alone |= !self.database.has_predecessor(append.index);
        breaches.below |= self.database.commit(append.index, append.row) == Place::Below;
        let client = &mut self.clients[append.node];
        match (&mut client.pending, reply) {
            _ if append.abandoned => {}
            (Some(pending), Reply::Lost) => {
                self.left.lost -= 1;
                pending.settling = Settling::Resend;
                pending.lost = true;
            }
            _ => client.landed(append.row, append.index),
        }
    }

    /// The client waits no longer for an append that is on its way.
    pub fn give_up_waiting(&mut self, at: usize) {
        self.left.lost -= 1;
        self.appends[at].abandoned = true;
        let node = self.appends[at].node;
        if let Some(pending) = &mut self.clients[node].pending {
            pending.settling = Settling::Resend;
            pending.lost = true;
        }
    }

    fn refuse(&mut self, at: usize, refusal: Refusal) {
        let append = self.appends.remove(at);
        if append.abandoned {
            return;
        }
        let client = &mut self.clients[append.node];
        let Some(pending) = &mut client.pending else {
            return;
        };
        let fenced_out = refusal == Refusal::FencedOut;
        if fenced_out {
            client.term = client.term.filter(|(epoch, _)| *epoch != append.epoch);
        }
        pending.fenced_out = fenced_out;
        if pending.lost {
            pending.settling = Settling::Compare;
        } else {
            client.elsewhere(refusal);
        }
    }

    /// The client asks who stands at its place, after a lost reply.
    pub fn compare(&mut self, node: Node) {
        let client = &mut self.clients[node];
        let Some(pending) = client.pending else {
            return;
        };
        let covered = self.database.covered() >= pending.index;
        match self.database.rows.get(&pending.index) {
            Some(row) if *row == pending.row => client.landed(pending.row, pending.index),
            // It cannot be told.
            _ if covered => client.pending = None,
            _ if pending.fenced_out => client.elsewhere(Refusal::FencedOut),
            _ => client.elsewhere(Refusal::NoPlace),
        }
    }

    /// A node looks at the log.
    pub fn look(&mut self, node: Node, variant: Variant) {
        let client = &mut self.clients[node];
        client.blind = false;
        match variant {
            Variant::TrustingTailer => client.tailer.trust(&self.database),
            _ => client.tailer.look(&self.database),
        }
    }

    /// The PicoMQ node looks at the log.
    pub fn native_look(&mut self) {
        self.native.trust(&self.database);
    }

    /// The PicoMQ node appends behind what it has applied, and asks for nothing.
    pub fn native_append(&mut self) {
        self.keep();
        let index = self.native.view.len() + 1;
        let row = Row {
            writer: NATIVE,
            number: self.left.native_rows,
            term: 0,
        };
        self.left.native_rows -= 1;
        let place = self.database.commit(index, row);
        self.stray |= place == Place::Below;
    }

    /// Whoever has applied this stores it as a snapshot.
    pub fn store_snapshot(&mut self, view: Vec<Row>) {
        self.keep();
        self.left.snapshots -= 1;
        self.database.snapshot = Some(view);
        self.database.truncating = true;
    }

    /// The rows that the snapshot covers are deleted.
    pub fn truncate(&mut self) {
        self.keep();
        let covered = self.database.covered();
        self.database.rows.retain(|index, _| *index > covered);
        self.database.truncating = false;
    }

    /// A replica takes over that lacks the last `back` + 1 commits. What had not
    /// been committed is gone, and so are the connections.
    pub fn fail_over(&mut self, back: usize) {
        self.left.failovers -= 1;
        let at = self.past.len() - 1 - back;
        self.database = self.past.swap_remove(at);
        self.past.clear();
        self.forgot = true;
        for append in std::mem::take(&mut self.appends) {
            if let Some(pending) = &mut self.clients[append.node].pending
                && !append.abandoned
            {
                pending.settling = Settling::Resend;
                pending.lost = true;
            }
        }
        for client in &mut self.clients {
            client.blind = true;
        }
    }

    fn keep(&mut self) {
        if self.left.failovers > 0 {
            self.past.push(self.database.clone());
            if self.past.len() > LAG {
                self.past.remove(0);
            }
        }
    }
}

/// Whether the reply to a commit arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It does.
    Arrives,
    /// It does not.
    Lost,
}

impl Client {
    fn landed(&mut self, row: Row, index: usize) {
        self.last = index;
        let pending = self.pending.take();
        self.settled |= pending.is_some_and(|pending| pending.lost);
        self.acknowledged.push(row.number);
    }

    /// The row did not land: it needs another place, or its term is over.
    fn elsewhere(&mut self, refusal: Refusal) {
        if let Some(pending) = self.pending.take()
            && refusal == Refusal::NoPlace
        {
            self.draft = Some((pending.row, pending.epoch));
        }
    }
}
