//! The life of a stream.

use super::*;
use crate::StreamState;

fn value(outcome: Outcome) -> Value {
    outcome.expect("the command is accepted").value
}

#[test]
fn opening_fences_by_epoch() {
    let mut world = World::new();
    let stream = world.create();
    assert_eq!(
        world.open(stream, -1),
        Err(Rejection::StreamFenced { stream, epoch: -1 })
    );
    assert!(matches!(value(world.open(stream, 3)), Value::Stream(row) if row.epoch == 3));
    assert_eq!(world.open(stream, 3).unwrap().changes, Changes::None);
    assert_eq!(code(&world.open(stream, 2)), 3);
    assert_eq!(code(&world.open(stream, 4)), 2);
    world.register(NodeId(2), EPOCH, 1).unwrap();
    let other = Command::OpenStream {
        node: NodeId(2),
        node_epoch: EPOCH,
        stream,
        epoch: 3,
    };
    assert_eq!(code(&world.apply(other)), 3);
    assert_eq!(code(&world.open(StreamId(9), 3)), 1);
}

#[test]
fn closing_is_idempotent_at_its_epoch() {
    let mut world = World::new();
    let stream = world.opened();
    assert_eq!(
        world.close(stream, 1),
        Err(Rejection::ExpiredEpoch { stream, epoch: 1 })
    );
    assert_eq!(world.close(stream, 0), unit(Changes::All));
    assert_eq!(world.close(stream, 0), unit(Changes::None));
    assert_eq!(code(&world.close(stream, 1)), 99);
    let row = world.state.stream(stream).unwrap();
    assert_eq!((row.state, row.node), (StreamState::Closed, NODE));
    assert_eq!(world.state.counts().opened_streams, 0);
}

#[test]
fn a_trim_moves_the_start_and_marks_nothing() {
    let mut world = World::new();
    let stream = world.opened();
    world.object(0, stream, 10);
    assert_eq!(world.trim(stream, 0, 10), unit(Changes::All));
    assert_eq!(world.trim(stream, 0, 10), unit(Changes::None));
    assert_eq!(code(&world.trim(stream, 0, 9)), 99);
    assert_eq!(code(&world.trim(stream, 0, 11)), 99);
    assert_eq!(code(&world.trim(stream, 1, 10)), 4);
    assert_eq!((world.live(), world.queue()), (vec![0], vec![]));
    world.close(stream, 0).unwrap();
    assert_eq!(code(&world.trim(stream, 0, 10)), 99);
}

#[test]
fn deleting_marks_the_streams_own_objects_in_order() {
    let mut world = World::new();
    let (stream, other) = (world.opened(), world.opened());
    world.object(7, stream, 10);
    world.object(3, stream, 10);
    world.object(5, other, 10);
    assert_eq!(code(&world.delete(stream, 0)), 2);
    world.close(stream, 0).unwrap();
    assert_eq!(code(&world.delete(stream, 1)), 4);
    assert_eq!(world.delete(stream, 0), unit(Changes::All));
    assert_eq!(world.delete(stream, 0), unit(Changes::None));
    assert_eq!(world.queue(), [(7, "Delete"), (3, "Delete")]);
    assert_eq!(world.live(), [5]);
    assert!(world.state.stream(stream).is_none());
}

#[test]
fn many_streams_are_created_at_once_within_a_bound() {
    let mut world = World::new();
    let create = |count| Command::CreateStreams {
        node: NODE,
        node_epoch: EPOCH,
        count,
    };
    assert_eq!(code(&world.apply(create(0))), 99);
    assert_eq!(code(&world.apply(create(4097))), 99);
    world.create();
    assert_eq!(world.ok(create(4096)).value, Value::Id(1));
    assert_eq!(world.state.next_stream_id(), StreamId(4097));
    assert_eq!(world.state.counts().streams, 4097);
}

/// As in PicoMQ's release builds: one id can be the last, a range of ids that
/// passes the last holds none of them, and neither panics.
#[test]
fn ids_wrap_round() {
    let mut world = World::new();
    world.state.next_stream_id = u64::MAX;
    world.state.next_object_id = u64::MAX;
    let create = Command::CreateStreams {
        node: NODE,
        node_epoch: EPOCH,
        count: 2,
    };
    let before = world.state.counts().streams;
    assert_eq!(world.ok(create).value, Value::Id(u64::MAX));
    assert_eq!(world.state.counts().streams, before);
    world.state.next_stream_id = u64::MAX;
    assert_eq!(world.create(), StreamId(u64::MAX));
    assert_eq!(world.create(), StreamId(0));

    assert_eq!(value(world.prepare(2, 0, 0)), Value::Id(u64::MAX));
    assert_eq!(world.state.counts().reservations, 0);
    assert_eq!(world.state.next_object_id(), ObjectId(1));
    world.prepare(1, i64::MAX, i64::MAX).unwrap();
    assert_eq!(world.state.reservation(ObjectId(1)), Some(-2));
}

#[test]
fn a_transfer_completes_once_the_stream_is_closed() {
    let mut world = World::new();
    let stream = world.opened();
    world.register(NodeId(2), EPOCH, 1).unwrap();
    world.register(NodeId(3), EPOCH, 0).unwrap();
    let transfer = |from, to| Command::TransferStream {
        stream,
        from: NodeId(from),
        to: NodeId(to),
    };
    let complete = |epoch| Command::CompleteTransfer { stream, epoch };
    let missing = Command::TransferStream {
        stream: StreamId(9),
        from: NODE,
        to: NODE,
    };
    assert_eq!(code(&world.apply(missing)), 1);
    assert_eq!(code(&world.apply(complete(0))), 6);
    assert_eq!(code(&world.apply(transfer(1, 1))), 99);
    for target in [3, 4] {
        let expected = Err(Rejection::NodeEpochMismatch {
            node: NodeId(target),
        });
        assert_eq!(world.apply(transfer(1, target)), expected);
    }
    assert_eq!(code(&world.apply(transfer(3, 2))), 99);
    assert_eq!(world.apply(transfer(1, 2)), unit(Changes::All));
    assert_eq!(world.apply(transfer(1, 2)), unit(Changes::None));
    assert_eq!(code(&world.apply(transfer(2, 1))), 99);
    assert_eq!(code(&world.apply(complete(0))), 2);
    world.close(stream, 0).unwrap();
    assert_eq!(code(&world.apply(complete(1))), 4);
    assert_eq!(world.apply(complete(0)), unit(Changes::All));
    assert_eq!(world.state.stream(stream).unwrap().node, NodeId(2));
    assert_eq!(code(&world.apply(complete(0))), 6);
}

/// A stream that comes to the same id later would otherwise move at once.
#[test]
fn a_deleted_stream_leaves_no_transfer() {
    let mut world = World::new();
    let stream = world.opened();
    world.register(NodeId(2), EPOCH, 1).unwrap();
    world.ok(Command::TransferStream {
        stream,
        from: NODE,
        to: NodeId(2),
    });
    world.close(stream, 0).unwrap();
    world.delete(stream, 0).unwrap();
    assert_eq!(world.state.counts().transfers, 0);
}
