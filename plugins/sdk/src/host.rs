//! What a tick sees of its host: one trait for each interface of the world.
//!
//! A plugin is written against these traits, so that the same code runs in Wasm
//! on [`Imports`](crate::imports) and natively on
//! [`testing::Host`](crate::testing::Host). Calls are dispatched statically:
//! a function that a plugin never calls is not imported by its module, and the
//! operator need not grant it.

use std::time::Duration;

use crate::{
    Answer, Compaction, Counts, DeleteOutcome, HostError, KvEntry, Level, LogIndex, Mark, Node,
    NodeId, Object, ObjectId, Put, Reservation, Stored, Stream, StreamAt, StreamCursor, StreamId,
    StreamObject, Sweep, TimestampMs, Transfer, Trim,
};

/// The tick that is running. Always there.
pub trait Job {
    /// Time of this tick by the database's clock, in milliseconds since the
    /// Unix epoch. It does not move during the tick.
    fn now(&self) -> TimestampMs;
    /// Name of the plugin as it was deployed.
    fn plugin(&self) -> String;
    /// Name of the node that holds the lease.
    fn node(&self) -> String;
    /// Epoch of the lease: the fencing token of this term.
    fn epoch(&self) -> u64;
    /// CPU time that this tick may still use.
    fn cpu_left(&self) -> Duration;
    /// Wall time that this tick may still use.
    fn wall_left(&self) -> Duration;
    /// True once the tick should return soon. One that goes on is interrupted.
    fn should_stop(&self) -> bool;
    /// A seed for choices that should differ from tick to tick.
    fn seed(&self) -> u64;
}

/// Log lines of the plugin. Always there.
pub trait Logging {
    /// Writes one line to the host's log under the plugin's name.
    fn log(&self, level: Level, message: &str);

    /// A line of use to the plugin's author.
    fn debug(&self, message: &str) {
        self.log(Level::Debug, message);
    }
    /// A line of use to an operator who is looking.
    fn info(&self, message: &str) {
        self.log(Level::Info, message);
    }
    /// A line that an operator should look at in time.
    fn warn(&self, message: &str) {
        self.log(Level::Warn, message);
    }
    /// A line that an operator should look at now.
    fn error(&self, message: &str) {
        self.log(Level::Error, message);
    }
}

/// The view of the replicated state that is pinned for this tick. Grant `state`.
///
/// Lists come in pages: `after` is the last key of the page before, `limit` is
/// capped by the host at 2000. A page shorter than asked for is not the last
/// one; an empty page is.
pub trait State {
    /// Index of the last log row that the view contains.
    fn applied_index(&self) -> LogIndex;
    /// Sizes of the state. Costs nothing.
    fn sizes(&self) -> Counts;
    /// Reservations that have lapsed at the tick's time, by deadline and id.
    fn lapsed_reservations(&self, limit: u32) -> Vec<Reservation>;
    /// How many reservations have lapsed at the tick's time, counted up to `limit`.
    fn lapsed_count(&self, limit: u32) -> u32;
    /// The destroyed queue in order, without what is parked or backed off.
    fn destroyed(&self, after: Option<u64>, limit: u32) -> Vec<Mark>;
    /// Objects by id.
    fn objects(&self, after: Option<ObjectId>, limit: u32) -> Vec<Object>;
    /// Ids of objects in order: thirty times cheaper than the records.
    fn object_ids(&self, after: Option<ObjectId>, limit: u32) -> Vec<ObjectId>;
    /// One object.
    fn object(&self, id: ObjectId) -> Option<Object>;
    /// Objects of one stream, by first offset and id.
    fn stream_objects(
        &self,
        id: StreamId,
        after: Option<StreamCursor>,
        limit: u32,
    ) -> Vec<StreamObject>;
    /// Streams by id.
    fn streams(&self, after: Option<StreamId>, limit: u32) -> Vec<Stream>;
    /// One stream.
    fn stream(&self, id: StreamId) -> Option<Stream>;
    /// Registered nodes by id.
    fn nodes(&self, after: Option<NodeId>, limit: u32) -> Vec<Node>;
    /// The value of a key. Any key may be read.
    fn kv_get(&self, key: &str) -> Option<Vec<u8>>;
    /// Entries whose key begins with `prefix`, by key bytes.
    fn kv_scan(&self, prefix: &str, after: Option<&str>, limit: u32) -> Vec<KvEntry>;
    /// Keys alone, as [`State::kv_scan`].
    fn kv_keys(&self, prefix: &str, after: Option<&str>, limit: u32) -> Vec<String>;
}

