//! Reading the state. Each query takes logarithmic time, or walks lazily.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::ops::Bound::{Excluded, Included, Unbounded};

use crate::records::{Node, ObjectKind, ObjectRef, Range, Ranges, Stream};
use crate::state::{State, StreamObject, StreamObjectKey, StreamRow, StreamSetObject};
use crate::{NodeId, ObjectId, Operation, StreamId};

/// How much the state holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Streams.
    pub streams: usize,
    /// Streams that some node has open.
    pub opened_streams: usize,
    /// Registered nodes.
    pub nodes: usize,
    /// Reservations.
    pub reservations: usize,
    /// Live stream-set objects.
    pub stream_set_objects: usize,
    /// Live stream objects.
    pub stream_objects: usize,
    /// Live objects of both kinds that are composites.
    pub composites: usize,
    /// Bytes of all live objects, as the catalog states them.
    pub live_bytes: u128,
    /// Marks in the destroyed queue.
    pub marks: usize,
    /// Keys.
    pub keys: usize,
    /// Pending transfers.
    pub transfers: usize,
}

impl Counts {
    /// Live objects of both kinds.
    pub const fn live_objects(&self) -> usize {
        self.stream_set_objects + self.stream_objects
    }
}

fn after<T>(last: Option<T>) -> Bound<T> {
    last.map_or(Unbounded, Excluded)
}

impl StreamRow {
    pub(crate) fn with_id(self, id: StreamId) -> Stream {
        Stream {
            id,
            epoch: self.epoch,
            start_offset: self.start_offset,
            end_offset: self.end_offset,
            state: self.state,
            node: self.node,
        }
    }
}

fn stream_object(key: &StreamObjectKey, object: &StreamObject) -> ObjectRef {
    ObjectRef {
        id: key.object,
        kind: ObjectKind::Stream,
        node: None,
        size: object.size,
        attributes: object.attributes,
        committed_ms: object.committed_ms,
        data_ms: object.data_ms,
        ranges: Ranges::One(Range {
            stream: key.stream,
            start_offset: key.start_offset,
            end_offset: object.end_offset,
        }),
    }
}

fn stream_set_object(id: ObjectId, object: &StreamSetObject) -> ObjectRef {
    ObjectRef {
        id,
        kind: ObjectKind::StreamSet,
        node: Some(object.node),
        size: object.size,
        attributes: object.attributes,
        committed_ms: object.committed_ms,
        data_ms: object.data_ms,
        ranges: Ranges::Many(object.ranges.clone()),
    }
}

impl State {
    /// How much the state holds.
    pub fn counts(&self) -> Counts {
        Counts {
            streams: self.streams.len(),
            opened_streams: self.opened.len(),
            nodes: self.nodes.len(),
            reservations: self.prepared.len(),
            stream_set_objects: self.stream_sets.len(),
            stream_objects: self.stream_objects.len(),
            composites: self.composites.len(),
            live_bytes: self.live_bytes,
            marks: self.marks.len(),
            keys: self.kv.len(),
            transfers: self.transfers.len(),
        }
    }

    /// The id that the next created stream gets.
    pub fn next_stream_id(&self) -> StreamId {
        StreamId(self.next_stream_id)
    }

    /// The id that the next reservation gets: no object has had it or a
    /// greater one.
    pub fn next_object_id(&self) -> ObjectId {
        ObjectId(self.next_object_id)
    }

    /// The place in the destroyed queue that the next mark gets.
    pub fn next_mark_seq(&self) -> u64 {
        self.next_destroyed_seq
    }

    /// A stream's row.
    pub fn stream(&self, id: StreamId) -> Option<Stream> {
        self.streams.get(&id).map(|row| row.with_id(id))
    }

