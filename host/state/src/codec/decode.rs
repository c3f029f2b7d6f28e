//! Bytes to commands.

use super::{DecodeError, Reader};
use crate::{
    Command, CommitRange, CommitRequest, CommitStreamObject, CompactRequest, NodeId, ObjectId,
    Operation, StreamId,
};

/// Bytes of the smallest command: a type and an empty list.
const SMALLEST_COMMAND: usize = 5;

/// Commands to reserve memory for at once: the decoded form is larger than
/// the bytes, so a payload must earn the rest by holding them.
const RESERVE: usize = 256;

/// The commands of one log row's payload.
pub fn decode_batch(payload: &[u8]) -> Result<Vec<Command>, DecodeError> {
    let mut reader = Reader::new(payload);
    reader.version()?;
    let declared = reader.u32("command count cut short")?;
    let mut commands = Vec::with_capacity(
        (declared as usize)
            .min(payload.len() / SMALLEST_COMMAND)
            .min(RESERVE),
    );
    for _ in 0..declared {
        commands.push(body(&mut reader)?);
    }
    reader.end()?;
    Ok(commands)
}

/// A command in its single form.
pub fn decode_command(payload: &[u8]) -> Result<Command, DecodeError> {
    let mut reader = Reader::new(payload);
    reader.version()?;
    let command = body(&mut reader)?;
    reader.end()?;
    Ok(command)
}

fn node(reader: &mut Reader<'_>) -> Result<NodeId, DecodeError> {
    reader.i32("node id cut short").map(NodeId)
}

fn node_epoch(reader: &mut Reader<'_>) -> Result<i64, DecodeError> {
    reader.i64("node epoch cut short")
}

fn stream(reader: &mut Reader<'_>) -> Result<StreamId, DecodeError> {
    reader.u64("stream id cut short").map(StreamId)
}

fn epoch(reader: &mut Reader<'_>) -> Result<i64, DecodeError> {
    reader.i64("stream epoch cut short")
}

fn object(reader: &mut Reader<'_>) -> Result<ObjectId, DecodeError> {
    reader.u64("object id cut short").map(ObjectId)
}

fn objects(reader: &mut Reader<'_>) -> Result<Vec<ObjectId>, DecodeError> {
    list(reader, 8, "more object ids declared than there are", object)
}

fn now_ms(reader: &mut Reader<'_>) -> Result<i64, DecodeError> {
    reader.i64("time cut short")
}

fn size(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    reader.u64("object size cut short")
}

fn offset(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    reader.u64("offset cut short")
}

fn attributes(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    reader.u32("attributes cut short")
}

fn count(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    reader.u32("count cut short")
}

fn key(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    reader.text("key cut short or not UTF-8").map(str::to_owned)
}

fn value(reader: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    reader.blob("value cut short").map(<[u8]>::to_vec)
}

fn list<T>(
    reader: &mut Reader<'_>,
    element: usize,
    what: &'static str,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let declared = reader.u32("list length cut short")?;
    let count = reader.count(u64::from(declared), element, what)?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(read(reader)?);
    }
    Ok(items)
}

fn operation(reader: &mut Reader<'_>) -> Result<Operation, DecodeError> {
    let at = reader.position();
    let code = reader.u8("operation cut short")?;
    Operation::from_code(code).ok_or(DecodeError::Corrupt {
        at,
        what: "no such operation",
    })
}

