//! What the database holds, and the steps of an append in it.
//!
//! PostgreSQL runs the parts of an append one after another under READ COMMITTED,
//! and others commit in between; so does this model. SQLite runs them as one
//! statement under the write lock, which is one of these orders.

use std::collections::BTreeMap;

/// One of the two nodes of Aedile.
pub type Node = usize;
/// The PicoMQ node, as a holder and as a writer.
pub const NATIVE: Node = 2;

/// The lease row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Who holds it; nobody at first.
    pub holder: Option<Node>,
    /// The epoch in the row.
    pub epoch: u8,
    /// Which acquisition of all it was. No database has this: it tells terms apart
    /// that a failover gave the same epoch.
    pub term: u8,
}

/// A row of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Who wrote it.
    pub writer: Node,
    /// Its number among the writer's: the nonce that makes its bytes its own.
    pub number: u8,
    /// The acquisition in whose term it was sent; 0 without a fence.
    pub term: u8,
}

/// Everything that a failover may forget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Database {
    /// The lease row.
    pub lease: Lease,
    /// The log.
    pub rows: BTreeMap<usize, Row>,
    /// The stored snapshot: all rows that it covers.
    pub snapshot: Option<Vec<Row>>,
    /// Its truncation is still to come.
    pub truncating: bool,
    /// All rows that ever stood in their place: what a reader that misses nothing
    /// would apply.
    pub history: Vec<Row>,
}

/// How far an append has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It has not reached the database.
    Sent,
    /// Its row is inserted and not committed.
    Inserted,
    /// What it asks about was found so; the lease row is locked.
    Checked,
}

/// An append on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Append {
    /// Whose it is.
    pub node: Node,
    /// The place.
    pub index: usize,
    /// The row.
    pub row: Row,
    /// The epoch of its fence.
    pub epoch: u8,
    /// How far it has come.
    pub stage: Stage,
    /// Nobody waits for its reply any more.
    pub abandoned: bool,
    /// The lease and the snapshot's index when its transaction was opened. Only
    /// broken variants look at it.
    pub opened: Option<(Lease, usize)>,
}

/// Why an append does not land.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its place is taken, covered, or has no predecessor.
    NoPlace,
    /// The term of its fence is over.
    FencedOut,
}

impl Database {
    /// The index of the stored snapshot; 0 without one.
    pub fn covered(&self) -> usize {
        self.snapshot.as_ref().map_or(0, Vec::len)
    }

    /// The last index in use.
    pub fn tip(&self) -> usize {
        let last = self.rows.last_key_value();
        last.map_or(0, |(index, _)| *index).max(self.covered())
    }

    /// Whether the row before this place is in the log, or is the snapshot's last.
    pub fn has_predecessor(&self, index: usize) -> bool {
        self.rows.contains_key(&(index - 1)) || self.covered() == index - 1
    }

    /// A row stands in its place, and for good.
    pub fn commit(&mut self, index: usize, row: Row) -> Place {
        self.rows.insert(index, row);
        if index <= self.history.len() {
            Place::Below
        } else if index == self.history.len() + 1 {
            // What stood behind a hole is in its place now.
            while let Some(next) = self.rows.get(&(self.history.len() + 1)) {
                self.history.push(*next);
            }
            Place::Next
        } else {
            Place::Beyond
        }
    }
}

/// Where a row has landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind the last one.
    Next,
    /// Where another was, or is, by everybody's snapshot.
    Below,
    /// Behind a hole.
    Beyond,
}