/// Commands for the log, each a grant of its own: `commands.<function>`.
///
/// A command that takes a list answers each item, in the order given.
pub trait Commands {
    /// Expires every reservation that has lapsed by the database's clock.
    fn expire_reservations(&mut self) -> Result<Answer, HostError>;
    /// Removes marks from the destroyed queue. The host rejects an id whose
    /// bytes must go and were not deleted in this term.
    fn clean_destroyed(&mut self, ids: &[ObjectId]) -> Result<Vec<Answer>, HostError>;
    /// Stores values, below `aedile/kv/<plugin>/` or a granted prefix.
    fn put_kv(&mut self, entries: &[Put]) -> Result<Vec<Answer>, HostError>;
    /// Stores values whose key is absent: [`Answer::Redundant`] if it is not.
    fn put_kv_if_absent(&mut self, entries: &[Put]) -> Result<Vec<Answer>, HostError>;
    /// Removes keys: [`Answer::Redundant`] if a key was absent.
    fn delete_kv(&mut self, keys: &[String]) -> Result<Vec<Answer>, HostError>;
    /// Destructive: moves the start of streams forward.
    fn trim_stream(&mut self, trims: &[Trim]) -> Result<Vec<Answer>, HostError>;
    /// Destructive: deletes closed streams with all of their stream objects.
    fn delete_stream(&mut self, streams: &[StreamAt]) -> Result<Vec<Answer>, HostError>;
    /// Destructive: unindexes objects that lie wholly below the start of their
    /// stream, and marks them destroyed.
    fn compact_away(&mut self, compactions: &[Compaction]) -> Result<Vec<Answer>, HostError>;
    /// Destructive: asks nodes to hand streams over.
    fn transfer_stream(&mut self, transfers: &[Transfer]) -> Result<Vec<Answer>, HostError>;
}

/// Object storage, each function a grant of its own: `storage.<function>`.
pub trait Storage {
    /// Deletes the bytes of destroyed objects. One outcome an id, in the order
    /// given; the host decides whether an object may go.
    fn delete(&mut self, ids: &[ObjectId]) -> Result<Vec<DeleteOutcome>, HostError>;
    /// Keys below `prefix` in the store's order, after the key `after`.
    fn list(&self, prefix: &str, after: Option<&str>, limit: u32)
    -> Result<Vec<Stored>, HostError>;
    /// What the store has of an object; none if nothing.
    fn head(&self, id: ObjectId) -> Result<Option<Stored>, HostError>;
    /// `length` bytes of an object from `offset` on; fewer where it ends.
    fn read(&self, id: ObjectId, offset: u64, length: u32) -> Result<Option<Vec<u8>>, HostError>;
    /// Does the next portion of the host's sweep for orphans: data objects that
    /// the catalog does not know and no composite links. Deletes nothing.
    fn find_orphans(&mut self) -> Result<Sweep, HostError>;
    /// Destructive: deletes the bytes of orphans that a complete sweep of this
    /// term found old enough. One outcome an id, in the order given.
    fn delete_orphan(&mut self, ids: &[ObjectId]) -> Result<Vec<DeleteOutcome>, HostError>;
}

/// Figures under the plugin's name. Grant `metrics`.
pub trait Metrics {
    /// Adds to a counter. Names are lower-case words joined by underscores, at
    /// most 64 bytes; a tick may use 64 of them.
    fn count(&mut self, name: &str, by: u64);
    /// Sets a gauge.
    fn gauge(&mut self, name: &str, value: f64);
}

/// All of it: what [`Plugin::tick`](crate::Plugin::tick) is given.
pub trait Host: Job + Logging + State + Commands + Storage + Metrics {}

impl<T: Job + Logging + State + Commands + Storage + Metrics> Host for T {}
