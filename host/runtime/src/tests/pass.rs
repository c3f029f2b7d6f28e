//! Single passes and their plans.

use std::collections::BTreeSet;

use aedile_state::{Command, ObjectId, Operation};
use tempfile::TempDir;

use super::cluster::Cluster;
use crate::Outcome;
use crate::guard::testing::{EPOCH, NODE, World, composite_bytes as composite};

const PAST: i64 = 1_600_000_000_000;

/// Everything that a queue can hold.
struct Everything {
    cluster: Cluster,
    live: Vec<ObjectId>,
    delete: Vec<ObjectId>,
    keep: Vec<ObjectId>,
    /// Marked DeepDelete: a plain object, a composite with its parts, and one
    /// that cannot be read with its own.
    deep: ObjectId,
    deep_composite: (ObjectId, Vec<ObjectId>),
    unreadable: (ObjectId, Vec<ObjectId>),
    /// A live composite and its parts, one of which is marked for deletion.
    composite: (ObjectId, Vec<ObjectId>),
    marked_live: ObjectId,
    /// A composite whose mark follows no links, and its parts.
    marked_composite: (ObjectId, Vec<ObjectId>),
    absent: ObjectId,
}

async fn everything() -> Everything {
    let mut world = World::new();
    let live = world.objects(5);
    let delete = world.marked(30, Operation::Delete);
    let keep = world.marked(3, Operation::KeepData);
    let deep = world.marked(1, Operation::DeepDelete)[0];
    let deep_composite = world.composite();
    let unreadable = world.composite();
    world.compact(
        &[deep_composite.0, unreadable.0],
        &[Operation::DeepDelete; 2],
    );
    let composite_and_parts = world.composite();
    world.compact(&composite_and_parts.1[..1], &[Operation::Delete]);
    let marked_live = world.objects(1)[0];
    world.mark_elsewhere(marked_live);
    let marked_composite = world.composite();
    world.compact(&[marked_composite.0], &[Operation::Delete]);
    let absent = world.marked(1, Operation::Delete)[0];
    for ttl_ms in [0, 1, 10_000_000_000_000] {
        world.apply(Command::PrepareObject {
            node: NODE,
            node_epoch: EPOCH,
            count: 2,
            ttl_ms,
            now_ms: PAST,
        });
    }
    let cluster = Cluster::with(&world.commands).await;
    let composites = [
        &deep_composite,
        &unreadable,
        &composite_and_parts,
        &marked_composite,
    ];
    for (id, parts) in composites {
        cluster.put(parts, b"data");
        cluster.put(&[*id], &composite(parts));
    }
    cluster.put(&[unreadable.0], &composite(&unreadable.1)[1..]);
    for ids in [&live, &delete, &keep] {
        cluster.put(ids, b"data");
    }
    cluster.put(&[deep, marked_live], b"data");
    Everything {
        cluster,
        live,
        delete,
        keep,
        deep,
        deep_composite,
        unreadable,
        composite: composite_and_parts,
        marked_live,
        marked_composite,
        absent,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_does_what_its_plan_says_and_the_second_appends_nothing() {
    let all = everything().await;
    let cluster = &all.cluster;
    let before = cluster.view().await;
    let plan = cluster.plan().await;
    assert_eq!(
        cluster.view().await.index,
        before.index,
        "a plan writes nothing"
    );

    let outcome = cluster.pass().await;
    let after = cluster.view().await;

    // What must be there is, and what must be gone is.
    let kept = all.live.iter().chain(&all.keep).chain(&all.composite.1);
    let kept = kept.chain(&all.unreadable.1).chain(&all.marked_composite.1);
    for id in kept.chain(&[all.composite.0, all.unreadable.0, all.marked_live]) {
        assert!(cluster.has(*id), "object {id} is gone");
    }
    let deeply = all
        .deep_composite
        .1
        .iter()
        .chain([&all.deep_composite.0, &all.deep]);
    let gone: BTreeSet<ObjectId> = all
        .delete
        .iter()
        .chain([&all.marked_composite.0])
        .chain(deeply)
        .copied()
        .collect();
    for id in &gone {
        assert!(!cluster.has(*id), "object {id} is still there");
    }
    let left: BTreeSet<_> = after.state.marks_after(None).map(|(_, id, _)| id).collect();
    let expected = [all.unreadable.0, all.composite.1[0], all.marked_live];
    assert_eq!(left, BTreeSet::from(expected));
    assert_eq!(after.state.counts().reservations, 2);

    // The plan said so.
    let planned: BTreeSet<_> = plan
        .deletes
        .iter()
        .map(|delete| ObjectId(delete.id))
        .collect();
    assert_eq!(planned, gone.iter().copied().chain([all.absent]).collect());
    let parts = plan
        .deletes
        .iter()
        .filter(|delete| delete.part_of.is_some());
    let parts: Vec<_> = parts.map(|part| (part.part_of, part.id)).collect();
    let of = Some(all.deep_composite.0.0);
    let expected: Vec<_> = all
        .deep_composite
        .1
        .iter()
        .map(|part| (of, part.0))
        .collect();
    assert_eq!(
        parts, expected,
        "the parts are listed, each with its composite"
    );
    let cleaned: BTreeSet<_> = plan.cleans.iter().map(|clean| ObjectId(clean.id)).collect();
    let were: BTreeSet<_> = before
        .state
        .marks_after(None)
        .map(|(_, id, _)| id)
        .collect();
    assert_eq!(cleaned, were.difference(&left).copied().collect());
    assert_eq!(plan.expires.len(), 4);
    assert_eq!(plan.refused, []);

    // What was left is named, by both.
    let Outcome::LeftOver {
        totals,
        parked,
        conflicts,
        failed,
        plugins,
        store_suspect,
    } = outcome
    else {
        panic!("something is left");
    };
    assert_eq!(totals.deleted as usize, gone.len());
    assert_eq!(totals.parts, 3);
    assert_eq!(totals.cleaned as usize, plan.cleans.len());
    assert_eq!(totals.expired, 4);
    assert_eq!(
        (&failed, &plugins, &store_suspect),
        (&vec![], &vec![], &None)
    );
    assert_eq!((&parked, &conflicts), (&plan.parked, &plan.conflicts));
    let ids = |list: &[crate::plan::LeftObject]| -> BTreeSet<u64> {
        list.iter().map(|left| left.id).collect()
    };
    assert_eq!(ids(&parked), BTreeSet::from([all.unreadable.0.0]));
    assert_eq!(
        ids(&conflicts),
        BTreeSet::from([all.marked_live.0, all.composite.1[0].0])
    );

    let again = cluster.pass().await;
    assert!(again.only_conflicts_and_parked());
    assert_eq!(again.totals().cleaned, 0);
    assert_eq!(
        cluster.view().await.index,
        after.index,
        "the second pass appended"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_the_wrong_directory_nothing_goes_and_nothing_is_forgotten() {
    let mut world = World::new();
    let live = world.objects(40);
    let delete = world.marked(10, Operation::Delete);
    let keep = world.marked(2, Operation::KeepData);
    let cluster = Cluster::with(&world.commands).await;
    cluster.put(&live, b"data");
    cluster.put(&delete, b"data");
    let wrong = TempDir::new().expect("a directory");
    let store = cluster.store_at(wrong.path());
    let before = cluster.view().await.index;
    let outcome = cluster
        .pass_with(cluster.options("pass"), store)
        .await
        .expect("a pass");
    let Outcome::LeftOver {
        store_suspect: Some(text),
        totals,
        failed,
        ..
    } = outcome
    else {
        panic!("a doubt, not {outcome:?}");
    };
    assert!(text.contains("wrong bucket"), "{text}");
    assert_eq!((totals.deleted, failed.len()), (0, 0));
    let view = cluster.view().await;
    assert_eq!(view.index, before, "nothing at all is changed");
    for &id in &delete {
        assert!(view.state.mark(id).is_some() && cluster.has(id));
    }
    for &id in &keep {
        assert!(view.state.mark(id).is_some());
    }
    // In the right one all of it goes.
    assert_eq!(cluster.pass().await.totals().deleted, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_nothing_to_look_for_the_operator_confirms_an_empty_store() {
    let mut world = World::new();
    world.marked(10, Operation::Delete);
    let cluster = Cluster::with(&world.commands).await;
    let Outcome::LeftOver {
        store_suspect: Some(text),
        totals,
        ..
    } = cluster.pass().await
    else {
        panic!("a doubt");
    };
    assert!(text.contains("--confirm-empty-store"), "{text}");
    assert_eq!(totals.cleaned, 0);
    let mut options = cluster.options("pass");
    options.confirm_empty_store = true;
    let outcome = cluster
        .pass_with(options, cluster.store())
        .await
        .expect("a pass");
    assert!(matches!(outcome, Outcome::Idle { totals } if totals.cleaned == 10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_composite_that_cannot_be_read_holds_back_what_may_be_its_parts() {
    let mut world = World::new();
    let live = world.objects(2);
    let delete = world.marked(3, Operation::Delete);
    let (unreadable, parts) = world.composite();
    // Marked by mistake: only the composite's own bytes say that it is read.
    world.compact(&parts[..1], &[Operation::Delete]);
    let younger = world.marked(4, Operation::Delete);
    let cluster = Cluster::with(&world.commands).await;
    for ids in [&live, &delete, &parts, &younger] {
        cluster.put(ids, b"data");
    }
    let mut bytes = composite(&parts);
    bytes.remove(20);
    cluster.put(&[unreadable], &bytes);
    let outcome = cluster.pass().await;
    let Outcome::LeftOver {
        totals,
        failed,
        store_suspect: Some(text),
        ..
    } = outcome
    else {
        panic!("the composite is named, not {outcome:?}");
    };
    assert_eq!(totals.deleted, 4, "what is younger goes");
    assert!(delete.iter().all(|&id| cluster.has(id)));
    assert_eq!(failed.len(), 4, "{failed:?}");
    assert!(text.contains(&format!("composite {unreadable}")), "{text}");
    // Restored, it goes on, and its parts stay.
    cluster.put(&[unreadable], &composite(&parts));
    let outcome = cluster.pass().await;
    assert_eq!(outcome.totals().deleted, 3, "{outcome:?}");
    assert!(outcome.only_conflicts_and_parked());
    assert!(parts.iter().all(|&id| cluster.has(id)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_undeletable_object_does_not_hold_up_the_others() {
    let mut world = World::new();
    let live = world.objects(1);
    let delete = world.marked(1500, Operation::Delete);
    let cluster = Cluster::with(&world.commands).await;
    cluster.put(&live, b"data");
    cluster.put(&delete[1..], b"data");
    cluster.put_undeletable(delete[0]);
    let Outcome::LeftOver { totals, failed, .. } = cluster.pass().await else {
        panic!("one is left");
    };
    assert_eq!(totals.deleted, 1499);
    assert_eq!(
        failed.iter().map(|left| left.id).collect::<Vec<_>>(),
        [delete[0].0]
    );
    let marks = cluster.view().await.state.counts().marks;
    assert_eq!(marks, 1);
}
