//! What is kept of parked objects, what a holder makes of it, and what it
//! leaves alone.

use std::collections::BTreeSet;

use aedile_state::{Command, ObjectId, Operation, State};
use proptest::prelude::*;

use super::edit::{Edit, edit};
use super::*;
use crate::guard::KeyRule;
use crate::guard::testing::World;

fn due(ids: &[ObjectId]) -> Vec<ParkedObject> {
    let park = |id: &ObjectId| ParkedObject {
        id: id.0,
        reason: format!("denied: {}", id.0 % 2),
        since: 7,
        tries: 14,
    };
    ids.iter().map(park).collect()
}

/// Do what a holder does once.
fn hold(state: &mut State, due: &[ParkedObject]) -> Edit {
    let edit = edit(state, &Parked::read(state), due);
    for command in &edit.commands {
        state.apply(command).expect("accepted");
    }
    edit
}

fn ask(state: &mut State, asked: Asked, nonce: u64) {
    let request = Request::new(asked, "ann".to_owned(), 1_800_000_000_000);
    state.apply(&request.command(nonce)).expect("accepted");
}

fn parked(state: &State) -> BTreeSet<u64> {
    Parked::read(state)
        .objects()
        .map(|object| object.id)
        .collect()
}

fn ids(objects: &[ObjectId]) -> Vec<u64> {
    objects.iter().map(|id| id.0).collect()
}

#[test]
fn many_objects_take_few_keys_and_read_back_as_they_were() {
    let mut world = World::new();
    let marked = world.marked(2500, Operation::Delete);
    let edit = hold(&mut world.state, &due(&marked));
    assert_eq!(edit.commands.len(), 3, "a key for each thousand");
    let read = Parked::read(&world.state);
    assert_eq!(read.problems, []);
    assert_eq!(read.objects().cloned().collect::<Vec<_>>(), due(&marked));
    // Once more changes nothing, and proposes nothing.
    assert_eq!(hold(&mut world.state, &due(&marked)).commands, []);
}

#[test]
fn an_entry_leaves_with_its_mark_and_its_place_is_used_again() {
    let mut world = World::new();
    let marked = world.marked(3, Operation::Delete);
    hold(&mut world.state, &due(&marked));
    world.clean(&marked[..1]);
    let edit = hold(&mut world.state, &[]);
    assert_eq!(edit.commands.len(), 1);
    assert_eq!(
        parked(&world.state),
        ids(&marked[1..]).into_iter().collect()
    );
    // An object without a mark is not parked; the last entry takes its key with it.
    hold(&mut world.state, &due(&marked[..1]));
    world.clean(&marked);
    hold(&mut world.state, &[]);
    assert_eq!(world.state.kv_scan(PREFIX, None).count(), 0);
}

#[test]
fn a_retry_and_a_forget_are_carried_out_once_and_removed() {
    let mut world = World::new();
    let marked = world.marked(4, Operation::Delete);
    hold(&mut world.state, &due(&marked[..3]));
    let objects = ids(&marked[..1]);
    ask(&mut world.state, Asked::Retry { objects }, 1);
    // The last of these is not parked: its mark stays.
    let objects = vec![marked[1].0, marked[3].0, 999];
    ask(&mut world.state, Asked::Forget { objects }, 2);
    assert_eq!(Parked::read(&world.state).requests().count(), 2);
    let edit = hold(&mut world.state, &[]);
    assert_eq!(
        (edit.retried, edit.forgotten),
        (vec![marked[0].0], vec![marked[1].0])
    );
    assert_eq!(parked(&world.state), BTreeSet::from([marked[2].0]));
    let left: Vec<ObjectId> = world.state.marks_after(None).map(|mark| mark.1).collect();
    assert_eq!(left, [marked[0], marked[2], marked[3]]);
    assert_eq!(Parked::read(&world.state).requests().count(), 0);
    assert_eq!(hold(&mut world.state, &[]).commands, []);

    ask(&mut world.state, Asked::RetryAll, 3);
    ask(&mut world.state, Asked::RetryAll, 3);
    assert_eq!(hold(&mut world.state, &[]).retried, [marked[2].0]);
    assert_eq!(world.state.kv_scan(PREFIX, None).count(), 0);
}

