//! Committing uploads. One request can carry many objects and ranges that
//! build on each other, so the checks run against the state as it would be by
//! then: an overlay of what the request itself has changed so far.

use std::collections::{BTreeMap, BTreeSet};

use super::{changed_if, unexpected};
use crate::command::{CommitRequest, CommitStreamObject};
use crate::records::{ObjectKind, Range};
use crate::state::{State, StreamObject, StreamObjectKey, StreamRow, StreamSetObject};
use crate::{NOOP, NodeId, ObjectId, Operation, Outcome, Rejection, StreamId, Value};

impl State {
    pub(super) fn commit(&mut self, node: NodeId, now_ms: i64, request: &CommitRequest) -> Outcome {
        self.check_not_committed(request)?;
        let data_ms = self.oldest_data(now_ms, &request.compacted)?;
        let ends = self.check_commit(request)?;

        for &object in &request.compacted {
            self.remove_stream_set(object);
            self.mark_destroyed(object, Operation::Delete);
        }
        for (stream, end_offset) in ends {
            if let Some(row) = self.streams.get(&stream).copied() {
                self.streams.insert(stream, StreamRow { end_offset, ..row });
            }
        }
        if request.object != NOOP {
            self.end_reservation(request.object);
            self.insert_stream_set(request.object, stream_set(node, now_ms, data_ms, request));
        }
        for object in &request.stream_objects {
            self.end_reservation(object.object);
            let (key, object) = stream_object(now_ms, data_ms, object);
            self.insert_stream_object(key, object);
        }
        // Whatever was accepted and is not empty changed something: a new
        // object, or one less.
        let empty = request.object == NOOP
            && request.stream_objects.is_empty()
            && request.compacted.is_empty();
        Ok(changed_if(!empty, Value::Unit))
    }

    fn check_not_committed(&self, request: &CommitRequest) -> Result<(), Rejection> {
        let done = if request.object != NOOP {
            self.stream_sets.contains_key(&request.object)
        } else {
            !request.stream_objects.is_empty()
                && request
                    .stream_objects
                    .iter()
                    .all(|object| self.is_object_of(object.object, object.stream))
        };
        if done {
            Err(Rejection::Redundant)
        } else {
            Ok(())
        }
    }

    /// Whether the object is a live stream object of the stream.
    pub(super) fn is_object_of(&self, object: ObjectId, stream: StreamId) -> bool {
        self.stream_object_ids
            .get(&object)
            .is_some_and(|&(of, _)| of == stream)
    }

    fn oldest_data(&self, now_ms: i64, compacted: &[ObjectId]) -> Result<i64, Rejection> {
        compacted
            .iter()
            .try_fold(now_ms, |oldest, id| match self.stream_sets.get(id) {
                Some(object) => Ok(oldest.min(object.data_ms)),
                None => unexpected("a compacted object is no stream-set object"),
            })
    }

    /// All further checks, in order. Answers the end offsets that the request
    /// moves streams to.
    fn check_commit(&self, request: &CommitRequest) -> Result<BTreeMap<StreamId, u64>, Rejection> {
        let compacted: BTreeSet<ObjectId> = request.compacted.iter().copied().collect();
        let mut ends = Ends {
            state: self,
            moved: BTreeMap::new(),
            compact: !compacted.is_empty(),
        };
        let mut added: BTreeMap<ObjectId, (StreamId, u64)> = BTreeMap::new();
        if request.object != NOOP {
            if self.stream_object_ids.contains_key(&request.object) {
                return unexpected("the object is a stream object already");
            }
            for range in &request.ranges {
                ends.advance(range.stream, range.start_offset, range.end_offset)?;
            }
        }
        for object in &request.stream_objects {
            let id = object.object;
            let stream_set = if request.object != NOOP && id == request.object {
                true
            } else {
                self.stream_sets.contains_key(&id) && !compacted.contains(&id)
            };
            if stream_set {
                return unexpected("a stream object is a stream-set object already");
            }
            let place = (object.stream, object.start_offset);
            let known = added
                .insert(id, place)
                .or_else(|| self.stream_object_ids.get(&id).copied());
            if known.is_some_and(|known| known != place) {
                return unexpected("a stream object stands at another place already");
            }
            ends.advance(object.stream, object.start_offset, object.end_offset)?;
        }
        Ok(ends.moved)
    }
}

/// The streams' end offsets as the request moves them.
struct Ends<'a> {
    state: &'a State,
    moved: BTreeMap<StreamId, u64>,
    /// Compacted data is in its streams already: no offset moves.
    compact: bool,
}

impl Ends<'_> {
    fn advance(&mut self, stream: StreamId, start: u64, end: u64) -> Result<(), Rejection> {
        let row = self.state.existing_stream(stream)?;
        if self.compact {
            return check_within(row, start, end);
        }
        if self.moved.get(&stream).copied().unwrap_or(row.end_offset) != start {
            return unexpected("a range does not begin at its stream's end offset");
        }
        self.moved.insert(stream, end);
        Ok(())
    }
}

/// Compacted data must lie within what its stream holds.
pub(super) fn check_within(row: StreamRow, start: u64, end: u64) -> Result<(), Rejection> {
    if row.end_offset < end {
        return unexpected("a range ends above its stream's end offset");
    }
    if row.start_offset > start {
        return unexpected("a range begins below its stream's start offset");
    }
    Ok(())
}

fn stream_set(node: NodeId, now_ms: i64, data_ms: i64, request: &CommitRequest) -> StreamSetObject {
    StreamSetObject {
        ranges: request
            .ranges
            .iter()
            .map(|range| Range {
                stream: range.stream,
                start_offset: range.start_offset,
                end_offset: range.end_offset,
            })
            .collect(),
        size: request.object_size,
        committed_ms: now_ms,
        data_ms,
        node,
        attributes: request.attributes,
        kind: ObjectKind::StreamSet,
    }
}

fn stream_object(
    now_ms: i64,
    data_ms: i64,
    object: &CommitStreamObject,
) -> (StreamObjectKey, StreamObject) {
    let key = StreamObjectKey {
        stream: object.stream,
        start_offset: object.start_offset,
        object: object.object,
    };
    let row = StreamObject {
        end_offset: object.end_offset,
        size: object.object_size,
        committed_ms: now_ms,
        data_ms,
        attributes: object.attributes,
        kind: ObjectKind::Stream,
    };
    (key, row)
}
