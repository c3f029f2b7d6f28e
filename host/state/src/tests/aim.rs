//! Aims a random command at what the state holds, so that it has a chance to
//! be accepted: most that are not aimed fail at their first check.

use std::collections::BTreeMap;

use super::*;
use crate::{Stream, StreamState};

/// The `id`-th of the ids, round and round; itself if there are none.
fn pick(id: ObjectId, mut from: impl Iterator<Item = ObjectId> + Clone) -> ObjectId {
    match from.clone().count() {
        0 => id,
        count => from.nth((id.0 % count as u64) as usize).unwrap_or(id),
    }
}

fn within(offset: u64, start: u64, end: u64) -> u64 {
    offset.clamp(start.min(end), end)
}

fn aim_commit(state: &State, request: &mut CommitRequest) {
    let sets: Vec<ObjectId> = state.stream_sets.keys().copied().collect();
    for id in &mut request.compacted {
        *id = pick(*id, sets.iter().copied());
    }
    let compact = !request.compacted.is_empty();
    let mut ends: BTreeMap<StreamId, u64> = BTreeMap::new();
    let mut place = |stream: StreamId, start: &mut u64, end: &mut u64| {
        let Some(row) = state.stream(stream) else {
            return;
        };
        if compact {
            *start = within(*start, row.start_offset, row.end_offset);
            *end = within(*end, *start, row.end_offset);
        } else {
            *start = ends.get(&stream).copied().unwrap_or(row.end_offset);
            *end = start.wrapping_add(*end % 4);
            ends.insert(stream, *end);
        }
    };
    if request.object != NOOP {
        for range in &mut request.ranges {
            place(range.stream, &mut range.start_offset, &mut range.end_offset);
        }
    }
    for object in &mut request.stream_objects {
        place(
            object.stream,
            &mut object.start_offset,
            &mut object.end_offset,
        );
    }
}

fn aim_compact(state: &State, request: &mut CompactRequest) {
    let Some(row) = state.stream(request.stream) else {
        return;
    };
    request.stream_epoch = row.epoch as u64;
    request.start_offset = within(request.start_offset, row.start_offset, row.end_offset);
    request.end_offset = within(request.end_offset, 0, row.end_offset);
    let own: Vec<ObjectId> = state
        .stream_objects_after(row.id, None)
        .map(|o| o.id)
        .collect();
    for source in &mut request.sources {
        *source = pick(*source, own.iter().copied());
    }
}

fn is_open(stream: Stream) -> bool {
    stream.state == StreamState::Opened
}

/// The command, nearer to one that the state accepts.
pub(super) fn aimed(state: &State, mut command: Command) -> Command {
    let row = |stream: &StreamId| state.stream(*stream);
    match &mut command {
        Command::OpenStream { stream, epoch, .. } => {
            if let Some(row) = row(stream) {
                *epoch = row.epoch.wrapping_add(1);
            }
        }
        Command::CloseStream { stream, epoch, .. } => {
            let moving = state
                .transfers()
                .find(|(id, ..)| row(id).is_some_and(is_open));
            *stream = moving.map_or(*stream, |(id, ..)| id);
            if let Some(row) = row(stream) {
                *epoch = row.epoch;
            }
        }
        Command::DeleteStream { stream, epoch, .. } => {
            if let Some(row) = row(stream) {
                *epoch = row.epoch;
            }
        }
        Command::TrimStream {
            stream,
            epoch,
            new_start_offset,
            ..
        } => {
            if let Some(row) = row(stream) {
                *epoch = row.epoch;
                *new_start_offset = within(*new_start_offset, row.start_offset, row.end_offset);
            }
        }
        Command::CommitStreamSetObject { request, .. } => aim_commit(state, request),
        Command::CompactStreamObject { request, .. } => aim_compact(state, request),
        Command::CleanDestroyedObjects { objects } => {
            let marked: Vec<ObjectId> = state.marks_after(None).map(|mark| mark.1).collect();
            for id in objects.iter_mut().skip(1) {
                *id = pick(*id, marked.iter().copied());
            }
        }
        Command::TransferStream { stream, from, .. } => {
            if let Some(row) = row(stream) {
                *from = row.node;
            }
        }
        Command::CompleteTransfer { stream, epoch } => {
            let closed = |id: &StreamId| row(id).filter(|&row| !is_open(row));
            if let Some(row) = state.transfers().find_map(|(id, _, _)| closed(&id)) {
                *stream = row.id;
                *epoch = row.epoch;
            }
        }
        _ => {}
    }
    command
}