    /// Streams in the order of their ids, after the one given.
    pub fn streams_after(&self, last: Option<StreamId>) -> impl Iterator<Item = Stream> + '_ {
        self.streams
            .range((after(last), Unbounded))
            .map(|(&id, row)| row.with_id(id))
    }

    /// A node's row.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// Nodes in the (signed) order of their ids, after the one given.
    pub fn nodes_after(&self, last: Option<NodeId>) -> impl Iterator<Item = (NodeId, &Node)> + '_ {
        self.nodes
            .range((after(last), Unbounded))
            .map(|(&id, node)| (id, node))
    }

    /// Streams that nodes have open, in the order of the streams' ids.
    pub fn opened_streams(&self) -> impl Iterator<Item = (NodeId, StreamId)> + '_ {
        self.opened.iter()
    }

    /// Streams placed on a node and never opened, in the order of their ids.
    pub fn placed_streams(&self) -> impl Iterator<Item = (NodeId, StreamId)> + '_ {
        self.placed.iter()
    }

    /// Pending transfers as (stream, from, to), in the order of the streams.
    pub fn transfers(&self) -> impl Iterator<Item = (StreamId, NodeId, NodeId)> + '_ {
        self.transfers
            .iter()
            .map(|(&stream, &(from, to))| (stream, from, to))
    }

    /// A live object of either kind.
    pub fn object(&self, id: ObjectId) -> Option<ObjectRef> {
        if let Some(object) = self.stream_sets.get(&id) {
            return Some(stream_set_object(id, object));
        }
        self.stream_object_by_id(id)
    }

    fn stream_object_by_id(&self, object: ObjectId) -> Option<ObjectRef> {
        let &(stream, start_offset) = self.stream_object_ids.get(&object)?;
        let key = StreamObjectKey {
            stream,
            start_offset,
            object,
        };
        self.stream_objects
            .get(&key)
            .map(|object| stream_object(&key, object))
    }

    /// Whether the catalog holds the object.
    pub fn is_live(&self, id: ObjectId) -> bool {
        self.stream_sets.contains_key(&id) || self.stream_object_ids.contains_key(&id)
    }

    /// Whether an upload may still be under way for the id.
    pub fn is_reserved(&self, id: ObjectId) -> bool {
        self.prepared.contains_key(&id)
    }

    /// A reservation's deadline in Unix milliseconds.
    pub fn reservation(&self, id: ObjectId) -> Option<i64> {
        self.prepared.get(&id).copied()
    }

    /// Reservations as (id, deadline in Unix milliseconds) in the order of
    /// their ids, after the one given.
    pub fn reservations_after(
        &self,
        last: Option<ObjectId>,
    ) -> impl Iterator<Item = (ObjectId, i64)> + '_ {
        self.prepared
            .range((after(last), Unbounded))
            .map(|(&id, &deadline)| (id, deadline))
    }

    /// Reservations whose deadline has come, as (deadline, id), the earliest
    /// first. An expire at `now_ms` ends exactly these.
    pub fn lapsed(&self, now_ms: i64) -> impl Iterator<Item = (i64, ObjectId)> + '_ {
        self.prepared_by_deadline
            .range(..=(now_ms, ObjectId(u64::MAX)))
            .copied()
    }

    /// Live objects of both kinds in the order of their ids, after the one
    /// given.
    pub fn objects_after(&self, last: Option<ObjectId>) -> impl Iterator<Item = ObjectRef> + '_ {
        self.live_after(last).filter_map(|id| self.object(id))
    }

    /// Ids of live objects of both kinds in order, after the one given. Far
    /// cheaper than [`objects_after`](Self::objects_after).
    pub fn live_after(&self, last: Option<ObjectId>) -> impl Iterator<Item = ObjectId> + '_ {
        let mut sets = self
            .stream_sets
            .range((after(last), Unbounded))
            .map(|(&id, _)| id)
            .peekable();
        let mut streams = self
            .stream_object_ids
            .range((after(last), Unbounded))
            .map(|(&id, _)| id)
            .peekable();
        std::iter::from_fn(move || match (sets.peek(), streams.peek()) {
            (Some(a), Some(b)) if a < b => sets.next(),
            (Some(a), Some(b)) if a == b => {
                streams.next();
                sets.next()
            }
            (_, Some(_)) => streams.next(),
            (_, None) => sets.next(),
        })
    }

    /// The stream's own objects in the order of (start offset, id), after the
    /// position given.
    pub fn stream_objects_after(
        &self,
        stream: StreamId,
        last: Option<(u64, ObjectId)>,
    ) -> impl Iterator<Item = ObjectRef> + '_ {
        let key = |start_offset, object| StreamObjectKey {
            stream,
            start_offset,
            object,
        };
        let from = match last {
            Some((start_offset, object)) => Excluded(key(start_offset, object)),
            None => Included(key(0, ObjectId(0))),
        };
        let to = Included(key(u64::MAX, ObjectId(u64::MAX)));
        self.stream_objects
            .range((from, to))
            .map(|(key, object)| stream_object(key, object))
    }

    /// Of these streams those of which a stream-set object holds a range, each
    /// with one such object. Looks at every stream-set object once.
    pub fn in_stream_sets(&self, streams: &BTreeSet<StreamId>) -> BTreeMap<StreamId, ObjectId> {
        let mut found = BTreeMap::new();
        for (&id, object) in &self.stream_sets {
            for range in object.ranges.iter() {
                if streams.contains(&range.stream) {
                    found.entry(range.stream).or_insert(id);
                }
            }
        }
        found
    }

    /// An object's mark: its place in the destroyed queue and what is to
    /// happen to its bytes.
    pub fn mark(&self, id: ObjectId) -> Option<(u64, Operation)> {
        let &seq = self.marked.get(&id)?;
        let &(object, operation) = self.marks.get(&seq)?;
        (object == id).then_some((seq, operation))
    }

    /// The destroyed queue in order, after the place given.
    pub fn marks_after(
        &self,
        last: Option<u64>,
    ) -> impl Iterator<Item = (u64, ObjectId, Operation)> + '_ {
        self.marks
            .range((after(last), Unbounded))
            .map(|(&seq, &(object, operation))| (seq, object, operation))
    }

    /// Live objects whose attributes say that they are composites, by id.
    pub fn composites(&self) -> impl Iterator<Item = ObjectId> + '_ {
        self.composites.iter().copied()
    }

    /// A key's value.
    pub fn kv_get(&self, key: &str) -> Option<&[u8]> {
        self.kv.get(key).map(|value| &**value)
    }

    /// Keys that begin with `prefix` and their values, in byte order, after
    /// the key given.
    pub fn kv_scan<'a>(
        &'a self,
        prefix: &'a str,
        last: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a str, &'a [u8])> + 'a {
        let from = match last {
            Some(last) if last >= prefix => Excluded(last),
            _ => Included(prefix),
        };
        self.kv
            .range::<_, str>((from, Unbounded))
            .map(|(key, value)| (&**key, &**value))
            .take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// Up to `k` live objects spread over the catalog's ids, in order; all of
    /// them if there are no more than `k`.
    pub fn sample_live(&self, k: usize) -> Vec<ObjectId> {
        let first = self.live_after(None).next();
        let last = self
            .stream_sets
            .get_max()
            .map(|(id, _)| *id)
            .max(self.stream_object_ids.get_max().map(|(id, _)| *id));
        let (Some(first), Some(last)) = (first, last) else {
            return Vec::new();
        };
        let span = u128::from(last.0 - first.0);
        let mut picked = std::collections::BTreeSet::new();
        for i in 0..k {
            let step = span * i as u128 / (k.max(2) - 1) as u128;
            let target = first.0 + step as u64;
            let before = target.checked_sub(1).map(ObjectId);
            picked.extend(self.live_after(before).next());
        }
        // Ids that cluster leave some targets with the same object.
        if picked.len() < k {
            let mut rest = self.live_after(None);
            while picked.len() < k {
                match rest.next() {
                    Some(id) => picked.insert(id),
                    None => break,
                };
            }
        }
        picked.into_iter().collect()
    }
}
