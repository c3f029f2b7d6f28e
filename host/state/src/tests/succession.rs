//! States that parted from a common past.

use super::*;

/// A world with a stream, a reservation, a mark and a second node.
fn base() -> World {
    let mut world = World::new();
    world.create();
    world.open(StreamId(0), 0).expect("opened");
    world.prepare(2, 1_000, 0).expect("reserved");
    world
}

fn contradiction(lost: fn(&mut World), instead: fn(&mut World)) -> Option<&'static str> {
    let (mut before, mut after) = (base(), base());
    lost(&mut before);
    instead(&mut after);
    before.state.first_contradiction(&after.state)
}

#[test]
fn what_was_handed_out_again_is_noticed() {
    let nothing = |_: &mut World| {};
    assert_eq!(contradiction(nothing, nothing), None);
    assert_eq!(
        contradiction(|world| _ = world.create(), nothing),
        Some("next stream id")
    );
    assert_eq!(
        contradiction(|world| _ = world.prepare(1, 5, 0), nothing),
        Some("next object id")
    );
    // The same ids, to another deadline, in a history that has grown past.
    assert_eq!(
        contradiction(
            |world| _ = world.prepare(1, 5, 0),
            |world| _ = world.prepare(9, 6, 0)
        ),
        Some("reservations")
    );
    // A stream that was closed and deleted here and lives there.
    let delete = |world: &mut World| {
        world.close(StreamId(0), 0).expect("closed");
        world.ok(Command::DeleteStream {
            node: NODE,
            node_epoch: EPOCH,
            stream: StreamId(0),
            epoch: 0,
        });
    };
    assert_eq!(
        contradiction(delete, |world| _ = world.create()),
        Some("streams")
    );
    // And one whose epoch went back.
    let reopen = |world: &mut World| {
        world.close(StreamId(0), 0).expect("closed");
        world.open(StreamId(0), 7).expect("opened");
    };
    assert_eq!(
        contradiction(reopen, |world| _ = world.create()),
        Some("streams")
    );
    assert_eq!(
        contradiction(
            |world| _ = world.register(NodeId(2), 5, 1),
            |world| _ = world.create()
        ),
        Some("nodes")
    );
    assert_eq!(
        contradiction(
            |world| _ = world.register(NODE, EPOCH + 1, 1),
            |world| _ = world.create()
        ),
        Some("nodes")
    );
    // A place in the queue that went to another object.
    let mark = |world: &mut World, objects: &[u64]| {
        world.ok(Command::CompactStreamObject {
            node: NODE,
            node_epoch: EPOCH,
            now_ms: 0,
            request: CompactRequest {
                object: NOOP,
                object_size: 0,
                stream: StreamId(0),
                stream_epoch: 0,
                start_offset: 0,
                end_offset: 0,
                attributes: 0,
                sources: objects.iter().copied().map(ObjectId).collect(),
                operations: Vec::new(),
            },
        });
    };
    let (mut before, mut after) = (base(), base());
    mark(&mut before, &[70]);
    assert_eq!(
        before.state.first_contradiction(&after.state),
        Some("next mark")
    );
    mark(&mut after, &[71, 72]);
    assert_eq!(
        before.state.first_contradiction(&after.state),
        Some("destroyed queue")
    );
}
