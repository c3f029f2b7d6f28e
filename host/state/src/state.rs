//! The state: persistent maps, so that a clone costs the same whatever they
//! hold and shares all that does not change afterwards.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

use crate::records::{Node, ObjectKind, Range, StreamState};
use crate::{NodeId, ObjectId, Operation, StreamId};

/// The epoch of a stream that no node has opened yet.
pub(crate) const NEVER_OPENED: i64 = -1;

/// A stream's row without its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamRow {
    pub(crate) epoch: i64,
    pub(crate) start_offset: u64,
    pub(crate) end_offset: u64,
    pub(crate) state: StreamState,
    pub(crate) node: NodeId,
}

/// Where a stream object stands: ordered by stream, then offset, then id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamObjectKey {
    pub(crate) stream: StreamId,
    pub(crate) start_offset: u64,
    pub(crate) object: ObjectId,
}

/// A stream object without what its key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamObject {
    pub(crate) end_offset: u64,
    pub(crate) size: u64,
    pub(crate) committed_ms: i64,
    pub(crate) data_ms: i64,
    pub(crate) attributes: u32,
    /// As the snapshot had it; `apply` only ever writes `Stream`.
    pub(crate) kind: ObjectKind,
}

/// A stream-set object without its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamSetObject {
    pub(crate) ranges: Arc<[Range]>,
    pub(crate) size: u64,
    pub(crate) committed_ms: i64,
    pub(crate) data_ms: i64,
    pub(crate) node: NodeId,
    pub(crate) attributes: u32,
    /// As the snapshot had it; `apply` only ever writes `StreamSet`.
    pub(crate) kind: ObjectKind,
}

/// A set of (stream, node) pairs that also knows how many each node has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamsByNode {
    pairs: OrdSet<(StreamId, NodeId)>,
    counts: OrdMap<NodeId, u64>,
}

impl StreamsByNode {
    pub(crate) fn insert(&mut self, node: NodeId, stream: StreamId) -> bool {
        let new = self.pairs.insert((stream, node)).is_none();
        if new {
            *self.counts.entry(node).or_insert(0) += 1;
        }
        new
    }

    pub(crate) fn remove(&mut self, node: NodeId, stream: StreamId) -> bool {
        let known = self.pairs.remove(&(stream, node)).is_some();
        if known && let Some(count) = self.counts.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&node);
            }
        }
        known
    }

    /// Removes the stream from every node that has it.
    pub(crate) fn remove_stream(&mut self, stream: StreamId) {
        let all = (stream, NodeId(i32::MIN))..=(stream, NodeId(i32::MAX));
        while let Some(&(_, node)) = self.pairs.range(all.clone()).next() {
            self.remove(node, stream);
        }
    }

    pub(crate) fn count(&self, node: NodeId) -> u64 {
        self.counts.get(&node).copied().unwrap_or(0)
    }

    pub(crate) fn len(&self) -> usize {
        self.pairs.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, StreamId)> + '_ {
        self.pairs.iter().map(|&(stream, node)| (node, stream))
    }
}

/// The metadata of a cluster after some number of log rows.
///
/// Equality is that of everything that can decide a later answer, which is
/// the snapshot's content and the placement index behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    pub(crate) next_stream_id: u64,
    pub(crate) next_object_id: u64,
    pub(crate) next_destroyed_seq: u64,
    pub(crate) streams: OrdMap<StreamId, StreamRow>,
    pub(crate) nodes: OrdMap<NodeId, Node>,
    /// Derived: streams that a node has open.
    pub(crate) opened: StreamsByNode,
    /// Derived: streams placed on a node and never opened. A placement on a
    /// node registered as −1 stands here and not in the snapshot.
    pub(crate) placed: StreamsByNode,
    pub(crate) transfers: OrdMap<StreamId, (NodeId, NodeId)>,
    pub(crate) prepared: OrdMap<ObjectId, i64>,
    /// Derived: the reservations by deadline.
    pub(crate) prepared_by_deadline: OrdSet<(i64, ObjectId)>,
    pub(crate) stream_sets: OrdMap<ObjectId, StreamSetObject>,
    pub(crate) stream_objects: OrdMap<StreamObjectKey, StreamObject>,
    /// Derived: stream objects by id.
    pub(crate) stream_object_ids: OrdMap<ObjectId, (StreamId, u64)>,
    /// Derived: live objects whose attributes say composite.
    pub(crate) composites: OrdSet<ObjectId>,
    /// Derived: bytes of all live objects.
    pub(crate) live_bytes: u128,
    pub(crate) marks: OrdMap<u64, (ObjectId, Operation)>,
    /// Derived: marks by object.
    pub(crate) marked: OrdMap<ObjectId, u64>,
    pub(crate) kv: OrdMap<Arc<str>, Arc<[u8]>>,
}

impl State {
    /// The state of an empty log.
    pub fn new() -> Self {
        Self::default()
    }
}
