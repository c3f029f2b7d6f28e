//! The other way to be atomic: change a copy step by step, in the order in
//! which PicoMQ does, and drop it on an error. Commits and compactions, which
//! check everything first, must answer and end the same.

use proptest::prelude::*;

use super::generate::sequence;
use super::*;
use crate::Operation;
use crate::records::{ObjectKind, Range};
use crate::state::{StreamObject, StreamObjectKey, StreamSetObject};

type Step = Result<(), u32>;

/// A copy of the state that is changed as a request goes along.
struct Steps {
    state: State,
    now_ms: i64,
    data_ms: i64,
}

impl Steps {
    fn free(&self, id: ObjectId, place: Option<(StreamId, u64)>) -> Step {
        if self.state.stream_sets.contains_key(&id) {
            return Err(99);
        }
        match self.state.stream_object_ids.get(&id) {
            Some(known) if place != Some(*known) => Err(99),
            _ => Ok(()),
        }
    }

    fn release(&mut self, id: ObjectId) {
        if let Some(deadline) = self.state.prepared.remove(&id) {
            self.state.prepared_by_deadline.remove(&(deadline, id));
        }
    }

    fn advance(&mut self, stream: StreamId, start: u64, end: u64, compact: bool) -> Step {
        let row = self.state.streams.get_mut(&stream).ok_or(1_u32)?;
        if compact {
            return if row.end_offset < end || row.start_offset > start {
                Err(99)
            } else {
                Ok(())
            };
        }
        if row.end_offset != start {
            return Err(99);
        }
        row.end_offset = end;
        Ok(())
    }

    fn mark(&mut self, id: ObjectId, operation: Operation) {
        let next = self.state.next_destroyed_seq;
        let seq = *self.state.marked.entry(id).or_insert(next);
        if seq == next {
            self.state.next_destroyed_seq += 1;
        }
        self.state.marks.insert(seq, (id, operation));
    }

    fn insert(&mut self, object: &CommitStreamObject) {
        let &CommitStreamObject {
            object: id,
            stream,
            start_offset,
            ..
        } = object;
        let row = StreamObject {
            end_offset: object.end_offset,
            size: object.object_size,
            committed_ms: self.now_ms,
            data_ms: self.data_ms,
            attributes: object.attributes,
            kind: ObjectKind::Stream,
        };
        self.state.stream_objects.insert(
            StreamObjectKey {
                stream,
                start_offset,
                object: id,
            },
            row,
        );
        self.state
            .stream_object_ids
            .insert(id, (stream, start_offset));
    }

    fn remove_of(&mut self, id: ObjectId, stream: StreamId) {
        if let Some(&(of, start_offset)) = self.state.stream_object_ids.get(&id)
            && of == stream
        {
            self.state.stream_objects.remove(&StreamObjectKey {
                stream,
                start_offset,
                object: id,
            });
            self.state.stream_object_ids.remove(&id);
        }
    }

    fn commit(&mut self, node: NodeId, request: &CommitRequest) -> Step {
        let known = |object: &CommitStreamObject| {
            self.state
                .stream_object_ids
                .get(&object.object)
                .is_some_and(|p| p.0 == object.stream)
        };
        let objects = &request.stream_objects;
        let done = if request.object == NOOP {
            !objects.is_empty() && objects.iter().all(known)
        } else {
            self.state.stream_sets.contains_key(&request.object)
        };
        if done {
            return Err(6);
        }
        for id in &request.compacted {
            self.data_ms = self
                .data_ms
                .min(self.state.stream_sets.get(id).ok_or(99_u32)?.data_ms);
        }
        for &id in &request.compacted {
            self.state.stream_sets.remove(&id);
            self.mark(id, Operation::Delete);
        }
        let compact = !request.compacted.is_empty();
        if request.object != NOOP {
            self.free(request.object, None)?;
            self.release(request.object);
            for range in &request.ranges {
                self.advance(range.stream, range.start_offset, range.end_offset, compact)?;
            }
            self.insert_set(node, request);
        }
        for object in objects {
            self.free(object.object, Some((object.stream, object.start_offset)))?;
            self.release(object.object);
            self.advance(
                object.stream,
                object.start_offset,
                object.end_offset,
                compact,
            )?;
            self.insert(object);
        }
        Ok(())
    }

