//! The decision table, and a property over catalogs that random commands made.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aedile_clock::BootInstant;
use aedile_state::{Command, NOOP, ObjectId, Operation, State};
use aedile_storage::Composite;
use proptest::prelude::*;

use super::judge::{CleanVerdict, PartVerdict, judge_clean, judge_part};
use super::testing::{EPOCH, NODE, NOW, World};
use super::{Conflict, LinkIndex, Verdict, judge};

fn none() -> LinkIndex {
    LinkIndex::default()
}

fn record(links: &mut LinkIndex, state: &State, id: ObjectId, found: Composite) {
    links.record(state, id, found, BootInstant::from_boot(Duration::ZERO));
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
    let mut plain = none();
    record(&mut plain, state, deep, Composite::Plain);
    for (id, verdict) in [
        (live, Verdict::NotMarked),
        (reserved, Verdict::NotMarked),
        (lapsed, Verdict::NotMarked),
        (ObjectId(999), Verdict::NotMarked),
        (NOOP, Verdict::NotMarked),
        (delete, Verdict::Delete),
        (keep, Verdict::KeepData),
        (deep, Verdict::Delete),
        (marked_live, Verdict::Conflict(Conflict::Live)),
        (marked_reserved, Verdict::Conflict(Conflict::Reserved)),
    ] {
        assert_eq!(judge(state, &plain, id), verdict, "object {id}");
    }
    assert!(matches!(
        judge(state, &none(), deep),
        Verdict::Unreadable(_)
    ));

    // A plain Delete follows no links, whatever the object is.
    let mut links = none();
    record(&mut links, state, delete, Composite::Links(vec![1, 2]));
    assert_eq!(judge(state, &links, delete), Verdict::Delete);
    let mut links = none();
    record(
        &mut links,
        state,
        live,
        Composite::Links(vec![delete.0, deep.0]),
    );
    for id in [delete, deep] {
        let linked = Verdict::Conflict(Conflict::Linked(live));
        assert_eq!(judge(state, &links, id), linked);
    }
    // What a composite links that is itself gone protects nothing.
    let mut links = none();
    record(
        &mut links,
        state,
        ObjectId(999),
        Composite::Links(vec![delete.0]),
    );
    assert_eq!(judge(state, &links, delete), Verdict::Delete);
    // A live composite that cannot be read: `delete` is older and was dead.
    let mut links = none();
    let younger = marked_reserved;
    record(
        &mut links,
        state,
        marked_live,
        Composite::Unreadable("cut".to_owned()),
    );
    assert!(matches!(judge(state, &links, delete), Verdict::Held(_)));
    assert!(matches!(judge(state, &links, deep), Verdict::Held(_)));
    assert_eq!(judge(state, &links, keep), Verdict::KeepData);
    assert_eq!(links.holds_back(state, younger), None);
}

#[test]
fn a_deep_delete_of_what_cannot_be_read_or_is_damaged_is_refused() {
    let mut world = World::new();
    let part = world.marked(1, Operation::KeepData)[0];
    let deep = world.marked(1, Operation::DeepDelete)[0];
    let state = &world.state;
    for (found, allowed) in [
        (Composite::Plain, true),
        (Composite::Absent, true),
        (Composite::Links(vec![part.0]), true),
        (Composite::Links(Vec::new()), true),
        (Composite::Unreadable("bad magic".to_owned()), false),
        // To itself, and to what is younger: no compaction writes that.
        (Composite::Links(vec![part.0, deep.0]), false),
        (Composite::Links(vec![deep.0 + 1]), false),
        (Composite::Links(vec![u64::MAX]), false),
    ] {
        let mut links = none();
        record(&mut links, state, deep, found.clone());
        let verdict = judge(state, &links, deep);
        assert_eq!(
            verdict == Verdict::Delete,
            allowed,
            "{found:?}: {verdict:?}"
        );
        assert!(
            allowed || matches!(verdict, Verdict::Unreadable(_)),
            "{verdict:?}"
        );
    }
}

#[test]
fn a_part_goes_only_if_nothing_else_needs_it() {
    let mut world = World::new();
    let (gone, parts) = world.composite();
    let live = world.objects(1)[0];
    let reserved = world.reserve(1, 3_600_000)[0];
    world.compact(&[gone], &[Operation::DeepDelete]);
    let (other, _) = world.composite();
    let unread = world.marked(1, Operation::Delete)[0];
    let state = &world.state;
    let mut links = none();
    record(
        &mut links,
        state,
        gone,
        Composite::Links(vec![parts[0].0, parts[1].0]),
    );
    record(&mut links, state, other, Composite::Links(vec![parts[1].0]));
    let verdict = |links: &LinkIndex, part| judge_part(state, links, part, |id| id == gone);
    assert_eq!(verdict(&links, parts[0]), PartVerdict::Take);
    assert_eq!(verdict(&links, unread), PartVerdict::Take);
    let never = ObjectId(state.next_object_id().0);
    for part in [parts[1], live, reserved, never] {
        assert_eq!(verdict(&links, part), PartVerdict::Stays, "{part}");
    }
    let mut links = none();
    record(&mut links, state, other, Composite::Absent);
    assert!(matches!(verdict(&links, parts[0]), PartVerdict::Held(_)));
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
    let live: BTreeSet<_> = state.objects_after(None).map(|object| object.id).collect();
    let linked = composites
        .iter()
        .filter(|(id, _)| live.contains(id))
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
        let now = BootInstant::from_boot(Duration::ZERO);
        let mut links = LinkIndex::default();
        let deep = state
            .marks_after(None)
            .filter(|&(_, _, operation)| operation == Operation::DeepDelete)
            .map(|(_, id, _)| id);
        for id in links.missing(state, now).into_iter().chain(deep) {
            let found = match composites.get(&id) {
                Some(parts) => Composite::Links(parts.iter().map(|part| part.0).collect()),
                None => Composite::Plain,
            };
            links.record(state, id, found, now);
        }
        prop_assert!(links.missing(state, now).is_empty());
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
        let deletable = marked.iter().filter(|id| !protected.contains(id)).count();
        prop_assert_eq!(allowed, deletable);
    }
}
