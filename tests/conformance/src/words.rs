//! Commands, answers and states in the words that the captures use.

use std::collections::BTreeMap;

use aedile_state::{
    Command, ObjectKind, ObjectRef, Outcome, Range, State, StreamState, Value as Answer,
};
use serde_json::{Map, Value, json};

use crate::report::Report;

/// A command as the captures print it.
pub fn command(command: &Command) -> Value {
    let mut fields = fields(command);
    fields["name"] = json!(command.name());
    fields
}

fn fields(command: &Command) -> Value {
    match command {
        Command::CreateStream { node, node_epoch } => {
            json!({"type": 1, "node_id": node.0, "node_epoch": node_epoch})
        }
        Command::OpenStream {
            node,
            node_epoch,
            stream,
            epoch,
        } => json!({
            "type": 2, "node_id": node.0, "node_epoch": node_epoch,
            "stream_id": stream.0, "epoch": epoch,
        }),
        Command::TrimStream {
            node,
            node_epoch,
            stream,
            epoch,
            new_start_offset,
        } => json!({
            "type": 3, "node_id": node.0, "node_epoch": node_epoch,
            "stream_id": stream.0, "epoch": epoch, "new_start_offset": new_start_offset,
        }),
        Command::CloseStream {
            node,
            node_epoch,
            stream,
            epoch,
        } => json!({
            "type": 4, "node_id": node.0, "node_epoch": node_epoch,
            "stream_id": stream.0, "epoch": epoch,
        }),
        Command::DeleteStream {
            node,
            node_epoch,
            stream,
            epoch,
        } => json!({
            "type": 5, "node_id": node.0, "node_epoch": node_epoch,
            "stream_id": stream.0, "epoch": epoch,
        }),
        Command::PrepareObject {
            node,
            node_epoch,
            count,
            ttl_ms,
            now_ms,
        } => json!({
            "type": 6, "node_id": node.0, "node_epoch": node_epoch,
            "count": count, "ttl_ms": ttl_ms, "now_ms": now_ms,
        }),
        Command::CommitStreamSetObject {
            node,
            node_epoch,
            now_ms,
            request,
        } => json!({
            "type": 7, "node_id": node.0, "node_epoch": node_epoch, "now_ms": now_ms,
            "object_id": request.object.0, "object_size": request.object_size,
            "attributes": request.attributes,
            "stream_ranges": request.ranges.iter().map(|range| json!({
                "stream_id": range.stream.0, "epoch": range.epoch,
                "start_offset": range.start_offset, "end_offset": range.end_offset,
                "size": range.size,
            })).collect::<Vec<_>>(),
            "stream_objects": request.stream_objects.iter().map(|object| json!({
                "object_id": object.object.0, "object_size": object.object_size,
                "stream_id": object.stream.0, "start_offset": object.start_offset,
                "end_offset": object.end_offset, "attributes": object.attributes,
            })).collect::<Vec<_>>(),
            "compacted_object_ids": ids(&request.compacted),
        }),
        Command::CompactStreamObject {
            node,
            node_epoch,
            now_ms,
            request,
        } => json!({
            "type": 8, "node_id": node.0, "node_epoch": node_epoch, "now_ms": now_ms,
            "object_id": request.object.0, "object_size": request.object_size,
            "stream_id": request.stream.0, "stream_epoch": request.stream_epoch,
            "start_offset": request.start_offset, "end_offset": request.end_offset,
            "attributes": request.attributes, "source_object_ids": ids(&request.sources),
            "operations":
                request.operations.iter().map(|operation| operation.name()).collect::<Vec<_>>(),
        }),
        Command::ExpirePreparedObjects { now_ms } => json!({"type": 9, "now_ms": now_ms}),
        Command::RegisterNode {
            node,
            node_epoch,
            http_address,
            slots,
        } => json!({
            "type": 10, "node_id": node.0, "node_epoch": node_epoch,
            "http_address": http_address, "slots": slots,
        }),
        Command::CleanDestroyedObjects { objects } => {
            json!({"type": 11, "object_ids": ids(objects)})
        }
        Command::PutKv { key, value } => {
            json!({"type": 12, "key": key, "value_hex": hex::encode(value)})
        }
        Command::PutKvIfAbsent { key, value } => {
            json!({"type": 13, "key": key, "value_hex": hex::encode(value)})
        }
        Command::DeleteKv { key } => json!({"type": 14, "key": key}),
        Command::TransferStream { stream, from, to } => {
            json!({"type": 15, "stream_id": stream.0, "from_node": from.0, "to_node": to.0})
        }
        Command::CompleteTransfer { stream, epoch } => {
            json!({"type": 16, "stream_id": stream.0, "epoch": epoch})
        }
        Command::CreateStreams {
            node,
            node_epoch,
            count,
        } => {
            json!({"type": 17, "node_id": node.0, "node_epoch": node_epoch, "count": count})
        }
        Command::PlaceStream { stream } => json!({"type": 18, "stream_id": stream.0}),
    }
}