fn body(reader: &mut Reader<'_>) -> Result<Command, DecodeError> {
    Ok(match reader.u8("command type cut short")? {
        1 => Command::CreateStream {
            node: node(reader)?,
            node_epoch: node_epoch(reader)?,
        },
        2 => Command::OpenStream {
            node: node(reader)?,
            node_epoch: node_epoch(reader)?,
            stream: stream(reader)?,
            epoch: epoch(reader)?,
        },
        3 => Command::TrimStream {
            node: node(reader)?,
            node_epoch: node_epoch(reader)?,
            stream: stream(reader)?,
            epoch: epoch(reader)?,
            new_start_offset: offset(reader)?,
        },
        4 => Command::CloseStream {
            node: node(reader)?,
            node_epoch: node_epoch(reader)?,
            stream: stream(reader)?,
            epoch: epoch(reader)?,
        },
        5 => Command::DeleteStream {
            node: node(reader)?,
            node_epoch: node_epoch(reader)?,
            stream: stream(reader)?,
            epoch: epoch(reader)?,
        },
        6 => Command::PrepareObject {
            node: node(reader)?,
            node_epoch: node_epoch(reader)?,
            count: count(reader)?,
            ttl_ms: reader.i64("time to live cut short")?,
            now_ms: now_ms(reader)?,
        },
        7 => Command::CommitStreamSetObject {
            node: node(reader)?,
            node_epoch: node_epoch(reader)?,
            now_ms: now_ms(reader)?,
            request: commit(reader)?,
        },
        8 => Command::CompactStreamObject {
            node: node(reader)?,
            node_epoch: node_epoch(reader)?,
            now_ms: now_ms(reader)?,
            request: compact(reader)?,
        },
        9 => Command::ExpirePreparedObjects {
            now_ms: now_ms(reader)?,
        },
        10 => Command::RegisterNode {
            node: node(reader)?,
            node_epoch: node_epoch(reader)?,
            http_address: reader.text("address cut short or not UTF-8")?.to_owned(),
            slots: reader.u32("slots cut short")?,
        },
        11 => Command::CleanDestroyedObjects {
            objects: objects(reader)?,
        },
        12 => Command::PutKv {
            key: key(reader)?,
            value: value(reader)?,
        },
        13 => Command::PutKvIfAbsent {
            key: key(reader)?,
            value: value(reader)?,
        },
        14 => Command::DeleteKv { key: key(reader)? },
        15 => Command::TransferStream {
            stream: stream(reader)?,
            from: node(reader)?,
            to: node(reader)?,
        },
        16 => Command::CompleteTransfer {
            stream: stream(reader)?,
            epoch: epoch(reader)?,
        },
        17 => Command::CreateStreams {
            node: node(reader)?,
            node_epoch: node_epoch(reader)?,
            count: count(reader)?,
        },
        18 => Command::PlaceStream {
            stream: stream(reader)?,
        },
        other => return Err(DecodeError::UnknownCommand(other)),
    })
}

fn commit(reader: &mut Reader<'_>) -> Result<CommitRequest, DecodeError> {
    Ok(CommitRequest {
        object: object(reader)?,
        object_size: size(reader)?,
        attributes: attributes(reader)?,
        ranges: list(
            reader,
            40,
            "more stream ranges declared than there are",
            |reader| {
                Ok(CommitRange {
                    stream: stream(reader)?,
                    epoch: reader.u64("stream epoch cut short")?,
                    start_offset: offset(reader)?,
                    end_offset: offset(reader)?,
                    size: size(reader)?,
                })
            },
        )?,
        stream_objects: list(
            reader,
            44,
            "more stream objects declared than there are",
            |reader| {
                Ok(CommitStreamObject {
                    object: object(reader)?,
                    object_size: size(reader)?,
                    stream: stream(reader)?,
                    start_offset: offset(reader)?,
                    end_offset: offset(reader)?,
                    attributes: attributes(reader)?,
                })
            },
        )?,
        compacted: objects(reader)?,
    })
}

fn compact(reader: &mut Reader<'_>) -> Result<CompactRequest, DecodeError> {
    Ok(CompactRequest {
        object: object(reader)?,
        object_size: size(reader)?,
        stream: stream(reader)?,
        stream_epoch: reader.u64("stream epoch cut short")?,
        start_offset: offset(reader)?,
        end_offset: offset(reader)?,
        attributes: attributes(reader)?,
        sources: objects(reader)?,
        operations: list(
            reader,
            1,
            "more operations declared than there are",
            operation,
        )?,
    })
}
