//! The snapshot's decoder on payloads that PicoMQ's would accept or refuse.

use super::*;
use crate::DecodeError;

/// A state with an entry in every list.
fn full() -> World {
    let mut world = World::new();
    let stream = world.opened();
    world.prepare(5, 10, 0).unwrap();
    world.object(1, stream, 3);
    let ranges = vec![range(stream, 3, 4), range(stream, 4, 6)];
    world
        .commit(
            2,
            CommitRequest {
                object: ObjectId(2),
                ranges,
                ..nothing()
            },
        )
        .unwrap();
    let sources = vec![ObjectId(77)];
    world
        .compact(
            3,
            CompactRequest {
                sources,
                ..no_compaction(stream)
            },
        )
        .unwrap();
    world.ok(Command::PutKv {
        key: "k".to_owned(),
        value: vec![1],
    });
    world.register(NodeId(2), 1, 1).unwrap();
    world.ok(Command::TransferStream {
        stream,
        from: NODE,
        to: NodeId(2),
    });
    let placed = world.create();
    world.ok(Command::PlaceStream { stream: placed });
    world
}

#[test]
fn every_list_survives() {
    let state = full().state;
    let bytes = state.encode_snapshot();
    let restored = State::decode_snapshot(&bytes).unwrap();
    assert_eq!(restored, state);
    assert_eq!(restored.encode_snapshot(), bytes);
    assert_eq!(restored.first_difference(&state), None);
}

#[test]
fn every_cut_is_corrupt() {
    let bytes = full().state.encode_snapshot();
    for length in 0..bytes.len() {
        let decoded = State::decode_snapshot(&bytes[..length]);
        assert!(
            matches!(decoded, Err(DecodeError::Corrupt { .. })),
            "cut at {length}"
        );
    }
    let longer = [&bytes[..], &[0]].concat();
    let after = DecodeError::Corrupt {
        at: bytes.len(),
        what: "bytes after the end",
    };
    assert_eq!(State::decode_snapshot(&longer), Err(after));
}

#[test]
fn another_version_is_refused_by_number() {
    let mut bytes = full().state.encode_snapshot();
    bytes[0] = 3;
    assert_eq!(
        State::decode_snapshot(&bytes),
        Err(DecodeError::UnsupportedVersion(3))
    );
}

fn snapshot(streams: &[u8], objects: &[u8]) -> Vec<u8> {
    let count = |list: &[u8]| u64::from(!list.is_empty()).to_le_bytes();
    let mut bytes = vec![0; 9];
    bytes.extend(count(streams));
    bytes.extend(streams);
    bytes.extend([0; 8 * 4]);
    bytes.extend(count(objects));
    bytes.extend(objects);
    bytes.extend([0; 8 * 4]);
    bytes
}

/// A stream object as the snapshot has it, with a range for each of `ranges`.
fn object(kind: u8, ranges: u32) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.push(kind);
    bytes.extend([0; 8 + 4 + 8 + 8]);
    bytes.extend(ranges.to_le_bytes());
    bytes.extend(vec![0; 24 * ranges as usize]);
    bytes
}

#[test]
fn a_stream_object_has_one_range() {
    assert!(State::decode_snapshot(&snapshot(&[], &object(1, 1))).is_ok());
    let at = 57 + 37;
    let refused = DecodeError::Corrupt {
        at,
        what: "a stream object has exactly one range",
    };
    assert_eq!(
        State::decode_snapshot(&snapshot(&[], &object(1, 2))),
        Err(refused)
    );
    let none = State::decode_snapshot(&snapshot(&[], &object(1, 0)));
    assert!(matches!(none, Err(DecodeError::Corrupt { .. })));
    let kind = State::decode_snapshot(&snapshot(&[], &object(2, 1)));
    assert_eq!(
        kind,
        Err(DecodeError::Corrupt {
            at: 57 + 8,
            what: "no such object type"
        })
    );
}

/// The type that an object had is kept, even where it names the other list.
#[test]
fn an_objects_type_is_kept() {
    let bytes = snapshot(&[], &object(0, 1));
    assert_eq!(
        State::decode_snapshot(&bytes).unwrap().encode_snapshot(),
        bytes
    );
}

#[test]
fn a_stream_state_is_closed_or_opened() {
    let stream = |state| {
        let mut bytes = vec![0; 37];
        bytes[32] = state;
        snapshot(&bytes, &[])
    };
    assert!(State::decode_snapshot(&stream(1)).is_ok());
    let refused = DecodeError::Corrupt {
        at: 17 + 32,
        what: "no such stream state",
    };
    assert_eq!(State::decode_snapshot(&stream(2)), Err(refused));
}

/// Lists out of order or with an entry twice are accepted, as PicoMQ does; the
/// last entry counts and the next encoding is in order.
#[test]
fn lists_out_of_order_are_put_in_order() {
    let object = |id: u64, size: u64, attributes: u32| {
        let mut bytes = Vec::new();
        bytes.extend(id.to_le_bytes());
        bytes.push(1);
        bytes.extend(size.to_le_bytes());
        bytes.extend(attributes.to_le_bytes());
        bytes.extend([0; 16]);
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend([0; 24]);
        bytes
    };
    let with = |objects: &[Vec<u8>]| {
        let mut bytes = vec![0; 49];
        bytes.extend((objects.len() as u64).to_le_bytes());
        bytes.extend(objects.concat());
        bytes.extend([0; 8 * 4]);
        bytes
    };
    let (first, second, again) = (object(1, 5, 1), object(2, 7, 1), object(2, 9, 0));
    let decoded = State::decode_snapshot(&with(&[second, first.clone(), again.clone()])).unwrap();
    assert_eq!(decoded.encode_snapshot(), with(&[first, again]));
    assert_eq!(decoded.composites().collect::<Vec<_>>(), [ObjectId(1)]);
    assert_eq!(decoded.counts().live_bytes, 14);
}

/// The first section that differs is named, in the snapshot's order.
#[test]
fn a_difference_is_named() {
    let base = full();
    let differs = |change: fn(&mut World)| {
        let mut other = base.clone();
        change(&mut other);
        base.state.first_difference(&other.state)
    };
    assert_eq!(differs(|_| {}), None);
    assert_eq!(differs(|world| _ = world.create()), Some("next stream id"));
    assert_eq!(
        differs(|world| _ = world.close(StreamId(0), 0)),
        Some("streams")
    );
    assert_eq!(
        differs(|world| _ = world.register(NodeId(9), 1, 1)),
        Some("nodes")
    );
    assert_eq!(
        differs(|world| _ = world.prepare(1, 0, 0)),
        Some("next object id")
    );
    let expire = |world: &mut World| {
        world.ok(Command::ExpirePreparedObjects { now_ms: 10 });
    };
    assert_eq!(differs(expire), Some("reservations"));
    let clean = |world: &mut World| {
        world.ok(Command::CleanDestroyedObjects {
            objects: vec![ObjectId(77)],
        });
    };
    assert_eq!(differs(clean), Some("destroyed queue"));
    let delete = |world: &mut World| {
        world.ok(Command::DeleteKv {
            key: "k".to_owned(),
        });
    };
    assert_eq!(differs(delete), Some("keys"));
}
