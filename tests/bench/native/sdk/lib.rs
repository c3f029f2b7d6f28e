//! The traits of the plugin SDK, over the types that the engine hands to its
//! host. A plugin built against it calls the host's functions directly: the
//! same source as in Wasm, without the boundary.

#[path = "../../../../plugins/sdk/src/host.rs"]
pub mod host;
#[path = "../../../../plugins/sdk/src/plugin.rs"]
mod plugin;

pub use crate::host::{Commands, Host, Job, Logging, Metrics, State, Storage};
pub use crate::plugin::Plugin;

pub use aedile_engine::wit::{
    Answer, Compaction, Counts, DeleteOutcome, HostError, KvEntry, Level, Mark, Node, Object,
    ObjectKind, Operation, Put, Refusal, Reservation, Stored, Stream, StreamAt, StreamCursor,
    StreamObject, Sweep, Transfer, Trim,
};

/// An index of the log.
pub type LogIndex = u64;
/// A node.
pub type NodeId = i32;
/// An object.
pub type ObjectId = u64;
/// A stream.
pub type StreamId = u64;
/// Milliseconds since the Unix epoch.
pub type TimestampMs = i64;

/// What a tick did. The SDK gives it functions, so it is a type of this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// For people.
    pub summary: String,
    /// Things done.
    pub done: u64,
    /// Things that failed.
    pub failed: u64,
    /// Whether more waits.
    pub more: bool,
}

/// When to try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// After so many milliseconds.
    pub after_ms: u64,
    /// Why.
    pub reason: String,
}

/// How a tick failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It may succeed later.
    Retry(Retry),
    /// It will not.
    Reject(String),
}
