//! Commands to bytes.

use super::VERSION;
use crate::{Command, CommitRequest, CompactRequest, NodeId, ObjectId, StreamId};

/// The payload of one log row that holds these commands.
pub fn encode_batch(commands: &[Command]) -> Vec<u8> {
    let mut out = Vec::with_capacity(5 + commands.len() * 48);
    out.push(VERSION);
    put_len(&mut out, commands.len());
    for command in commands {
        body(&mut out, command);
    }
    out
}

/// The single form of a command: the version byte, then the command.
pub fn encode_command(command: &Command) -> Vec<u8> {
    let mut out = vec![VERSION];
    body(&mut out, command);
    out
}

/// Appends a length. Lists and texts are bounded far below 2^32 by the memory
/// that holds them and by the databases' limit for a row (1 GB).
pub(crate) fn put_len(out: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("a list or text in a payload is shorter than 2^32");
    out.extend_from_slice(&len.to_le_bytes());
}

pub(crate) fn put_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn put_node(out: &mut Vec<u8>, node: NodeId, epoch: i64) {
    out.extend_from_slice(&node.0.to_le_bytes());
    out.extend_from_slice(&epoch.to_le_bytes());
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_ids(out: &mut Vec<u8>, ids: &[ObjectId]) {
    put_len(out, ids.len());
    out.reserve(ids.len() * 8);
    for id in ids {
        put_u64(out, id.0);
    }
}

fn put_stream(out: &mut Vec<u8>, code: u8, node: NodeId, epochs: (i64, i64), stream: StreamId) {
    let (node_epoch, epoch) = epochs;
    out.push(code);
    put_node(out, node, node_epoch);
    put_u64(out, stream.0);
    put_i64(out, epoch);
}

fn body(out: &mut Vec<u8>, command: &Command) {
    match command {
        Command::CreateStream { node, node_epoch } => {
            out.push(1);
            put_node(out, *node, *node_epoch);
        }
        Command::OpenStream {
            node,
            node_epoch,
            stream,
            epoch,
        } => {
            put_stream(out, 2, *node, (*node_epoch, *epoch), *stream);
        }
        Command::TrimStream {
            node,
            node_epoch,
            stream,
            epoch,
            new_start_offset,
        } => {
            put_stream(out, 3, *node, (*node_epoch, *epoch), *stream);
            put_u64(out, *new_start_offset);
        }
        Command::CloseStream {
            node,
            node_epoch,
            stream,
            epoch,
        } => {
            put_stream(out, 4, *node, (*node_epoch, *epoch), *stream);
        }
        Command::DeleteStream {
            node,
            node_epoch,
            stream,
            epoch,
        } => {
            put_stream(out, 5, *node, (*node_epoch, *epoch), *stream);
        }
        Command::PrepareObject {
            node,
            node_epoch,
            count,
            ttl_ms,
            now_ms,
        } => {
            out.push(6);
            put_node(out, *node, *node_epoch);
            put_u32(out, *count);
            put_i64(out, *ttl_ms);
            put_i64(out, *now_ms);
        }
        Command::CommitStreamSetObject {
            node,
            node_epoch,
            now_ms,
            request,
        } => {
            out.push(7);
            put_node(out, *node, *node_epoch);
            put_i64(out, *now_ms);
            commit(out, request);
        }
        Command::CompactStreamObject {
            node,
            node_epoch,
            now_ms,
            request,
        } => {
            out.push(8);
            put_node(out, *node, *node_epoch);
            put_i64(out, *now_ms);
            compact(out, request);
        }
        Command::ExpirePreparedObjects { now_ms } => {
            out.push(9);
            put_i64(out, *now_ms);
        }
        Command::RegisterNode {
            node,
            node_epoch,
            http_address,
            slots,
        } => {
            out.push(10);
            put_node(out, *node, *node_epoch);
            put_blob(out, http_address.as_bytes());
            put_u32(out, *slots);
        }
        Command::CleanDestroyedObjects { objects } => {
            out.push(11);
            put_ids(out, objects);
        }
        Command::PutKv { key, value } => {
            out.push(12);
            put_blob(out, key.as_bytes());
            put_blob(out, value);
        }
        Command::PutKvIfAbsent { key, value } => {
            out.push(13);
            put_blob(out, key.as_bytes());
            put_blob(out, value);
        }
        Command::DeleteKv { key } => {
            out.push(14);
            put_blob(out, key.as_bytes());
        }
        Command::TransferStream { stream, from, to } => {
            out.push(15);
            put_u64(out, stream.0);
            out.extend_from_slice(&from.0.to_le_bytes());
            out.extend_from_slice(&to.0.to_le_bytes());
        }
        Command::CompleteTransfer { stream, epoch } => {
            out.push(16);
            put_u64(out, stream.0);
            put_i64(out, *epoch);
        }
        Command::CreateStreams {
            node,
            node_epoch,
            count,
        } => {
            out.push(17);
            put_node(out, *node, *node_epoch);
            put_u32(out, *count);
        }
        Command::PlaceStream { stream } => {
            out.push(18);
            put_u64(out, stream.0);
        }
    }
}

fn commit(out: &mut Vec<u8>, request: &CommitRequest) {
    put_u64(out, request.object.0);
    put_u64(out, request.object_size);
    put_u32(out, request.attributes);
    put_len(out, request.ranges.len());
    for range in &request.ranges {
        put_u64(out, range.stream.0);
        put_u64(out, range.epoch);
        put_u64(out, range.start_offset);
        put_u64(out, range.end_offset);
        put_u64(out, range.size);
    }
    put_len(out, request.stream_objects.len());
    for object in &request.stream_objects {
        put_u64(out, object.object.0);
        put_u64(out, object.object_size);
        put_u64(out, object.stream.0);
        put_u64(out, object.start_offset);
        put_u64(out, object.end_offset);
        put_u32(out, object.attributes);
    }
    put_ids(out, &request.compacted);
}

fn compact(out: &mut Vec<u8>, request: &CompactRequest) {
    put_u64(out, request.object.0);
    put_u64(out, request.object_size);
    put_u64(out, request.stream.0);
    put_u64(out, request.stream_epoch);
    put_u64(out, request.start_offset);
    put_u64(out, request.end_offset);
    put_u32(out, request.attributes);
    put_ids(out, &request.sources);
    put_len(out, request.operations.len());
    out.extend(request.operations.iter().map(|operation| operation.code()));
}
