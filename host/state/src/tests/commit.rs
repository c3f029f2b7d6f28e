//! Commits: what one request builds up by itself, and every way in which its
//! middle can fail. `World::apply` checks that a failure leaves no trace.

use super::*;
use crate::ObjectKind;

#[test]
fn ranges_of_one_request_chain() {
    let mut world = World::new();
    let stream = world.opened();
    world.prepare(3, 10, 0).unwrap();
    let request = CommitRequest {
        object: ObjectId(0),
        object_size: 9,
        ranges: vec![range(stream, 0, 5), range(stream, 5, 8)],
        stream_objects: vec![stream_object(1, stream, 8, 20)],
        ..nothing()
    };
    assert_eq!(world.commit(7, request), unit(Changes::All));
    assert_eq!(world.state.stream(stream).unwrap().end_offset, 20);
    assert_eq!(world.live(), [0, 1]);
    assert!(!world.state.is_reserved(ObjectId(0)) && world.state.is_reserved(ObjectId(2)));
    let set = world.state.object(ObjectId(0)).unwrap();
    assert_eq!(
        (set.kind, set.node, set.ranges.len()),
        (ObjectKind::StreamSet, Some(NODE), 2)
    );
    assert_eq!((set.committed_ms, set.data_ms), (7, 7));
    assert_eq!(world.state.counts().live_bytes, 9 + 101);
}

#[test]
fn a_failure_in_the_middle_leaves_no_trace() {
    let mut world = World::new();
    let (stream, gone) = (world.opened(), StreamId(99));
    world.object(50, stream, 5);
    let set = CommitRequest {
        object: ObjectId(60),
        ranges: vec![range(stream, 5, 6)],
        ..nothing()
    };
    world.commit(1, set).unwrap();
    let whole = CommitRequest {
        object: ObjectId(10),
        ranges: vec![range(stream, 6, 7)],
        stream_objects: vec![
            stream_object(11, stream, 7, 8),
            stream_object(12, stream, 8, 9),
        ],
        ..nothing()
    };
    let objects = |list: &[CommitStreamObject]| CommitRequest {
        stream_objects: list.to_vec(),
        ..whole.clone()
    };
    let first = stream_object(11, stream, 7, 8);
    for (what, request, expected) in [
        (
            "the id of a stream object",
            CommitRequest {
                object: ObjectId(50),
                ..whole.clone()
            },
            99,
        ),
        (
            "a range of no stream",
            CommitRequest {
                ranges: vec![range(stream, 6, 7), range(gone, 0, 1)],
                ..whole.clone()
            },
            1,
        ),
        (
            "a range with a gap",
            CommitRequest {
                ranges: vec![range(stream, 6, 7), range(stream, 8, 9)],
                ..whole.clone()
            },
            99,
        ),
        (
            "an object of no stream",
            objects(&[first, stream_object(12, gone, 0, 1)]),
            1,
        ),
        (
            "an object with a gap",
            objects(&[first, stream_object(12, stream, 9, 10)]),
            99,
        ),
        (
            "the id of the request's own object",
            objects(&[first, stream_object(10, stream, 8, 9)]),
            99,
        ),
        (
            "the id of a stream-set object",
            objects(&[first, stream_object(60, stream, 8, 9)]),
            99,
        ),
        (
            "a live id at another place",
            objects(&[first, stream_object(50, stream, 8, 9)]),
            99,
        ),
        (
            "one id at two places",
            objects(&[first, stream_object(11, stream, 8, 9)]),
            99,
        ),
        (
            "an unknown compacted object",
            CommitRequest {
                compacted: vec![ObjectId(60), ObjectId(61)],
                ..whole.clone()
            },
            99,
        ),
    ] {
        assert_eq!(code(&world.commit(2, request)), expected, "{what}");
    }
    assert_eq!(world.commit(2, whole), unit(Changes::All));
}

