//! Replacing stream objects of one stream by a larger one, or by none.

use std::collections::BTreeMap;

use super::commit::check_within;
use super::{changed_if, unexpected};
use crate::command::CompactRequest;
use crate::records::ObjectKind;
use crate::state::{State, StreamObject, StreamObjectKey};
use crate::{NOOP, ObjectId, Operation, Outcome, Rejection, Value};

impl State {
    pub(super) fn compact(&mut self, now_ms: i64, request: &CompactRequest) -> Outcome {
        self.check_compact(request)?;
        let &CompactRequest { object, stream, .. } = request;

        let mut changed = self.end_reservation(object);
        // A new object among its own sources would leave at once.
        if object != NOOP && !request.sources.contains(&object) {
            let key = StreamObjectKey {
                stream,
                start_offset: request.start_offset,
                object,
            };
            self.insert_stream_object(key, new_object(now_ms, request));
            changed = true;
        }
        for source in &request.sources {
            if let Some(&(of, start_offset)) = self.stream_object_ids.get(source)
                && of == stream
            {
                self.remove_stream_object(StreamObjectKey {
                    stream,
                    start_offset,
                    object: *source,
                });
                changed = true;
            }
        }
        changed |= self.mark_sources(&request.sources, &request.operations);
        Ok(changed_if(changed, Value::Unit))
    }

    fn check_compact(&self, request: &CompactRequest) -> Result<(), Rejection> {
        let &CompactRequest { object, stream, .. } = request;
        if object != NOOP && self.is_object_of(object, stream) {
            return Err(Rejection::Redundant);
        }
        let row = self.existing_stream(stream)?;
        let epoch = request.stream_epoch as i64;
        if row.epoch != epoch {
            return Err(Rejection::ExpiredEpoch { stream, epoch });
        }
        check_within(row, request.start_offset, request.end_offset)?;
        if object != NOOP && self.is_live(object) {
            return unexpected("the new object is in the catalog already");
        }
        let (sources, operations) = (request.sources.len(), request.operations.len());
        if sources != 0 && operations != 0 && operations != sources {
            return unexpected("the numbers of sources and operations differ");
        }
        Ok(())
    }

    /// Marks every source, live elsewhere or not. Says whether the queue is
    /// another one afterwards: a source named twice can end as it began.
    fn mark_sources(&mut self, sources: &[ObjectId], operations: &[Operation]) -> bool {
        let operations = operations
            .iter()
            .copied()
            .chain(std::iter::repeat(Operation::Delete));
        let queued = self.next_destroyed_seq;
        let mut before = BTreeMap::new();
        for (&source, operation) in sources.iter().zip(operations) {
            if let Some(known) = self.mark_destroyed(source, operation)
                && known != operation
            {
                before.entry(source).or_insert(known);
            }
        }
        queued != self.next_destroyed_seq
            || before.iter().any(|(&source, &known)| {
                self.mark(source)
                    .is_none_or(|(_, operation)| operation != known)
            })
    }
}

fn new_object(now_ms: i64, request: &CompactRequest) -> StreamObject {
    StreamObject {
        end_offset: request.end_offset,
        size: request.object_size,
        committed_ms: now_ms,
        data_ms: now_ms,
        attributes: request.attributes,
        kind: ObjectKind::Stream,
    }
}
