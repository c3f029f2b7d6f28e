//! Reservations and the destroyed queue.

use super::*;
use crate::Operation;

fn mark(world: &mut World, stream: StreamId, marks: &[(u64, Operation)]) -> Outcome {
    let (sources, operations) = marks
        .iter()
        .map(|&(id, operation)| (ObjectId(id), operation))
        .unzip();
    world.compact(
        1,
        CompactRequest {
            sources,
            operations,
            ..no_compaction(stream)
        },
    )
}

fn clean(world: &mut World, ids: &[u64]) -> Changes {
    let objects = ids.iter().copied().map(ObjectId).collect();
    let applied = world.ok(Command::CleanDestroyedObjects { objects });
    assert_eq!(applied.value, Value::Unit);
    applied.changes
}

#[test]
fn a_mark_keeps_its_place_and_takes_the_new_operation() {
    use Operation::{DeepDelete, Delete, KeepData};
    let mut world = World::new();
    let stream = world.opened();
    mark(&mut world, stream, &[(5, Delete), (3, KeepData)]).unwrap();
    mark(&mut world, stream, &[(5, DeepDelete), (4, Delete)]).unwrap();
    assert_eq!(
        world.queue(),
        [(5, "DeepDelete"), (3, "KeepData"), (4, "Delete")]
    );
    assert_eq!(clean(&mut world, &[5]), Changes::All);
    mark(&mut world, stream, &[(5, Delete)]).unwrap();
    assert_eq!(
        world.queue(),
        [(3, "KeepData"), (4, "Delete"), (5, "Delete")]
    );
    assert_eq!(world.state.mark(ObjectId(5)), Some((3, Delete)));
    assert_eq!(world.state.mark(ObjectId(6)), None);
    assert_eq!(world.state.next_mark_seq(), 4);
}

#[test]
fn a_clean_tells_which_objects_were_queued() {
    let mut world = World::new();
    let stream = world.opened();
    mark(
        &mut world,
        stream,
        &[(1, Operation::Delete), (2, Operation::Delete)],
    )
    .unwrap();
    assert_eq!(clean(&mut world, &[]), Changes::None);
    assert_eq!(clean(&mut world, &[8, 9]), Changes::None);
    assert_eq!(
        clean(&mut world, &[8, 1, 1]),
        Changes::Items([false, true, false].into())
    );
    assert_eq!(clean(&mut world, &[2]), Changes::All);
    assert_eq!(clean(&mut world, &[2]), Changes::None);
}

#[test]
fn a_reservation_ends_at_its_deadline_and_leaves_no_trace() {
    let mut world = World::new();
    world.prepare(2, 10, 100).unwrap();
    world.prepare(1, -5, 100).unwrap();
    assert_eq!(code(&world.prepare(0, 10, 100)), 99);
    let lapsed: Vec<(i64, ObjectId)> = world.state.lapsed(100).collect();
    assert_eq!(lapsed, [(100, ObjectId(2))]);
    let expire = |now_ms| Command::ExpirePreparedObjects { now_ms };
    assert_eq!(
        world.ok(expire(99)),
        Applied {
            value: Value::Count(0),
            changes: Changes::None
        }
    );
    assert_eq!(
        world.ok(expire(109)),
        Applied {
            value: Value::Count(1),
            changes: Changes::All
        }
    );
    assert!(world.state.is_reserved(ObjectId(0)) && !world.state.is_reserved(ObjectId(2)));
    assert_eq!(
        world.ok(expire(110)),
        Applied {
            value: Value::Count(2),
            changes: Changes::All
        }
    );
    assert_eq!(
        world.ok(expire(110)),
        Applied {
            value: Value::Count(0),
            changes: Changes::None
        }
    );
    assert_eq!(
        (world.queue(), world.state.lapsed(i64::MAX).count()),
        (vec![], 0)
    );
}

#[test]
fn a_twin_changes_nothing() {
    let mut world = World::new();
    let stream = world.opened();
    world.prepare(3, 0, 0).unwrap();
    mark(&mut world, stream, &[(1, Operation::Delete)]).unwrap();
    for command in [
        Command::ExpirePreparedObjects { now_ms: 0 },
        Command::CleanDestroyedObjects {
            objects: vec![ObjectId(1)],
        },
    ] {
        assert_eq!(world.ok(command.clone()).changes, Changes::All);
        let after = world.state.clone();
        assert_eq!(world.ok(command).changes, Changes::None);
        assert_eq!(world.state, after);
    }
}

/// A place in the queue that a snapshot has handed out already is taken over,
/// as PicoMQ does; nothing panics and no query shows the object that lost it.
#[test]
fn a_queue_that_went_back_does_not_panic() {
    let mut world = World::new();
    let stream = world.opened();
    mark(
        &mut world,
        stream,
        &[(1, Operation::Delete), (2, Operation::Delete)],
    )
    .unwrap();
    world.state.next_destroyed_seq = 0;
    mark(&mut world, stream, &[(3, Operation::KeepData)]).unwrap();
    assert_eq!(world.queue(), [(3, "KeepData"), (2, "Delete")]);
    assert_eq!(world.state.mark(ObjectId(1)), None);
    world.state.next_destroyed_seq = u64::MAX;
    mark(
        &mut world,
        stream,
        &[(4, Operation::Delete), (5, Operation::Delete)],
    )
    .unwrap();
    clean(&mut world, &[1, 2, 3, 4, 5]);
    assert_eq!(world.queue(), []);
}