#[test]
fn what_is_committed_already_is_redundant() {
    let mut world = World::new();
    let stream = world.opened();
    let request = CommitRequest {
        object: ObjectId(1),
        stream_objects: vec![stream_object(2, stream, 0, 1)],
        ..nothing()
    };
    world.commit(1, request.clone()).unwrap();
    assert_eq!(world.commit(1, request.clone()), Err(Rejection::Redundant));
    let streams = CommitRequest {
        object: NOOP,
        ..request.clone()
    };
    assert_eq!(world.commit(1, streams.clone()), Err(Rejection::Redundant));
    // One that is new makes the others conflict.
    let mut more = streams;
    more.stream_objects.push(stream_object(3, stream, 1, 2));
    assert_eq!(code(&world.commit(1, more)), 99);
    assert_eq!(world.commit(1, nothing()), unit(Changes::None));
}

#[test]
fn one_object_twice_at_one_place_is_one_object() {
    let mut world = World::new();
    let stream = world.opened();
    let twice = vec![
        stream_object(1, stream, 0, 0),
        stream_object(1, stream, 0, 4),
    ];
    world
        .commit(
            1,
            CommitRequest {
                stream_objects: twice,
                ..nothing()
            },
        )
        .unwrap();
    let object = world.state.object(ObjectId(1)).unwrap();
    assert_eq!(object.ranges[0].end_offset, 4);
    assert_eq!(world.state.counts().live_bytes, 101);
}

#[test]
fn compaction_moves_no_offset_and_keeps_the_oldest_time() {
    let mut world = World::new();
    let stream = world.opened();
    for (id, now, start) in [(1, 30, 0), (2, 20, 5)] {
        let ranges = vec![range(stream, start, start + 5)];
        world
            .commit(
                now,
                CommitRequest {
                    object: ObjectId(id),
                    ranges,
                    ..nothing()
                },
            )
            .unwrap();
    }
    let compacted = vec![ObjectId(1), ObjectId(2), ObjectId(1)];
    let beyond = CommitRequest {
        stream_objects: vec![stream_object(9, stream, 0, 11)],
        compacted: compacted.clone(),
        ..nothing()
    };
    assert_eq!(code(&world.commit(40, beyond)), 99);
    let request = CommitRequest {
        object: ObjectId(3),
        ranges: vec![range(stream, 5, 10)],
        // The id of a compacted object is free by then.
        stream_objects: vec![stream_object(2, stream, 0, 5)],
        compacted,
        ..nothing()
    };
    world.commit(40, request).unwrap();
    assert_eq!(world.live(), [2, 3]);
    assert_eq!(world.queue(), [(1, "Delete"), (2, "Delete")]);
    let object = world.state.object(ObjectId(2)).unwrap();
    assert_eq!(
        (object.kind, object.committed_ms, object.data_ms),
        (ObjectKind::Stream, 40, 20)
    );
    assert_eq!(world.state.stream(stream).unwrap().end_offset, 10);
}

/// A range that ends below its start is accepted, as in PicoMQ.
#[test]
fn an_offset_may_go_back() {
    let mut world = World::new();
    let stream = world.opened();
    world.object(0, stream, 10);
    let ranges = vec![range(stream, 10, 2), range(stream, 2, 10)];
    world
        .commit(
            1,
            CommitRequest {
                object: ObjectId(1),
                ranges,
                ..nothing()
            },
        )
        .unwrap();
    assert_eq!(world.state.stream(stream).unwrap().end_offset, 10);
}

#[test]
fn without_an_object_ranges_are_ignored() {
    let mut world = World::new();
    let ranges = vec![range(StreamId(99), 3, 4)];
    assert_eq!(
        world.commit(
            1,
            CommitRequest {
                ranges,
                ..nothing()
            }
        ),
        unit(Changes::None)
    );
}

/// After the expiry, the commit of a slow upload is accepted still.
#[test]
fn a_late_commit_is_accepted() {
    let mut world = World::new();
    let stream = world.opened();
    world.prepare(1, 0, 0).unwrap();
    world.ok(Command::ExpirePreparedObjects { now_ms: 1 });
    world.object(0, stream, 1);
    assert!(world.state.is_live(ObjectId(0)));
}
