//! What the holder changes: a pure function from a view to commands.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use aedile_state::{Command, ObjectId, State};

use super::request::Asked;
use super::{CHUNK, CHUNKS, Parked, ParkedObject, chunk_key, encode};

/// Most ids in one clean command.
const CLEAN: usize = 1000;

/// What is to be proposed, and what it means for the holder's own memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    /// The commands, in order, for one propose; empty if nothing is to change.
    pub(crate) commands: Vec<Command>,
    /// Objects that are parked by it.
    pub(crate) parked: Vec<u64>,
    /// Objects that are to be tried again.
    pub(crate) retried: Vec<u64>,
    /// Objects whose marks are dropped although their bytes stay.
    pub(crate) forgotten: Vec<u64>,
    /// Objects that found no room.
    pub(crate) no_room: Vec<u64>,
}

/// Carry out the requests, park what is `due`, and drop entries whose mark is
/// gone. Doing it twice is doing it once.
pub(crate) fn edit(state: &State, parked: &Parked, due: &[ParkedObject]) -> Edit {
    let mut edit = Edit::default();
    let mut leave: HashSet<u64> = HashSet::new();
    let here: BTreeSet<u64> = parked.objects().map(|object| object.id).collect();
    for (key, request) in &parked.requests {
        match &request.asked {
            Asked::Retry { objects } => {
                leave.extend(objects);
                edit.retried.extend(objects);
            }
            Asked::RetryAll => {
                leave.extend(&here);
                edit.retried.extend(&here);
            }
            Asked::Forget { objects } => {
                // Only what is parked: nothing else was ever shown to the operator.
                let known = objects.iter().filter(|id| here.contains(id));
                edit.forgotten.extend(known.clone());
                leave.extend(known);
            }
        }
        edit.commands.push(Command::DeleteKv { key: key.clone() });
    }
    edit.forgotten
        .retain(|&id| state.mark(ObjectId(id)).is_some());
    edit.forgotten.sort_unstable();
    edit.forgotten.dedup();
    let mut clean: Vec<Command> = edit
        .forgotten
        .chunks(CLEAN)
        .map(|ids| Command::CleanDestroyedObjects {
            objects: ids.iter().map(|&id| ObjectId(id)).collect(),
        })
        .collect();

    let mut chunks: BTreeMap<u32, Vec<ParkedObject>> = BTreeMap::new();
    let mut changed: BTreeSet<u32> = BTreeSet::new();
    let stays = |id: u64| !leave.contains(&id) && state.mark(ObjectId(id)).is_some();
    for chunk in &parked.chunks {
        let kept: Vec<_> = chunk
            .objects
            .iter()
            .filter(|object| stays(object.id))
            .cloned()
            .collect();
        if kept.len() < chunk.objects.len() {
            changed.insert(chunk.number);
        }
        chunks.insert(chunk.number, kept);
    }
    for object in due {
        if here.contains(&object.id) || state.mark(ObjectId(object.id)).is_none() {
            continue;
        }
        match room(&chunks, &parked.taken) {
            Some(number) => {
                chunks.entry(number).or_default().push(object.clone());
                changed.insert(number);
                edit.parked.push(object.id);
            }
            None => edit.no_room.push(object.id),
        }
    }
    clean.extend(changed.into_iter().map(|number| {
        let key = chunk_key(number);
        match chunks.get(&number) {
            Some(objects) if !objects.is_empty() => Command::PutKv {
                key,
                value: encode(objects),
            },
            _ => Command::DeleteKv { key },
        }
    }));
    // The requests go last: should only a part land, they are carried out again.
    clean.append(&mut edit.commands);
    edit.commands = clean;
    edit
}

/// The chunk that takes the next object: one with room, else a new one. The
/// number of one that cannot be read is never used.
fn room(chunks: &BTreeMap<u32, Vec<ParkedObject>>, taken: &[u32]) -> Option<u32> {
    let free = chunks.iter().find(|(_, objects)| objects.len() < CHUNK);
    if let Some((&number, _)) = free {
        return Some(number);
    }
    if chunks.len() + taken.len() >= CHUNKS {
        return None;
    }
    (0..).find(|number| !chunks.contains_key(number) && !taken.contains(number))
}
