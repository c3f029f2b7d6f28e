//! The decision table, and a property over catalogs that random commands made.

use std::collections::{BTreeMap, BTreeSet};

use aedile_state::{Command, NOOP, ObjectId, Operation, State};
use aedile_storage::Composite;
use proptest::prelude::*;

use super::judge::{COMPOSITE, CleanVerdict, DEEP_DELETE, judge_clean};
use super::testing::{EPOCH, NODE, NOW, World};
use super::{Conflict, LinkIndex, Verdict, judge};

fn none() -> LinkIndex {
    LinkIndex::default()
}

#[test]
fn the_decision_table() {
    let mut world = World::new();
    let live = world.objects(1)[0];
    let reserved = world.reserve(1, 3_600_000)[0];
    let lapsed = world.reserve(1, -1)[0];
    let delete = world.marked(1, Operation::Delete)[0];
    let keep = world.marked(1, Operation::KeepData)[0];
    let deep = world.marked(1, Operation::DeepDelete)[0];
    // Marks of what is live or reserved: a compaction of a foreign stream marks
    // its sources without looking.
    let marked_live = world.objects(1)[0];
    let marked_reserved = world.reserve(1, 3_600_000)[0];
    let other = world.apply(Command::CreateStream {
        node: NODE,
        node_epoch: EPOCH,
    });
    let aedile_state::Value::Id(other) = other else {
        panic!("an id")
    };
    for sources in [vec![marked_live], vec![marked_reserved]] {
        world.apply(Command::CompactStreamObject {
            node: NODE,
            node_epoch: EPOCH,
            now_ms: NOW,
            request: aedile_state::CompactRequest {
                object: NOOP,
                object_size: 0,
                stream: aedile_state::StreamId(other),
                stream_epoch: u64::MAX,
                start_offset: 0,
                end_offset: 0,
                attributes: 0,
                sources,
                operations: Vec::new(),
            },
        });
    }
    let state = &world.state;
    for (id, verdict) in [
        (live, Verdict::NotMarked),
        (reserved, Verdict::NotMarked),
        (lapsed, Verdict::NotMarked),
        (ObjectId(999), Verdict::NotMarked),
        (NOOP, Verdict::NotMarked),
        (delete, Verdict::Delete),
        (keep, Verdict::KeepData),
        (deep, Verdict::Parked(DEEP_DELETE)),
        (marked_live, Verdict::Conflict(Conflict::Live)),
        (marked_reserved, Verdict::Conflict(Conflict::Reserved)),
    ] {
        assert_eq!(judge(state, &none(), id), verdict, "object {id}");
    }

    let mut links = none();
    links.record(delete, Composite::Links(vec![1, 2]));
    assert_eq!(judge(state, &links, delete), Verdict::Parked(COMPOSITE));
    let mut links = none();
    links.record(live, Composite::Links(vec![delete.0]));
    assert_eq!(
        judge(state, &links, delete),
        Verdict::Conflict(Conflict::Linked(live))
    );
    // What a composite links that is itself gone protects nothing.
    let mut links = none();
    links.record(ObjectId(999), Composite::Links(vec![delete.0]));
    assert_eq!(judge(state, &links, delete), Verdict::Delete);
    let mut links = none();
    links.record(live, Composite::Unreadable("cut".to_owned()));
    assert!(matches!(judge(state, &links, delete), Verdict::Suspect(_)));
    assert_eq!(judge(state, &links, keep), Verdict::KeepData);
}

#[test]
fn a_mark_leaves_the_queue_only_after_its_bytes() {
    let mut world = World::new();
    let delete = world.marked(1, Operation::Delete)[0];
    let deep = world.marked(1, Operation::DeepDelete)[0];
    let keep = world.marked(1, Operation::KeepData)[0];
    let state = &world.state;
    for id in [delete, deep] {
        assert!(matches!(
            judge_clean(state, false, id),
            CleanVerdict::Refused(_)
        ));
        assert!(matches!(
            judge_clean(state, true, id),
            CleanVerdict::Clean(_)
        ));
    }
    assert_eq!(
        judge_clean(state, false, keep),
        CleanVerdict::Clean(Operation::KeepData)
    );
    assert_eq!(
        judge_clean(state, true, ObjectId(999)),
        CleanVerdict::NotMarked
    );
}

