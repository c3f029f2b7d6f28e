//! Queries over a state with objects of both kinds.

use super::*;
use crate::{ObjectKind, bucket, is_composite};

/// Stream objects with even ids, stream-set objects with odd ones.
fn mixed(objects: u64) -> (World, StreamId) {
    let mut world = World::new();
    let stream = world.opened();
    for id in 0..objects {
        if id % 2 == 0 {
            world.object(id * 10, stream, 1);
        } else {
            let request = CommitRequest {
                object: ObjectId(id * 10),
                object_size: 1,
                ..nothing()
            };
            world.commit(1, request).unwrap();
        }
    }
    (world, stream)
}

#[test]
fn objects_of_both_kinds_come_in_the_order_of_ids() {
    let (world, _) = mixed(6);
    assert_eq!(world.live(), [0, 10, 20, 30, 40, 50]);
    let after: Vec<u64> = world
        .state
        .objects_after(Some(ObjectId(20)))
        .map(|o| o.id.0)
        .collect();
    assert_eq!(after, [30, 40, 50]);
    assert_eq!(world.state.objects_after(Some(NOOP)).count(), 0);
    let kinds: Vec<ObjectKind> = world
        .state
        .objects_after(None)
        .map(|o| o.kind)
        .take(2)
        .collect();
    assert_eq!(kinds, [ObjectKind::Stream, ObjectKind::StreamSet]);
    let counts = world.state.counts();
    assert_eq!((counts.live_objects(), counts.stream_objects), (6, 3));
}

#[test]
fn pages_join_without_gap_or_overlap() {
    let (mut world, stream) = mixed(9);
    world.create();
    let other = world.opened();
    world.object(5, other, 1);
    let mut pages = Vec::new();
    let mut last = None;
    loop {
        let page: Vec<_> = world
            .state
            .stream_objects_after(stream, last)
            .take(2)
            .collect();
        let Some(object) = page.last() else {
            break;
        };
        last = Some((object.ranges[0].start_offset, object.id));
        pages.extend(page.into_iter().map(|object| object.id.0));
    }
    assert_eq!(pages, [0, 20, 40, 60, 80]);
    let streams: Vec<_> = world
        .state
        .streams_after(Some(stream))
        .map(|s| s.id.0)
        .collect();
    assert_eq!(streams, [1, 2]);
    assert_eq!(world.state.nodes_after(Some(NodeId(0))).count(), 1);
    assert_eq!(world.state.nodes_after(Some(NODE)).count(), 0);
}

#[test]
fn keys_are_scanned_by_prefix() {
    let mut world = World::new();
    for key in ["a", "ab", "ab/1", "ab/2", "ac", "b"] {
        world.ok(Command::PutKv {
            key: key.to_owned(),
            value: key.as_bytes().to_vec(),
        });
    }
    let scan = |prefix, last| {
        world
            .state
            .kv_scan(prefix, last)
            .map(|(key, _)| key)
            .collect::<Vec<_>>()
    };
    assert_eq!(scan("ab", None), ["ab", "ab/1", "ab/2"]);
    assert_eq!(scan("ab", Some("ab/1")), ["ab/2"]);
    assert_eq!(scan("ab", Some("a")), ["ab", "ab/1", "ab/2"]);
    assert_eq!(scan("ab", Some("b")), [""; 0]);
    assert_eq!(scan("", Some("ac")), ["b"]);
    assert_eq!(scan("c", None), [""; 0]);
}

#[test]
fn a_sample_is_spread_and_distinct() {
    assert!(World::new().state.sample_live(5).is_empty());
    let (world, _) = mixed(100);
    let sample = world.state.sample_live(5);
    assert_eq!(sample.first(), Some(&ObjectId(0)));
    assert_eq!(sample.last(), Some(&ObjectId(990)));
    assert_eq!(sample.len(), 5);
    assert!(
        sample.windows(2).all(|pair| pair[1].0 - pair[0].0 > 200),
        "{sample:?}"
    );
    assert_eq!(world.state.sample_live(1), [ObjectId(0)]);
    assert_eq!(world.state.sample_live(0), []);
    assert_eq!(world.state.sample_live(1000).len(), 100);

    // Ids in two clumps, as wide apart as ids can be.
    let mut world = World::new();
    let stream = world.opened();
    for id in [0, 1, 2, u64::MAX - 1, u64::MAX] {
        let object = CommitStreamObject {
            object_size: 1,
            ..stream_object(0, stream, 0, 0)
        };
        let request = CommitRequest {
            stream_objects: vec![CommitStreamObject {
                object: ObjectId(id),
                ..object
            }],
            ..nothing()
        };
        world.commit(1, request).unwrap();
    }
    assert_eq!(world.state.sample_live(4).len(), 4);
    assert_eq!(world.state.sample_live(5).len(), 5);
}

#[test]
fn attributes_tell_composite_and_bucket() {
    assert_eq!((bucket(262_136), is_composite(262_136)), (-2, false));
    assert_eq!((bucket(262_137), is_composite(262_137)), (-2, true));
    assert_eq!((bucket(1 << 18), is_composite(0b11)), (0, false));
    assert_eq!(bucket(5 << 2), 5);
}

/// A clone is a handle to the same data: equal afterwards whatever happens to
/// the other, and sharing all that has not changed.
#[test]
fn a_clone_shares_and_stays() {
    let (mut world, stream) = mixed(2000);
    let view = world.state.clone();
    let bytes = view.encode_snapshot();
    assert!(view.stream_objects.ptr_eq(&world.state.stream_objects));
    world.close(stream, 0).unwrap();
    assert!(view.stream_objects.ptr_eq(&world.state.stream_objects));
    world.delete(stream, 0).unwrap();
    assert_eq!(view.encode_snapshot(), bytes);
    assert_eq!(view.first_difference(&world.state), Some("streams"));
}