fn ids(objects: &[aedile_state::ObjectId]) -> Vec<u64> {
    objects.iter().map(|object| object.0).collect()
}

/// An answer as the captures print it.
pub fn outcome(outcome: &Outcome) -> Value {
    use aedile_state::Rejection;
    match outcome {
        Ok(applied) => match &applied.value {
            Answer::Unit => json!({"ok": "Unit"}),
            Answer::Id(id) => json!({"ok": "Id", "v": id}),
            Answer::Count(count) => json!({"ok": "Count", "v": count}),
            Answer::Stream(stream) => json!({
                "ok": "Stream", "stream_id": stream.id.0, "epoch": stream.epoch,
                "start_offset": stream.start_offset, "end_offset": stream.end_offset,
                "state": stream_state(stream.state), "node_id": stream.node.0,
            }),
            Answer::Bytes(bytes) => json!({"ok": "Value", "hex": bytes.as_ref().map(hex::encode)}),
        },
        Err(rejection) => {
            let mut fields = match rejection {
                Rejection::StreamNotExist { stream } => {
                    json!({"err": "StreamNotExist", "stream_id": stream.0})
                }
                Rejection::StreamNotClosed { stream } => {
                    json!({"err": "StreamNotClosed", "stream_id": stream.0})
                }
                Rejection::StreamFenced { stream, epoch } => {
                    json!({"err": "StreamFenced", "stream_id": stream.0, "epoch": epoch})
                }
                Rejection::ExpiredEpoch { stream, epoch } => {
                    json!({"err": "ExpiredEpoch", "stream_id": stream.0, "epoch": epoch})
                }
                Rejection::NodeEpochMismatch { node } => {
                    json!({"err": "NodeEpochMismatch", "node_id": node.0})
                }
                Rejection::Redundant => json!({"err": "Redundant"}),
                Rejection::Unexpected { .. } => json!({"err": "Unexpected"}),
                other => json!({"err": format!("{other:?}")}),
            };
            fields["code"] = json!(rejection.code());
            fields
        }
    }
}

fn stream_state(state: StreamState) -> &'static str {
    match state {
        StreamState::Closed => "Closed",
        StreamState::Opened => "Opened",
    }
}

fn ranges(object: &ObjectRef) -> Vec<Value> {
    object
        .ranges
        .iter()
        .map(|r| json!([r.stream.0, r.start_offset, r.end_offset]))
        .collect()
}

fn object(object: &ObjectRef) -> Value {
    json!({
        "object_id": object.id.0,
        "object_type": match object.kind {
            ObjectKind::StreamSet => "StreamSet",
            ObjectKind::Stream => "Stream",
        },
        "object_size": object.size, "attributes": object.attributes,
        "committed_timestamp_ms": object.committed_ms, "data_timestamp_ms": object.data_ms,
        "offset_ranges": ranges(object),
    })
}

/// Where a stream object stands in PicoMQ's order.
fn place(object: &ObjectRef) -> (u64, u64, u64) {
    let &[
        Range {
            stream,
            start_offset,
            ..
        },
    ] = object.ranges.as_slice()
    else {
        panic!("stream object {} has not one range", object.id);
    };
    (stream.0, start_offset, object.id.0)
}

