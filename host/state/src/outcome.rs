//! What `apply` answers.

use crate::{NodeId, Stream, StreamId};

/// The answer to one command.
pub type Outcome = Result<Applied, Rejection>;

/// A command that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The answer, as PicoMQ gives it.
    pub value: Value,
    /// Whether the command changed the state.
    pub changes: Changes,
}

/// The answer of an accepted command, as PicoMQ gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing to tell.
    Unit,
    /// A stream, object or node id; a negative node id as its sign extension.
    Id(u64),
    /// How many reservations ended.
    Count(u64),
    /// The opened stream; a negative epoch shows as 0.
    Stream(Stream),
    /// A key's value, or none.
    Bytes(Option<Vec<u8>>),
}

/// Whether an accepted command changed the state. A twin of a command that
/// was already applied changes nothing, and that is how it is known as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// The state is as before, bit for bit.
    None,
    /// The command did all that it asked for.
    All,
    /// A clean for which only some objects were in the destroyed queue: one
    /// flag per object of the command, in its order. Both values occur.
    Items(Box<[bool]>),
}

/// Why a command was not accepted. The state is then as before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// Code 1: no such stream.
    #[error("stream {stream} does not exist")]
    StreamNotExist {
        /// The stream.
        stream: StreamId,
    },
    /// Code 2: the stream must be closed first.
    #[error("stream {stream} is not closed")]
    StreamNotClosed {
        /// The stream.
        stream: StreamId,
    },
    /// Code 3: the stream was opened at this epoch or a later one.
    #[error("stream {stream} is fenced: opened at epoch {epoch} or later")]
    StreamFenced {
        /// The stream.
        stream: StreamId,
        /// The epoch that decided.
        epoch: i64,
    },
    /// Code 4: the epoch given is not the stream's.
    #[error("stream {stream} is not at epoch {epoch}")]
    ExpiredEpoch {
        /// The stream.
        stream: StreamId,
        /// The epoch that decided.
        epoch: i64,
    },
    /// Code 5: the node is not registered at the epoch given.
    #[error("node {node} is not registered at this epoch")]
    NodeEpochMismatch {
        /// The node; −1 when a placement found none.
        node: NodeId,
    },
    /// Code 6: already done.
    #[error("already done")]
    Redundant,
    /// Code 99: the request does not fit the state.
    #[error("{what}")]
    Unexpected {
        /// What did not fit.
        what: &'static str,
    },
}

impl Rejection {
    /// PicoMQ's stable number of the error.
    pub const fn code(&self) -> u32 {
        match self {
            Self::StreamNotExist { .. } => 1,
            Self::StreamNotClosed { .. } => 2,
            Self::StreamFenced { .. } => 3,
            Self::ExpiredEpoch { .. } => 4,
            Self::NodeEpochMismatch { .. } => 5,
            Self::Redundant => 6,
            Self::Unexpected { .. } => 99,
        }
    }
}
