//! The replicated state as far as plugins see it.

use std::collections::BTreeMap;

use crate::{
    Node, NodeId, Object, ObjectId, ObjectKind, Operation, Stream, StreamId, StreamObject,
    TimestampMs,
};

/// A replicated state. Fields are public: a test writes what it needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    /// Reservations and their deadlines.
    pub reservations: BTreeMap<ObjectId, TimestampMs>,
    /// The destroyed queue, by place.
    pub destroyed: BTreeMap<u64, (ObjectId, Operation)>,
    /// Objects of the catalog.
    pub objects: BTreeMap<ObjectId, Object>,
    /// Stream objects, by stream, first offset and id.
    pub stream_objects: BTreeMap<(StreamId, u64, ObjectId), StreamObject>,
    /// Streams.
    pub streams: BTreeMap<StreamId, Stream>,
    /// Registered nodes.
    pub nodes: BTreeMap<NodeId, Node>,
    /// The key-value map.
    pub kv: BTreeMap<String, Vec<u8>>,
}

impl Model {
    /// Adds a reservation.
    pub fn reserve(&mut self, id: ObjectId, deadline: TimestampMs) {
        self.reservations.insert(id, deadline);
    }

    /// Appends a mark to the destroyed queue and returns its place.
    pub fn mark(&mut self, id: ObjectId, operation: Operation) -> u64 {
        let seq = self.destroyed.keys().next_back().map_or(0, |last| last + 1);
        self.destroyed.insert(seq, (id, operation));
        seq
    }

    /// Adds a plain object of `size` bytes to the catalog, committed at `at`.
    pub fn commit(&mut self, id: ObjectId, size: u64, at: TimestampMs) {
        let object = Object {
            id,
            kind: ObjectKind::StreamSet,
            size,
            composite: false,
            committed: at,
            data: at,
        };
        self.objects.insert(id, object);
    }

    /// Stores a value.
    pub fn put(&mut self, key: &str, value: &[u8]) {
        self.kv.insert(key.to_owned(), value.to_vec());
    }
}