/// A state as the captures print it, all fields that any of them states.
pub fn state(state: &State, applied_index: u64) -> Map<String, Value> {
    let snapshot = state.encode_snapshot();
    let (sets, mut streams): (Vec<ObjectRef>, Vec<ObjectRef>) = state
        .objects_after(None)
        .partition(|object| object.kind == ObjectKind::StreamSet);
    let by_id: Vec<Value> = streams
        .iter()
        .map(|object| {
            let (stream, start, id) = place(object);
            json!([id, stream, start, id])
        })
        .collect();
    streams.sort_by_key(place);

    let mut set_ranges = BTreeMap::new();
    let mut by_node = Vec::new();
    for set in &sets {
        by_node.push((
            set.node.expect("a stream-set object has a node").0,
            set.id.0,
        ));
        for range in set.ranges.iter() {
            set_ranges.insert(
                (range.stream.0, range.start_offset, set.id.0),
                range.end_offset,
            );
        }
    }
    by_node.sort_unstable();
    let set_ranges: Vec<Value> = set_ranges
        .iter()
        .map(|((stream, start, id), end)| json!([stream, start, id, end]))
        .collect();
    let pairs = |mut pairs: Vec<(i32, u64)>| {
        pairs.sort_unstable();
        json!(pairs)
    };
    let mut marked: Vec<(u64, u64)> = state
        .marks_after(None)
        .map(|(seq, object, _)| (object.0, seq))
        .collect();
    marked.sort_unstable();

    let fields = json!({
        "applied_index": applied_index,
        "snapshot_len": snapshot.len(),
        "snapshot_sha256": sha256(&snapshot),
        "next_stream_id": state.next_stream_id().0,
        "next_object_id": state.next_object_id().0,
        "next_destroyed_seq": state.next_mark_seq(),
        "streams": state.streams_after(None).map(|stream| json!({
            "stream_id": stream.id.0, "epoch": stream.epoch,
            "start_offset": stream.start_offset, "end_offset": stream.end_offset,
            "state": stream_state(stream.state), "node_id": stream.node.0,
        })).collect::<Vec<_>>(),
        "nodes": state.nodes_after(None).map(|(id, node)| json!({
            "node_id": id.0, "epoch": node.epoch, "http_address": &*node.http_address,
            "slots": node.slots,
        })).collect::<Vec<_>>(),
        "opening_by_node":
            pairs(state.opened_streams().map(|(node, stream)| (node.0, stream.0)).collect()),
        "placed_by_node":
            pairs(state.placed_streams().map(|(node, stream)| (node.0, stream.0)).collect()),
        "pending_transfers": state.transfers().map(|(stream, from, to)| json!({
            "stream_id": stream.0, "from_node": from.0, "to_node": to.0,
        })).collect::<Vec<_>>(),
        "prepared":
            state.reservations_after(None).map(|(id, deadline)| (id.0, deadline)).collect::<Vec<_>>(),
        "prepared_by_deadline":
            state.lapsed(i64::MAX).map(|(deadline, id)| (deadline, id.0)).collect::<Vec<_>>(),
        "stream_set_objects": sets.iter().map(|set| json!({
            "node_id": set.node.map(|node| node.0), "object": object(set),
        })).collect::<Vec<_>>(),
        "sso_ranges": set_ranges,
        "sso_by_node": by_node,
        "stream_objects": streams.iter().map(object).collect::<Vec<_>>(),
        "stream_object_ids": by_id,
        "mark_destroyed": marks(state),
        "destroyed_by_id": marked,
        "kv": state.kv_scan("", None).map(|(key, value)| json!({
            "key": key, "value_hex": hex::encode(value),
        })).collect::<Vec<_>>(),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => unreachable!("built as an object above"),
    }
}

/// The destroyed queue as the captures print it.
pub fn marks(state: &State) -> Value {
    state
        .marks_after(None)
        .map(|(seq, object, operation)| {
            json!({"seq": seq, "object_id": object.0, "op": operation.name()})
        })
        .collect()
}

/// SHA-256 in lower-case hex.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    hex::encode(sha2::Sha256::digest(bytes))
}

/// Compares the fields that a stated object has with ours. One that we do not
/// know is a failure: it would pass unchecked.
pub fn same_fields(
    what: &str,
    ours: &Map<String, Value>,
    stated: &Map<String, Value>,
    report: &mut Report,
) {
    for (key, stated) in stated {
        match ours.get(key) {
            Some(ours) => {
                report.fields += 1;
                report.same(format!("{what}: {key}"), ours, stated);
            }
            None => report.fail(format!("{what}: no field {key} is known")),
        }
    }
}

/// Compares the answers of one row with the stated ones.
pub fn same_answers(what: &str, ours: &[Outcome], stated: &Value, report: &mut Report) {
    let Some(stated) = stated.as_array() else {
        return report.fail(format!("{what}: its answers are no list"));
    };
    report.same(
        format!("{what}: number of answers"),
        &ours.len(),
        &stated.len(),
    );
    for (at, (ours, stated)) in ours.iter().zip(stated).enumerate() {
        report.answers += 1;
        let mut stated = stated.clone();
        // A text for people, if there is one, is not part of the answer.
        if let Some(fields) = stated.as_object_mut() {
            fields.remove("message");
        }
        report.same(
            format!("{what}, command {at}: answer"),
            &outcome(ours),
            &stated,
        );
    }
}

/// Compares decoded commands with their stated form.
pub fn same_commands(what: &str, ours: &[Command], stated: &Value, report: &mut Report) {
    report.decoded += ours.len();
    let ours = Value::Array(ours.iter().map(command).collect());
    report.same(format!("{what}: commands"), &ours, stated);
}
