//! Bytes to a state. Nothing is allocated for more entries than there are
//! bytes for.

use std::sync::Arc;

use crate::codec::{DecodeError, Reader};
use crate::records::{Node, ObjectKind, Range, StreamState};
use crate::state::{State, StreamObject, StreamObjectKey, StreamRow, StreamSetObject};
use crate::{NEVER_OPENED, NodeId, ObjectId, Operation, StreamId};

pub(super) fn decode(payload: &[u8]) -> Result<State, DecodeError> {
    let mut reader = Reader::new(payload);
    let mut state = State::new();
    reader.version()?;
    streams(&mut reader, &mut state)?;
    nodes(&mut reader, &mut state)?;
    reservations(&mut reader, &mut state)?;
    stream_sets(&mut reader, &mut state)?;
    stream_objects(&mut reader, &mut state)?;
    marks(&mut reader, &mut state)?;
    keys(&mut reader, &mut state)?;
    transfers(&mut reader, &mut state)?;
    reader.end()?;
    state.account_all();
    Ok(state)
}

/// Reads a section's entry count and refuses one that its bytes cannot hold.
fn count(reader: &mut Reader<'_>, smallest: usize) -> Result<usize, DecodeError> {
    let declared = reader.u64("entry count cut short")?;
    reader.count(declared, smallest, "more entries declared than there are")
}

fn out_of_range<T>(at: usize, what: &'static str) -> Result<T, DecodeError> {
    Err(DecodeError::Corrupt { at, what })
}

fn streams(reader: &mut Reader<'_>, state: &mut State) -> Result<(), DecodeError> {
    state.next_stream_id = reader.u64("next stream id cut short")?;
    for _ in 0..count(reader, 37)? {
        let id = StreamId(reader.u64("stream id cut short")?);
        let epoch = reader.i64("stream epoch cut short")?;
        let start_offset = reader.u64("start offset cut short")?;
        let end_offset = reader.u64("end offset cut short")?;
        let at = reader.position();
        let stream_state = match reader.u8("stream state cut short")? {
            0 => StreamState::Closed,
            1 => StreamState::Opened,
            _ => return out_of_range(at, "no such stream state"),
        };
        let node = NodeId(reader.i32("node id cut short")?);
        match stream_state {
            StreamState::Opened => {
                state.opened.insert(node, id);
            }
            StreamState::Closed if epoch == NEVER_OPENED && node != NodeId::NONE => {
                state.placed.insert(node, id);
            }
            StreamState::Closed => {}
        }
        let row = StreamRow {
            epoch,
            start_offset,
            end_offset,
            state: stream_state,
            node,
        };
        state.streams.insert(id, row);
    }
    Ok(())
}

fn nodes(reader: &mut Reader<'_>, state: &mut State) -> Result<(), DecodeError> {
    for _ in 0..count(reader, 20)? {
        let id = NodeId(reader.i32("node id cut short")?);
        let epoch = reader.i64("node epoch cut short")?;
        let http_address = Arc::from(reader.text("address cut short or not UTF-8")?);
        let slots = reader.u32("slots cut short")?;
        state.nodes.insert(
            id,
            Node {
                epoch,
                http_address,
                slots,
            },
        );
    }
    Ok(())
}

fn reservations(reader: &mut Reader<'_>, state: &mut State) -> Result<(), DecodeError> {
    state.next_object_id = reader.u64("next object id cut short")?;
    for _ in 0..count(reader, 16)? {
        let id = ObjectId(reader.u64("object id cut short")?);
        let deadline = reader.i64("deadline cut short")?;
        state.prepared.insert(id, deadline);
        state.prepared_by_deadline.insert((deadline, id));
    }
    Ok(())
}

/// An object up to its ranges.
struct Object {
    id: ObjectId,
    kind: ObjectKind,
    size: u64,
    attributes: u32,
    committed_ms: i64,
    data_ms: i64,
}