#[test]
fn a_value_that_cannot_be_read_is_named_left_and_never_written_over() {
    let mut world = World::new();
    let marked = world.marked(2, Operation::Delete);
    let put = |state: &mut State, key: &str, value: &[u8]| {
        let put = Command::PutKv {
            key: key.to_owned(),
            value: value.to_vec(),
        };
        state.apply(&put).expect("accepted");
    };
    let bad: [(&str, &[u8]); 6] = [
        ("aedile/parked/chunk/00000000", b"{"),
        (
            "aedile/parked/chunk/00000001",
            br#"{"version":2,"reasons":[],"objects":[]}"#,
        ),
        (
            "aedile/parked/chunk/00000002",
            br#"{"version":1,"reasons":[],"objects":[[1,0,0,1]]}"#,
        ),
        (
            "aedile/parked/chunk/3",
            br#"{"version":1,"reasons":[],"objects":[]}"#,
        ),
        (
            "aedile/parked/request/1",
            br#"{"version":1,"ask":"burn","by":"x","at":0}"#,
        ),
        ("aedile/parked/else", b""),
    ];
    for (key, value) in bad {
        put(&mut world.state, key, value);
    }
    let named: Vec<String> = Parked::read(&world.state)
        .problems
        .into_iter()
        .map(|problem| problem.key)
        .collect();
    assert_eq!(named.len(), bad.len(), "{named:?}");
    hold(&mut world.state, &due(&marked));
    for (key, value) in bad {
        assert_eq!(world.state.kv_get(key), Some(value), "{key} was touched");
    }
    assert_eq!(parked(&world.state), ids(&marked).into_iter().collect());
    assert!(world.state.kv_get("aedile/parked/chunk/00000003").is_some());
}

#[test]
fn beyond_the_room_nothing_is_parked_and_it_is_said() {
    let mut world = World::new();
    for number in 0..CHUNKS as u32 - 1 {
        let key = super::chunk_key(number);
        world
            .state
            .apply(&Command::PutKv {
                key,
                value: b"?".to_vec(),
            })
            .expect("accepted");
    }
    let marked = world.marked(CHUNK as u32 + 2, Operation::Delete);
    let edit = hold(&mut world.state, &due(&marked));
    assert_eq!(
        (edit.parked.len(), edit.no_room),
        (CHUNK, ids(&marked[CHUNK..]))
    );
}

#[test]
fn no_plugin_may_write_there() {
    let rule = KeyRule::new(
        "cleaner",
        vec!["aedile/parked/".to_owned(), "aedile/".to_owned()],
    );
    for key in ["aedile/parked/chunk/00000000", "aedile/parked/request/1"] {
        assert!(rule.check(key).is_err(), "{key}");
    }
}

#[test]
fn an_index_reads_again_only_what_changed() {
    let mut world = World::new();
    let marked = world.marked(2, Operation::Delete);
    let index = ParkedIndex::default();
    assert!(index.of(&world.state).get(marked[0]).is_none());
    hold(&mut world.state, &due(&marked[..1]));
    let first = index.of(&world.state);
    assert!(first.get(marked[0]).is_some());
    world.objects(1);
    assert!(std::sync::Arc::ptr_eq(&first, &index.of(&world.state)));
    hold(&mut world.state, &due(&marked[1..]));
    assert!(index.of(&world.state).get(marked[1]).is_some());
}

proptest! {
    #[test]
    fn no_value_panics_and_none_is_lost(
        key in "aedile/parked/(chunk/0000000[0-3]|request/[0-9]|[a-z]{0,3})",
        value: Vec<u8>,
    ) {
        let mut world = World::new();
        let marked = world.marked(2, Operation::Delete);
        world.state.apply(&Command::PutKv { key: key.clone(), value: value.clone() }).expect("accepted");
        hold(&mut world.state, &due(&marked));
        prop_assert_eq!(world.state.kv_get(&key), Some(&value[..]));
        prop_assert_eq!(parked(&world.state).len(), 2);
    }
}
