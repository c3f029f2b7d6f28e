//! A state to bytes.

use crate::ObjectId;
use crate::codec::{VERSION, put_blob, put_len};
use crate::records::{ObjectKind, Range, StreamState};
use crate::state::State;

/// Bytes of an object apart from its ranges.
const OBJECT: usize = 8 + 1 + 8 + 4 + 8 + 8 + 4;

/// Bytes of a range.
const RANGE: usize = 24;

pub(super) fn encode(state: &State) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity(state));
    out.push(VERSION);
    streams(&mut out, state);
    nodes(&mut out, state);
    reservations(&mut out, state);
    objects(&mut out, state);
    marks(&mut out, state);
    keys(&mut out, state);
    transfers(&mut out, state);
    out
}

/// The payload's size, so that it is allocated once; only the ranges of
/// stream-set objects are guessed.
fn capacity(state: &State) -> usize {
    let texts: usize = state
        .kv
        .iter()
        .map(|(key, value)| 8 + key.len() + value.len())
        .sum();
    let addresses: usize = state
        .nodes
        .iter()
        .map(|(_, node)| 20 + node.http_address.len())
        .sum();
    89 + state.streams.len() * 37
        + addresses
        + state.prepared.len() * 16
        + state.stream_sets.len() * (4 + OBJECT + 2 * RANGE)
        + state.stream_objects.len() * (OBJECT + RANGE)
        + state.marks.len() * 17
        + texts
        + state.transfers.len() * 16
}

/// Builds one record on the stack, so that the payload grows once a record.
struct Record<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Record<N> {
    fn new() -> Self {
        Self {
            bytes: [0; N],
            at: 0,
        }
    }

    #[inline]
    fn put<const M: usize>(mut self, field: [u8; M]) -> Self {
        self.bytes[self.at..self.at + M].copy_from_slice(&field);
        self.at += M;
        self
    }

    #[inline]
    fn end(self, out: &mut Vec<u8>) {
        debug_assert_eq!(self.at, N, "a record is filled");
        out.extend_from_slice(&self.bytes);
    }
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    put_u64(out, count as u64);
}

fn streams(out: &mut Vec<u8>, state: &State) {
    put_u64(out, state.next_stream_id);
    put_count(out, state.streams.len());
    for (id, row) in &state.streams {
        Record::<37>::new()
            .put(id.0.to_le_bytes())
            .put(row.epoch.to_le_bytes())
            .put(row.start_offset.to_le_bytes())
            .put(row.end_offset.to_le_bytes())
            .put([match row.state {
                StreamState::Closed => 0,
                StreamState::Opened => 1,
            }])
            .put(row.node.0.to_le_bytes())
            .end(out);
    }
}

fn nodes(out: &mut Vec<u8>, state: &State) {
    put_count(out, state.nodes.len());
    for (id, node) in &state.nodes {
        out.extend_from_slice(&id.0.to_le_bytes());
        out.extend_from_slice(&node.epoch.to_le_bytes());
        put_blob(out, node.http_address.as_bytes());
        out.extend_from_slice(&node.slots.to_le_bytes());
    }
}

fn reservations(out: &mut Vec<u8>, state: &State) {
    put_u64(out, state.next_object_id);
    put_count(out, state.prepared.len());
    for (id, deadline) in &state.prepared {
        Record::<16>::new()
            .put(id.0.to_le_bytes())
            .put(deadline.to_le_bytes())
            .end(out);
    }
}

struct Object {
    id: ObjectId,
    kind: ObjectKind,
    size: u64,
    attributes: u32,
    committed_ms: i64,
    data_ms: i64,
}

impl Object {
    fn put(&self, out: &mut Vec<u8>, ranges: &[Range]) {
        Record::<{ OBJECT - 4 }>::new()
            .put(self.id.0.to_le_bytes())
            .put([match self.kind {
                ObjectKind::StreamSet => 0,
                ObjectKind::Stream => 1,
            }])
            .put(self.size.to_le_bytes())
            .put(self.attributes.to_le_bytes())
            .put(self.committed_ms.to_le_bytes())
            .put(self.data_ms.to_le_bytes())
            .end(out);
        put_len(out, ranges.len());
        for range in ranges {
            Record::<RANGE>::new()
                .put(range.stream.0.to_le_bytes())
                .put(range.start_offset.to_le_bytes())
                .put(range.end_offset.to_le_bytes())
                .end(out);
        }
    }
}

fn objects(out: &mut Vec<u8>, state: &State) {
    put_count(out, state.stream_sets.len());
    for (&id, object) in &state.stream_sets {
        out.extend_from_slice(&object.node.0.to_le_bytes());
        Object {
            id,
            kind: object.kind,
            size: object.size,
            attributes: object.attributes,
            committed_ms: object.committed_ms,
            data_ms: object.data_ms,
        }
        .put(out, &object.ranges);
    }
    put_count(out, state.stream_objects.len());
    for (key, object) in &state.stream_objects {
        Object {
            id: key.object,
            kind: object.kind,
            size: object.size,
            attributes: object.attributes,
            committed_ms: object.committed_ms,
            data_ms: object.data_ms,
        }
        .put(
            out,
            &[Range {
                stream: key.stream,
                start_offset: key.start_offset,
                end_offset: object.end_offset,
            }],
        );
    }
}

fn marks(out: &mut Vec<u8>, state: &State) {
    put_count(out, state.marks.len());
    for (seq, (object, operation)) in &state.marks {
        Record::<17>::new()
            .put(seq.to_le_bytes())
            .put(object.0.to_le_bytes())
            .put([operation.code()])
            .end(out);
    }
    put_u64(out, state.next_destroyed_seq);
}

fn keys(out: &mut Vec<u8>, state: &State) {
    put_count(out, state.kv.len());
    for (key, value) in &state.kv {
        put_blob(out, key.as_bytes());
        put_blob(out, value);
    }
}

fn transfers(out: &mut Vec<u8>, state: &State) {
    put_count(out, state.transfers.len());
    for (stream, (from, to)) in &state.transfers {
        Record::<16>::new()
            .put(stream.0.to_le_bytes())
            .put(from.0.to_le_bytes())
            .put(to.0.to_le_bytes())
            .end(out);
    }
}
