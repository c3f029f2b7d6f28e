//! Which node a new stream is placed on.

use super::*;

fn place(world: &mut World, stream: StreamId) -> Outcome {
    world.apply(Command::PlaceStream { stream })
}

fn node(outcome: Outcome) -> u64 {
    match outcome.expect("a placement is found").value {
        Value::Id(node) => node,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_lowest_share_of_slots_wins() {
    let mut world = World {
        state: State::new(),
    };
    world.register(NodeId(1), EPOCH, 2).unwrap();
    world.register(NodeId(2), EPOCH, 1).unwrap();
    world.register(NodeId(3), EPOCH, 0).unwrap();
    let streams: Vec<StreamId> = (0..4).map(|_| world.create()).collect();
    let placed: Vec<u64> = streams
        .iter()
        .map(|&s| node(place(&mut world, s)))
        .collect();
    assert_eq!(placed, [1, 2, 1, 1]);
    assert_eq!(
        place(&mut world, streams[0]).unwrap().changes,
        Changes::None
    );

    // Opened elsewhere, a stream leaves its place and counts where it is open.
    let open = Command::OpenStream {
        node: NodeId(2),
        node_epoch: EPOCH,
        stream: streams[0],
        epoch: 0,
    };
    world.ok(open);
    assert_eq!(world.state.placed_streams().count(), 3);
    let next = world.create();
    assert_eq!(node(place(&mut world, next)), 1);
}

#[test]
fn without_a_node_there_is_no_place() {
    let mut world = World::new();
    world.register(NODE, EPOCH, 0).unwrap();
    let stream = world.create();
    assert_eq!(
        place(&mut world, stream),
        Err(Rejection::NodeEpochMismatch { node: NodeId::NONE })
    );
    assert_eq!(code(&place(&mut world, StreamId(9))), 1);
}

/// PicoMQ takes a node registered as −1 for a node and for no node at once:
/// the placement counts, but the row does not show it and a decoded snapshot
/// has forgotten it.
#[test]
fn a_node_registered_as_none_counts_until_a_decode() {
    let mut world = World::new();
    world.register(NodeId(-1), EPOCH, 1).unwrap();
    let stream = world.create();
    let bytes = world.state.encode_snapshot();
    let placed = place(&mut world, stream).unwrap();
    assert_eq!(
        (placed.value, placed.changes),
        (Value::Id(u64::MAX), Changes::All)
    );
    assert_eq!(world.state.encode_snapshot(), bytes);
    assert_ne!(State::decode_snapshot(&bytes).unwrap(), world.state);

    // The row shows no node, so it is placed again; both places count.
    assert_eq!(node(place(&mut world, stream)), 1);
    assert_eq!(world.state.placed_streams().count(), 2);
    world.delete(stream, -1).unwrap();
    assert_eq!(world.state.placed_streams().count(), 0);
}
