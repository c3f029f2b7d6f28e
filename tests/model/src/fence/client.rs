//! A node of Aedile as it appends: the rules of `host/log/src/proposer.rs`.

use super::database::Row;
use super::tailer::Tailer;

/// What a client does about the row that it sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settling {
    /// It waits for the reply.
    Waiting,
    /// The reply was lost: the same row goes to the same place.
    Resend,
    /// A place that may be its own is taken: by whom?
    Compare,
}

/// A row that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pending {
    /// The row.
    pub row: Row,
    /// Its fence.
    pub epoch: u8,
    /// The place.
    pub index: usize,
    /// A reply was lost.
    pub lost: bool,
    /// The last reply was that its term is over.
    pub fenced_out: bool,
    /// What comes next.
    pub settling: Settling,
}

/// A node of Aedile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// The term that it was given last: epoch and number.
    pub term: Option<(u8, u8)>,
    /// The greatest epoch that it knows.
    pub known: u8,
    /// What it has applied.
    pub tailer: Tailer,
    /// The row under way.
    pub pending: Option<Pending>,
    /// A row that did not land and has to find another place.
    pub draft: Option<(Row, u8)>,
    /// The last index that it knows to be taken.
    pub last: usize,
    /// How many rows it has made.
    pub made: u8,
    /// Numbers of the rows that it knows to stand in the log.
    pub acknowledged: Vec<u8>,
    /// A row whose reply was lost was found, or sent again and landed.
    pub settled: bool,
    /// It has not looked at the log since a failover.
    pub blind: bool,
}
