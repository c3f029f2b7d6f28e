//! What became of objects, marks, reservations and keys.

use std::collections::BTreeMap;

use aedile_state::ObjectId;
use aedile_storage::object_key;

use super::{Bound, Check, Evidence};
use crate::demo::records::{Fate, Ledger};

/// An object as the ledger last has it.
#[derive(Clone, Debug)]
struct Made {
    sha256: String,
    fate: Fate,
}

fn made(evidence: &Evidence) -> BTreeMap<u64, Made> {
    let mut made = BTreeMap::new();
    for line in &evidence.ledger {
        if let Ledger::Object {
            id, sha256, fate, ..
        } = line
        {
            made.insert(
                *id,
                Made {
                    sha256: sha256.clone(),
                    fate: *fate,
                },
            );
        }
    }
    made
}

/// Up to ten ids, for people.
fn some(ids: &[u64]) -> String {
    let shown: Vec<String> = ids.iter().take(10).map(u64::to_string).collect();
    let more = if ids.len() > shown.len() { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// A check that a list is empty.
fn none(name: &str, found: &[u64], fine: String, wrong: &str) -> Check {
    let detail = if found.is_empty() {
        fine
    } else {
        format!("{wrong}: {}", some(found))
    };
    Check::new(name, found.len() as i64, Bound::Exactly(0), detail)
}

/// The bytes of every object against its fate.
pub(super) fn objects(evidence: &Evidence) -> Vec<Check> {
    let made = made(evidence);
    let of = |fates: &[Fate]| -> Vec<(u64, &Made)> {
        let wanted = |made: &Made| fates.contains(&made.fate);
        made.iter()
            .filter(|(_, made)| wanted(made))
            .map(|(id, made)| (*id, made))
            .collect()
    };
    let intact = |id: u64, made: &Made| {
        evidence
            .files
            .get(&object_key(id))
            .is_some_and(|(hash, _)| *hash == made.sha256)
    };
    let broken = |list: &[(u64, &Made)]| -> Vec<u64> {
        list.iter()
            .filter(|(id, made)| !intact(*id, made))
            .map(|(id, _)| *id)
            .collect()
    };
    let live = of(&[Fate::Live, Fate::Conflict]);
    // Bytes that no catalog entry names and that must stay all the same.
    let beside = of(&[Fate::Kept, Fate::Abandoned, Fate::Reserved]);
    let destroyed = of(&[Fate::Destroyed]);
    let left: Vec<u64> = destroyed
        .iter()
        .filter(|(id, _)| evidence.files.contains_key(&object_key(*id)))
        .map(|(id, _)| *id)
        .collect();
    let foreign: Vec<&str> = evidence
        .ledger
        .iter()
        .filter_map(|line| match line {
            Ledger::Foreign { key, sha256 } => Some((key, sha256)),
            _ => None,
        })
        .filter(|(key, sha256)| {
            evidence
                .files
                .get(*key)
                .is_none_or(|(hash, _)| hash != *sha256)
        })
        .map(|(key, _)| key.as_str())
        .collect();
    vec![
        none(
            "live-objects-lost",
            &broken(&live),
            format!("{} live objects, each byte for byte as written", live.len()),
            "gone or changed",
        ),
        none(
            "destroyed-bytes-left",
            &left,
            format!(
                "{} objects were destroyed, the bytes of all are gone",
                destroyed.len()
            ),
            "still in storage",
        ),
        none(
            "other-bytes-lost",
            &broken(&beside),
            format!(
                "{} kept, reserved and abandoned uploads are as written",
                beside.len()
            ),
            "gone or changed",
        ),
        Check::new(
            "foreign-files-lost",
            foreign.len() as i64,
            Bound::Exactly(0),
            if foreign.is_empty() {
                "index, WAL and other files were not touched".to_owned()
            } else {
                format!("gone or changed: {}", foreign.join(", "))
            },
        ),
    ]
}

/// The catalog against the ledger.
pub(super) fn catalog(evidence: &Evidence) -> Vec<Check> {
    let made = made(evidence);
    let state = &evidence.state;
    let with = |fate: Fate| {
        made.iter()
            .filter(move |(_, made)| made.fate == fate)
            .map(|(id, _)| *id)
    };
    let lapsed: Vec<u64> = state.lapsed(evidence.now).map(|(_, id)| id.0).collect();
    let standing: Vec<u64> = with(Fate::Reserved)
        .filter(|id| !state.is_reserved(ObjectId(*id)))
        .collect();
    let marks: Vec<u64> = state
        .marks_after(None)
        .map(|(_, id, _)| id.0)
        .filter(|id| made.get(id).is_none_or(|made| made.fate != Fate::Conflict))
        .collect();
    let conflicts: Vec<u64> = with(Fate::Conflict)
        .filter(|id| state.mark(ObjectId(*id)).is_none())
        .collect();
    let unlisted: Vec<u64> = with(Fate::Live)
        .chain(with(Fate::Conflict))
        .filter(|id| !state.is_live(ObjectId(*id)))
        .collect();
    let keys = |expiring: bool| {
        evidence.ledger.iter().filter_map(move |line| match line {
            Ledger::Key { key, expires } if *expires == expiring => Some(key.as_str()),
            _ => None,
        })
    };
    let stale: Vec<&str> = keys(true)
        .filter(|key| state.kv_get(key).is_some())
        .collect();
    let lost: Vec<&str> = keys(false)
        .filter(|key| state.kv_get(key).is_none())
        .collect();
    vec![
        none(
            "reservations-left",
            &lapsed,
            "no lapsed reservation is left".to_owned(),
            "lapsed and still there",
        ),
        none(
            "reservations-lost",
            &standing,
            "those that stand were left alone".to_owned(),
            "expired too early",
        ),
        none(
            "marks-left",
            &marks,
            "the destroyed queue is drained".to_owned(),
            "still marked",
        ),
        none(
            "conflicts-resolved",
            &conflicts,
            "the mark that names a live object is still there, for an operator to see".to_owned(),
            "the mark is gone",
        ),
        none(
            "objects-unlisted",
            &unlisted,
            "the catalog lists every live object".to_owned(),
            "not in the catalog",
        ),
        Check::new(
            "expired-keys-left",
            stale.len() as i64,
            Bound::Exactly(0),
            format!("the plugin's rule covers {} keys", keys(true).count()),
        ),
        Check::new(
            "keys-lost",
            lost.len() as i64,
            Bound::Exactly(0),
            format!("{} keys are no rule's", keys(false).count()),
        ),
    ]
}

/// Whether any of the writer's commands was applied twice, or one that was
/// acknowledged not at all: each reservation, stream and mark moves a counter of
/// the state by one, and the ledger says how many there were.
pub(super) fn applied_once(evidence: &Evidence) -> Check {
    let made = made(evidence);
    let streams = evidence
        .ledger
        .iter()
        .filter(|line| matches!(line, Ledger::Stream { .. }))
        .count();
    let marked = [Fate::Destroyed, Fate::Kept, Fate::Conflict];
    let marks = made
        .values()
        .filter(|made| marked.contains(&made.fate))
        .count();
    let state = &evidence.state;
    let off = [
        (state.next_object_id().0, made.len()),
        (state.next_stream_id().0, streams),
        (state.next_mark_seq(), marks),
    ]
    .map(|(counter, ledger)| counter.abs_diff(ledger as u64));
    Check::new(
        "not-applied-once",
        off.iter().sum::<u64>() as i64,
        Bound::Exactly(0),
        format!(
            "the log's counters and the ledger agree on {} reservations, {streams} streams, {marks} marks",
            made.len()
        ),
    )
}
