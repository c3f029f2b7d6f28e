//! Compactions of stream objects.

use super::*;
use crate::Operation;

fn ids(list: &[u64]) -> Vec<ObjectId> {
    list.iter().copied().map(ObjectId).collect()
}

/// A stream with objects 0, 1 and 2 of ten offsets each.
fn three() -> (World, StreamId) {
    let mut world = World::new();
    let stream = world.opened();
    for id in 0..3 {
        world.object(id, stream, 10);
    }
    (world, stream)
}

#[test]
fn sources_make_way_for_the_new_object() {
    let (mut world, stream) = three();
    let request = CompactRequest {
        object: ObjectId(9),
        end_offset: 20,
        attributes: 1,
        sources: ids(&[0, 1]),
        operations: vec![Operation::KeepData, Operation::Delete],
        ..no_compaction(stream)
    };
    assert_eq!(world.compact(5, request.clone()), unit(Changes::All));
    assert_eq!(world.compact(5, request), Err(Rejection::Redundant));
    assert_eq!(world.live(), [2, 9]);
    assert_eq!(world.queue(), [(0, "KeepData"), (1, "Delete")]);
    assert_eq!(world.state.composites().collect::<Vec<_>>(), ids(&[9]));
    let away = CompactRequest {
        sources: ids(&[9]),
        ..no_compaction(stream)
    };
    world.compact(6, away).unwrap();
    assert_eq!(world.state.composites().count(), 0);
}

#[test]
fn checks_come_in_order() {
    let (mut world, stream) = three();
    let other = world.opened();
    world.object(7, other, 1);
    let set = CommitRequest {
        object: ObjectId(8),
        ..nothing()
    };
    world.commit(1, set).unwrap();
    let good = CompactRequest {
        object: ObjectId(9),
        sources: ids(&[0]),
        ..no_compaction(stream)
    };
    for (what, request, expected) in [
        (
            "no stream",
            CompactRequest {
                stream: StreamId(99),
                ..good.clone()
            },
            1,
        ),
        (
            "another epoch",
            CompactRequest {
                stream_epoch: u64::MAX,
                ..good.clone()
            },
            4,
        ),
        (
            "beyond the end",
            CompactRequest {
                end_offset: 31,
                ..good.clone()
            },
            99,
        ),
        (
            "an object of another stream",
            CompactRequest {
                object: ObjectId(7),
                ..good.clone()
            },
            99,
        ),
        (
            "a stream-set object",
            CompactRequest {
                object: ObjectId(8),
                ..good.clone()
            },
            99,
        ),
        (
            "operations of another number",
            CompactRequest {
                operations: vec![Operation::Delete; 2],
                ..good.clone()
            },
            99,
        ),
        // What a covering trim asks for: PicoMQ rejects it, and so do we.
        (
            "no offsets",
            CompactRequest {
                object: NOOP,
                start_offset: u64::MAX,
                end_offset: u64::MAX,
                ..good.clone()
            },
            99,
        ),
        (
            "done already, with all else wrong",
            CompactRequest {
                object: ObjectId(1),
                stream_epoch: 9,
                ..good.clone()
            },
            6,
        ),
    ] {
        assert_eq!(code(&world.compact(5, request)), expected, "{what}");
    }
    world.trim(stream, 0, 10).unwrap();
    assert_eq!(code(&world.compact(5, good)), 99);
}

/// Every source is marked, whatever it is: a mark can name a live object.
#[test]
fn a_mark_can_name_a_live_object() {
    let (mut world, stream) = three();
    let other = world.opened();
    world.object(7, other, 1);
    world.prepare(20, 10, 0).unwrap();
    let request = CompactRequest {
        sources: ids(&[7, 15, 1000]),
        ..no_compaction(stream)
    };
    world.compact(5, request).unwrap();
    assert_eq!(
        world.queue(),
        [(7, "Delete"), (15, "Delete"), (1000, "Delete")]
    );
    assert!(world.state.is_live(ObjectId(7)) && world.state.is_reserved(ObjectId(15)));
}

#[test]
fn a_new_object_among_its_sources_leaves_at_once() {
    let (mut world, stream) = three();
    world.prepare(10, 10, 0).unwrap();
    let request = CompactRequest {
        object: ObjectId(9),
        sources: ids(&[9]),
        ..no_compaction(stream)
    };
    assert_eq!(world.compact(5, request.clone()), unit(Changes::All));
    assert_eq!(
        (world.live(), world.queue()),
        (vec![0, 1, 2], vec![(9, "Delete")])
    );
    assert!(!world.state.is_reserved(ObjectId(9)));
    assert_eq!(world.compact(5, request), unit(Changes::None));
}

#[test]
fn a_request_that_ends_as_it_began_changed_nothing() {
    let (mut world, stream) = three();
    assert_eq!(world.compact(5, no_compaction(stream)), unit(Changes::None));
    let mark = |operations: &[Operation]| CompactRequest {
        sources: vec![ObjectId(50); operations.len()],
        operations: operations.to_vec(),
        ..no_compaction(stream)
    };
    use Operation::{Delete, KeepData};
    assert_eq!(world.compact(5, mark(&[KeepData])), unit(Changes::All));
    assert_eq!(world.compact(5, mark(&[KeepData])), unit(Changes::None));
    assert_eq!(
        world.compact(5, mark(&[Delete, KeepData])),
        unit(Changes::None)
    );
    assert_eq!(
        world.compact(5, mark(&[KeepData, Delete])),
        unit(Changes::All)
    );
}

/// Operations without sources are ignored.
#[test]
fn operations_alone_say_nothing() {
    let (mut world, stream) = three();
    let request = CompactRequest {
        operations: vec![Operation::DeepDelete],
        ..no_compaction(stream)
    };
    assert_eq!(world.compact(5, request), unit(Changes::None));
}

/// A dead id can come back: neither reservation nor mark is looked at.
#[test]
fn a_dead_id_can_come_back() {
    let (mut world, stream) = three();
    let away = CompactRequest {
        sources: ids(&[0]),
        ..no_compaction(stream)
    };
    world.compact(5, away).unwrap();
    let back = CompactRequest {
        object: ObjectId(0),
        end_offset: 10,
        ..no_compaction(stream)
    };
    world.compact(6, back).unwrap();
    assert!(world.state.is_live(ObjectId(0)) && world.state.mark(ObjectId(0)).is_some());
}

/// Also the id that means no object can be reserved, by a snapshot at least;
/// a compaction without an object ends that reservation.
#[test]
fn a_reservation_of_none_ends() {
    let (mut world, stream) = three();
    world.state.prepared.insert(NOOP, 9);
    world.state.prepared_by_deadline.insert((9, NOOP));
    assert_eq!(world.compact(5, no_compaction(stream)), unit(Changes::All));
    assert_eq!(world.state.counts().reservations, 0);
    assert_eq!(world.state.lapsed(9).count(), 0);
}
