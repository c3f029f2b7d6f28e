//! Pages over a view: the interface `state`.

use aedile_engine::wit;
use aedile_state::{
    NodeId, ObjectId, ObjectKind, ObjectRef, Operation, State, Stream, StreamId, StreamState,
    is_composite,
};

pub(super) fn sizes(state: &State) -> wit::Counts {
    let counts = state.counts();
    wit::Counts {
        streams: counts.streams as u64,
        nodes: counts.nodes as u64,
        objects: counts.live_objects() as u64,
        reservations: counts.reservations as u64,
        destroyed: counts.marks as u64,
        kv: counts.keys as u64,
    }
}

pub(super) fn lapsed(state: &State, now: i64, limit: usize) -> Vec<wit::Reservation> {
    state
        .lapsed(now)
        .take(limit)
        .map(|(deadline, id)| wit::Reservation { id: id.0, deadline })
        .collect()
}

/// The destroyed queue without what is left out. It walks on until it has
/// something: only an empty page is the last.
pub(super) fn destroyed(
    state: &State,
    after: Option<u64>,
    limit: usize,
    leaves_out: impl Fn(ObjectId) -> bool,
) -> Vec<wit::Mark> {
    state
        .marks_after(after)
        .filter(|&(_, id, _)| !leaves_out(id))
        .take(limit)
        .map(|(seq, id, operation)| wit::Mark {
            seq,
            id: id.0,
            operation: match operation {
                Operation::Delete => wit::Operation::Delete,
                Operation::KeepData => wit::Operation::KeepData,
                Operation::DeepDelete => wit::Operation::DeepDelete,
            },
        })
        .collect()
}

pub(super) fn objects(state: &State, after: Option<u64>, limit: usize) -> Vec<wit::Object> {
    state
        .objects_after(after.map(ObjectId))
        .take(limit)
        .map(record)
        .collect()
}

pub(super) fn object_ids(state: &State, after: Option<u64>, limit: usize) -> Vec<u64> {
    state
        .live_after(after.map(ObjectId))
        .take(limit)
        .map(|id| id.0)
        .collect()
}

pub(super) fn object(state: &State, id: u64) -> Option<wit::Object> {
    state.object(ObjectId(id)).map(record)
}

fn record(object: ObjectRef) -> wit::Object {
    wit::Object {
        id: object.id.0,
        kind: match object.kind {
            ObjectKind::StreamSet => wit::ObjectKind::StreamSet,
            ObjectKind::Stream => wit::ObjectKind::Stream,
        },
        size: object.size,
        composite: is_composite(object.attributes),
        committed: object.committed_ms,
        data: object.data_ms,
    }
}

pub(super) fn stream_objects(
    state: &State,
    id: u64,
    after: Option<wit::StreamCursor>,
    limit: usize,
) -> Vec<wit::StreamObject> {
    let after = after.map(|cursor| (cursor.start_offset, ObjectId(cursor.id)));
    state
        .stream_objects_after(StreamId(id), after)
        .filter_map(|object| {
            let range = *object.ranges.first()?;
            Some(wit::StreamObject {
                id: object.id.0,
                start_offset: range.start_offset,
                end_offset: range.end_offset,
                size: object.size,
                committed: object.committed_ms,
            })
        })
        .take(limit)
        .collect()
}

pub(super) fn streams(state: &State, after: Option<u64>, limit: usize) -> Vec<wit::Stream> {
    state
        .streams_after(after.map(StreamId))
        .take(limit)
        .map(row)
        .collect()
}

pub(super) fn stream(state: &State, id: u64) -> Option<wit::Stream> {
    state.stream(StreamId(id)).map(row)
}

fn row(stream: Stream) -> wit::Stream {
    wit::Stream {
        id: stream.id.0,
        epoch: stream.epoch,
        start_offset: stream.start_offset,
        end_offset: stream.end_offset,
        opened: stream.state == StreamState::Opened,
        node: stream.node.0,
    }
}

pub(super) fn nodes(state: &State, after: Option<i32>, limit: usize) -> Vec<wit::Node> {
    state
        .nodes_after(after.map(NodeId))
        .take(limit)
        .map(|(id, node)| wit::Node {
            id: id.0,
            epoch: node.epoch,
            http_address: node.http_address.to_string(),
            slots: node.slots,
        })
        .collect()
}

pub(super) fn kv_scan(
    state: &State,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
    bytes: usize,
) -> Vec<wit::KvEntry> {
    let mut used = 0;
    state
        .kv_scan(prefix, after)
        .take(limit)
        .take_while(|(key, value)| within(&mut used, key.len() + value.len(), bytes))
        .map(|(key, value)| wit::KvEntry {
            key: key.to_owned(),
            value: value.to_vec(),
        })
        .collect()
}

pub(super) fn kv_keys(
    state: &State,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
    bytes: usize,
) -> Vec<String> {
    let mut used = 0;
    state
        .kv_scan(prefix, after)
        .take(limit)
        .take_while(|(key, _)| within(&mut used, key.len(), bytes))
        .map(|(key, _)| key.to_owned())
        .collect()
}

/// Whether an entry still fits; the first always does.
fn within(used: &mut usize, size: usize, bytes: usize) -> bool {
    let fits = *used == 0 || used.saturating_add(size) <= bytes;
    // Even an empty entry takes its place in a page.
    *used = used.saturating_add(size.max(1));
    fits
}