    fn insert_set(&mut self, node: NodeId, request: &CommitRequest) {
        let ranges = request.ranges.iter().map(|range| Range {
            stream: range.stream,
            start_offset: range.start_offset,
            end_offset: range.end_offset,
        });
        let row = StreamSetObject {
            ranges: ranges.collect(),
            size: request.object_size,
            committed_ms: self.now_ms,
            data_ms: self.data_ms,
            node,
            attributes: request.attributes,
            kind: ObjectKind::StreamSet,
        };
        self.state.stream_sets.insert(request.object, row);
    }

    fn compact(&mut self, request: &CompactRequest) -> Step {
        let &CompactRequest {
            object,
            stream,
            start_offset,
            end_offset,
            ..
        } = request;
        let new = object != NOOP;
        if new
            && self
                .state
                .stream_object_ids
                .get(&object)
                .is_some_and(|p| p.0 == stream)
        {
            return Err(6);
        }
        let row = *self.state.streams.get(&stream).ok_or(1_u32)?;
        if row.epoch != request.stream_epoch as i64 {
            return Err(4);
        }
        self.advance(stream, start_offset, end_offset, true)?;
        if new {
            self.free(object, Some((stream, start_offset)))?;
        }
        self.release(object);
        if new {
            self.insert(&CommitStreamObject {
                object,
                object_size: request.object_size,
                stream,
                start_offset,
                end_offset,
                attributes: request.attributes,
            });
        }
        for &source in &request.sources {
            self.remove_of(source, stream);
        }
        let (sources, operations) = (&request.sources, &request.operations);
        if !sources.is_empty() && !operations.is_empty() && sources.len() != operations.len() {
            return Err(99);
        }
        for (at, &source) in sources.iter().enumerate() {
            self.mark(
                source,
                operations.get(at).copied().unwrap_or(Operation::Delete),
            );
        }
        Ok(())
    }
}

/// The state and answer that steps on a copy give; `None` for other commands.
fn by_steps(state: &State, command: &Command) -> Option<(Step, State)> {
    let (node, node_epoch, now_ms) = match *command {
        Command::CommitStreamSetObject {
            node,
            node_epoch,
            now_ms,
            ..
        }
        | Command::CompactStreamObject {
            node,
            node_epoch,
            now_ms,
            ..
        } => (node, node_epoch, now_ms),
        _ => return None,
    };
    if state
        .node(node)
        .is_none_or(|known| known.epoch != node_epoch)
    {
        return Some((Err(5), state.clone()));
    }
    let mut steps = Steps {
        state: state.clone(),
        now_ms,
        data_ms: now_ms,
    };
    let step = match command {
        Command::CommitStreamSetObject { request, .. } => steps.commit(node, request),
        Command::CompactStreamObject { request, .. } => steps.compact(request),
        _ => return None,
    };
    let after = if step.is_ok() {
        steps.state
    } else {
        state.clone()
    };
    Some((step, after))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn checking_first_equals_changing_a_copy(commands in sequence(60)) {
        let mut state = State::new();
        for command in &commands {
            let expected = by_steps(&state, command);
            let outcome = state.apply(command);
            if let Some((step, after)) = expected {
                let answer = outcome.map(drop).map_err(|rejection| rejection.code());
                prop_assert_eq!(answer, step, "{:?}", command);
                prop_assert_eq!(after.encode_snapshot(), state.encode_snapshot(), "{:?}", command);
                prop_assert_eq!(after.prepared_by_deadline, state.prepared_by_deadline.clone());
                prop_assert_eq!(after.marked, state.marked.clone());
                prop_assert_eq!(after.stream_object_ids, state.stream_object_ids.clone());
            }
        }
    }
}
