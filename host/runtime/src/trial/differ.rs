//! In what two end states differ, for people.

use std::cmp::Ordering;
use std::fmt::Debug;

use aedile_state::State;

use crate::backend::World;
use crate::guard::operation_name;

/// Longest value that is shown, in bytes.
const SHOWN: usize = 64;

/// The first difference; none if the worlds are equal. The place of a mark in
/// the destroyed queue is not one: it is in whatever order the marks were made.
pub(super) fn difference(one: &World, other: &World) -> Option<String> {
    let (a, b) = (&one.view.state, &other.view.state);
    first("key", keys(a), keys(b))
        .or_else(|| first("the mark of object", marks(a), marks(b)))
        .or_else(|| {
            let objects = |state: &State| {
                state
                    .objects_after(None)
                    .map(|o| (o.id.0, format!("{o:?}")))
                    .collect()
            };
            first("object", objects(a), objects(b))
        })
        .or_else(|| {
            let streams = |state: &State| {
                state
                    .streams_after(None)
                    .map(|s| (s.id.0, format!("{s:?}")))
                    .collect()
            };
            first("stream", streams(a), streams(b))
        })
        .or_else(|| first("reservation", reservations(a), reservations(b)))
        .or_else(|| {
            let nodes = |state: &State| {
                state
                    .nodes_after(None)
                    .map(|(id, n)| (id.0, format!("{n:?}")))
                    .collect()
            };
            first("node", nodes(a), nodes(b))
        })
        .or_else(|| {
            let moves = |state: &State| {
                let moves = state.transfers();
                moves
                    .map(|(id, from, to)| (id.0, format!("from {from} to {to}")))
                    .collect()
            };
            first("the transfer of stream", moves(a), moves(b))
        })
        .or_else(|| first("the bytes of object", gone(one), gone(other)))
}

/// Things with their order and how they look.
type Listed<K> = Vec<(K, String)>;

fn keys(state: &State) -> Listed<String> {
    let entries = state.kv_scan("", None);
    entries
        .map(|(key, value)| (key.to_owned(), shown(value)))
        .collect()
}

fn marks(state: &State) -> Listed<u64> {
    let marks = state.marks_after(None);
    let mut marks: Vec<_> = marks
        .map(|(_, id, operation)| (id.0, operation_name(operation).to_owned()))
        .collect();
    marks.sort_unstable();
    marks
}

fn reservations(state: &State) -> Listed<u64> {
    let all = state.reservations_after(None);
    all.map(|(id, deadline)| (id.0, format!("until {deadline}")))
        .collect()
}

fn gone(world: &World) -> Listed<u64> {
    let mut gone: Vec<_> = world
        .gone
        .iter()
        .map(|id| (id.0, "deleted".to_owned()))
        .collect();
    gone.sort_unstable();
    gone
}

fn shown(value: &[u8]) -> String {
    let cut = &value[..value.len().min(SHOWN)];
    let more = if cut.len() < value.len() { "…" } else { "" };
    match std::str::from_utf8(cut) {
        Ok(text) => format!("\"{}{more}\"", text.escape_debug()),
        Err(_) => format!("{cut:02x?}{more}"),
    }
}

fn first<K: Ord + Debug>(what: &str, one: Listed<K>, other: Listed<K>) -> Option<String> {
    let (mut one, mut other) = (one.into_iter().peekable(), other.into_iter().peekable());
    loop {
        let order = match (one.peek(), other.peek()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        match order {
            Ordering::Less => {
                let (key, value) = one.next()?;
                return Some(format!("{what} {key:?} is missing instead of {value}"));
            }
            Ordering::Greater => {
                let (key, value) = other.next()?;
                return Some(format!("{what} {key:?} is {value} instead of missing"));
            }
            Ordering::Equal => {
                let ((key, value), (_, found)) = (one.next()?, other.next()?);
                if value != found {
                    return Some(format!("{what} {key:?} is {found} instead of {value}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aedile_log::View;
    use aedile_state::{Command, ObjectId, Operation};

    use super::*;
    use crate::guard::testing;

    fn world(state: State) -> World {
        World {
            view: Arc::new(View { index: 1, state }),
            ..World::default()
        }
    }

    #[test]
    fn the_first_difference_is_told() {
        let mut made = testing::World::new();
        made.marked(2, Operation::Delete);
        let before = world(made.state.clone());
        assert_eq!(difference(&before, &before), None);
        let put = |key: &str, value: &[u8]| {
            let mut state = made.state.clone();
            state
                .apply(&Command::PutKv {
                    key: key.to_owned(),
                    value: value.to_vec(),
                })
                .expect("a key can be put");
            world(state)
        };
        let (one, two) = (put("a", b"1"), put("a", b"2"));
        for (a, b, expected) in [
            (&one, &two, "key \"a\" is \"2\" instead of \"1\""),
            (&before, &two, "key \"a\" is \"2\" instead of missing"),
            (&two, &before, "key \"a\" is missing instead of \"2\""),
        ] {
            assert_eq!(difference(a, b).as_deref(), Some(expected));
        }
        let mut cleaned = made.clone();
        cleaned.clean(&[ObjectId(1)]);
        let text = difference(&before, &world(cleaned.state)).expect("a mark went");
        assert!(text.contains("the mark of object 1 is missing"), "{text}");
        let mut deleted = before.clone();
        deleted.gone.insert(ObjectId(1));
        let text = difference(&before, &deleted).expect("bytes went");
        assert!(text.contains("the bytes of object 1"), "{text}");
    }
}
