//! The state as a plugin sees it.

use aedile_clock::UnixMillis;
use aedile_engine::wit::{
    Counts, KvEntry, Mark, Node, Object, ObjectKind, Operation, Reservation, Stream, StreamCursor,
    StreamObject,
};
use aedile_state::{NodeId, ObjectId, ObjectRef, State, StreamId, StreamState, is_composite};

pub(super) fn sizes(state: &State) -> Counts {
    let counts = state.counts();
    Counts {
        streams: counts.streams as u64,
        nodes: counts.nodes as u64,
        objects: counts.live_objects() as u64,
        reservations: counts.reservations as u64,
        destroyed: counts.marks as u64,
        kv: counts.keys as u64,
    }
}

pub(super) fn lapsed(
    state: &State,
    now: UnixMillis,
    limit: usize,
) -> impl Iterator<Item = Reservation> + '_ {
    state
        .lapsed(now.0)
        .take(limit)
        .map(|(deadline, id)| Reservation { id: id.0, deadline })
}

pub(super) fn mark((seq, id, operation): (u64, ObjectId, aedile_state::Operation)) -> Mark {
    Mark {
        seq,
        id: id.0,
        operation: match operation {
            aedile_state::Operation::Delete => Operation::Delete,
            aedile_state::Operation::KeepData => Operation::KeepData,
            aedile_state::Operation::DeepDelete => Operation::DeepDelete,
        },
    }
}

fn object(found: ObjectRef) -> Object {
    Object {
        id: found.id.0,
        kind: match found.kind {
            aedile_state::ObjectKind::StreamSet => ObjectKind::StreamSet,
            aedile_state::ObjectKind::Stream => ObjectKind::Stream,
        },
        size: found.size,
        composite: is_composite(found.attributes),
        committed: found.committed_ms,
        data: found.data_ms,
    }
}

pub(super) fn objects(state: &State, after: Option<u64>) -> impl Iterator<Item = Object> + '_ {
    state.objects_after(after.map(ObjectId)).map(object)
}

pub(super) fn object_ids(state: &State, after: Option<u64>) -> impl Iterator<Item = u64> + '_ {
    state.live_after(after.map(ObjectId)).map(|id| id.0)
}

pub(super) fn get_object(state: &State, id: u64) -> Option<Object> {
    state.object(ObjectId(id)).map(object)
}

pub(super) fn stream_objects(
    state: &State,
    id: u64,
    after: Option<StreamCursor>,
    limit: usize,
) -> Vec<StreamObject> {
    let after = after.map(|cursor| (cursor.start_offset, ObjectId(cursor.id)));
    state
        .stream_objects_after(StreamId(id), after)
        .take(limit)
        .filter_map(|found| {
            let range = found.ranges.first()?;
            Some(StreamObject {
                id: found.id.0,
                start_offset: range.start_offset,
                end_offset: range.end_offset,
                size: found.size,
                committed: found.committed_ms,
            })
        })
        .collect()
}

fn stream(found: aedile_state::Stream) -> Stream {
    Stream {
        id: found.id.0,
        epoch: found.epoch,
        start_offset: found.start_offset,
        end_offset: found.end_offset,
        opened: found.state == StreamState::Opened,
        node: found.node.0,
    }
}

pub(super) fn streams(state: &State, after: Option<u64>) -> impl Iterator<Item = Stream> + '_ {
    state.streams_after(after.map(StreamId)).map(stream)
}

pub(super) fn get_stream(state: &State, id: u64) -> Option<Stream> {
    state.stream(StreamId(id)).map(stream)
}

pub(super) fn nodes(state: &State, after: Option<i32>) -> impl Iterator<Item = Node> + '_ {
    state
        .nodes_after(after.map(NodeId))
        .map(|(id, found)| Node {
            id: id.0,
            epoch: found.epoch,
            http_address: found.http_address.to_string(),
            slots: found.slots,
        })
}

pub(super) fn kv_scan(
    state: &State,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
    bytes: usize,
) -> Vec<KvEntry> {
    let mut page = Vec::new();
    let mut size = 0;
    for (key, value) in state.kv_scan(prefix, after).take(limit) {
        size += key.len() + value.len();
        if !page.is_empty() && size > bytes {
            break;
        }
        page.push(KvEntry {
            key: key.to_owned(),
            value: value.to_vec(),
        });
    }
    page
}

pub(super) fn kv_keys(
    state: &State,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
    bytes: usize,
) -> Vec<String> {
    let mut page = Vec::new();
    let mut size = 0;
    for (key, _) in state.kv_scan(prefix, after).take(limit) {
        size += key.len();
        if !page.is_empty() && size > bytes {
            break;
        }
        page.push(key.to_owned());
    }
    page
}