fn object(reader: &mut Reader<'_>) -> Result<Object, DecodeError> {
    let id = ObjectId(reader.u64("object id cut short")?);
    let at = reader.position();
    let kind = match reader.u8("object type cut short")? {
        0 => ObjectKind::StreamSet,
        1 => ObjectKind::Stream,
        _ => return out_of_range(at, "no such object type"),
    };
    Ok(Object {
        id,
        kind,
        size: reader.u64("object size cut short")?,
        attributes: reader.u32("attributes cut short")?,
        committed_ms: reader.i64("commit time cut short")?,
        data_ms: reader.i64("data time cut short")?,
    })
}

fn range(reader: &mut Reader<'_>) -> Result<Range, DecodeError> {
    Ok(Range {
        stream: StreamId(reader.u64("stream id cut short")?),
        start_offset: reader.u64("start offset cut short")?,
        end_offset: reader.u64("end offset cut short")?,
    })
}

fn stream_sets(reader: &mut Reader<'_>, state: &mut State) -> Result<(), DecodeError> {
    for _ in 0..count(reader, 45)? {
        let node = NodeId(reader.i32("node id cut short")?);
        let object = object(reader)?;
        let declared = reader.u32("range count cut short")?;
        let count = reader.count(declared.into(), 24, "more ranges declared than there are")?;
        let mut ranges = Vec::with_capacity(count);
        for _ in 0..count {
            ranges.push(range(reader)?);
        }
        let row = StreamSetObject {
            ranges: ranges.into(),
            size: object.size,
            committed_ms: object.committed_ms,
            data_ms: object.data_ms,
            node,
            attributes: object.attributes,
            kind: object.kind,
        };
        state.stream_sets.insert(object.id, row);
    }
    Ok(())
}

fn stream_objects(reader: &mut Reader<'_>, state: &mut State) -> Result<(), DecodeError> {
    let count = count(reader, 65)?;
    let mut keys = Vec::with_capacity(count);
    for _ in 0..count {
        let object = object(reader)?;
        let at = reader.position();
        if reader.u32("range count cut short")? != 1 {
            return out_of_range(at, "a stream object has exactly one range");
        }
        let range = range(reader)?;
        let key = StreamObjectKey {
            stream: range.stream,
            start_offset: range.start_offset,
            object: object.id,
        };
        let row = StreamObject {
            end_offset: range.end_offset,
            size: object.size,
            committed_ms: object.committed_ms,
            data_ms: object.data_ms,
            attributes: object.attributes,
            kind: object.kind,
        };
        state.stream_objects.insert(key, row);
        keys.push(key);
    }
    // In the order of ids, the index grows at its end, which is much faster
    // than in the order of streams. The sort is stable: of two objects with one id,
    // the index names the later.
    keys.sort_by_key(|key| key.object);
    for key in keys {
        state
            .stream_object_ids
            .insert(key.object, (key.stream, key.start_offset));
    }
    Ok(())
}

fn marks(reader: &mut Reader<'_>, state: &mut State) -> Result<(), DecodeError> {
    for _ in 0..count(reader, 17)? {
        let seq = reader.u64("place in the queue cut short")?;
        let object = ObjectId(reader.u64("object id cut short")?);
        let at = reader.position();
        let code = reader.u8("operation cut short")?;
        let Some(operation) = Operation::from_code(code) else {
            return out_of_range(at, "no such operation");
        };
        state.marks.insert(seq, (object, operation));
        state.marked.insert(object, seq);
    }
    state.next_destroyed_seq = reader.u64("next place in the queue cut short")?;
    Ok(())
}

fn keys(reader: &mut Reader<'_>, state: &mut State) -> Result<(), DecodeError> {
    for _ in 0..count(reader, 8)? {
        let key = reader.text("key cut short or not UTF-8")?;
        let value = reader.blob("value cut short")?;
        state.kv.insert(Arc::from(key), Arc::from(value));
    }
    Ok(())
}

fn transfers(reader: &mut Reader<'_>, state: &mut State) -> Result<(), DecodeError> {
    for _ in 0..count(reader, 16)? {
        let stream = StreamId(reader.u64("stream id cut short")?);
        let from = NodeId(reader.i32("node id cut short")?);
        let to = NodeId(reader.i32("node id cut short")?);
        state.transfers.insert(stream, (from, to));
    }
    Ok(())
}