#[derive(Clone, Debug)]
enum Step {
    Objects(u32),
    Reserve(u32, bool),
    Compact(Vec<u16>, Vec<u8>),
    Composite,
    Clean(Vec<u16>),
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..4u32).prop_map(Step::Objects),
        (1..3u32, any::<bool>()).prop_map(|(count, lapsed)| Step::Reserve(count, lapsed)),
        prop::collection::vec((any::<u16>(), 0..3u8), 1..5).prop_map(|pairs| {
            let (a, b) = pairs.into_iter().unzip();
            Step::Compact(a, b)
        }),
        Just(Step::Composite),
        prop::collection::vec(any::<u16>(), 1..3).prop_map(Step::Clean),
        Just(Step::Expire),
    ]
}

fn build(steps: Vec<Step>) -> (World, BTreeMap<ObjectId, Vec<ObjectId>>) {
    let mut world = World::new();
    let mut composites = BTreeMap::new();
    for step in steps {
        // Any id ever given out: live, reserved, marked, dead or part.
        let pick =
            |world: &World, n: u16| ObjectId(u64::from(n) % world.state.next_object_id().0.max(1));
        match step {
            Step::Objects(count) => drop(world.objects(count)),
            Step::Reserve(count, lapsed) => {
                drop(world.reserve(count, if lapsed { -1 } else { 3_600_000 }));
            }
            Step::Compact(ids, operations) => {
                let ids: Vec<_> = ids.iter().map(|&n| pick(&world, n)).collect();
                let operations: Vec<_> = operations
                    .iter()
                    .filter_map(|&code| Operation::from_code(code))
                    .collect();
                world.compact(&ids, &operations);
            }
            Step::Composite => {
                let (composite, parts) = world.composite();
                composites.insert(composite, parts);
            }
            Step::Clean(ids) => {
                let ids: Vec<_> = ids.iter().map(|&n| pick(&world, n)).collect();
                world.clean(&ids);
            }
            Step::Expire => drop(world.apply(Command::ExpirePreparedObjects { now_ms: NOW })),
        }
    }
    (world, composites)
}

/// What must never go, found the slow way.
fn protected(state: &State, composites: &BTreeMap<ObjectId, Vec<ObjectId>>) -> BTreeSet<ObjectId> {
    let deep: BTreeSet<_> = state
        .marks_after(None)
        .filter(|&(_, _, operation)| operation == Operation::DeepDelete)
        .map(|(_, id, _)| id)
        .collect();
    let live: BTreeSet<_> = state.objects_after(None).map(|object| object.id).collect();
    let linked = composites
        .iter()
        .filter(|(id, _)| live.contains(id) || deep.contains(id))
        .flat_map(|(_, parts)| parts.iter().copied());
    let reserved = state.reservations_after(None).map(|(id, _)| id);
    let kept = state
        .marks_after(None)
        .filter(|&(_, _, operation)| operation == Operation::KeepData)
        .map(|(_, id, _)| id);
    live.iter()
        .copied()
        .chain(linked)
        .chain(reserved)
        .chain(kept)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_protected_never_goes(steps in prop::collection::vec(step(), 1..40)) {
        let (world, composites) = build(steps);
        let state = &world.state;
        let mut links = LinkIndex::default();
        for id in links.missing(state) {
            let found = match composites.get(&id) {
                Some(parts) => Composite::Links(parts.iter().map(|part| part.0).collect()),
                None => Composite::Plain,
            };
            links.record(id, found);
        }
        prop_assert!(links.missing(state).is_empty());
        let marked: BTreeSet<_> = state.marks_after(None).map(|(_, id, _)| id).collect();
        let protected = protected(state, &composites);
        let mut allowed = 0;
        for id in (0..state.next_object_id().0 + 2).map(ObjectId) {
            if judge(state, &links, id) == Verdict::Delete {
                allowed += 1;
                prop_assert!(marked.contains(&id), "{id} has no mark");
                prop_assert!(!protected.contains(&id), "{id} is protected");
            }
        }
        // The rule is not "nothing ever goes".
        let deletable = state
            .marks_after(None)
            .filter(|&(_, id, operation)| {
                operation == Operation::Delete && !protected.contains(&id)
                    && links.linked_by(state, id).is_none() && !links.is_composite(id)
            })
            .count();
        prop_assert_eq!(allowed, deletable);
    }
}
