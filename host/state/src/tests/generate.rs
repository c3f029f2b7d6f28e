//! Random commands over few ids, so that they meet.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::aim::aimed;
use crate::{
    Changes, Command, CommitRange, CommitRequest, CommitStreamObject, CompactRequest, NOOP, NodeId,
    ObjectId, Operation, State, StreamId,
};

fn node() -> impl Strategy<Value = NodeId> {
    prop_oneof![8 => 1..3_i32, 1 => -1..5_i32].prop_map(NodeId)
}

fn node_epoch() -> impl Strategy<Value = i64> {
    prop_oneof![12 => Just(1_i64), 1 => 0..3_i64]
}

fn stream() -> impl Strategy<Value = StreamId> {
    (0..5_u64).prop_map(StreamId)
}

fn object() -> impl Strategy<Value = ObjectId> {
    prop_oneof![8 => (0..14_u64).prop_map(ObjectId), 1 => Just(NOOP)]
}

fn epoch() -> impl Strategy<Value = i64> {
    prop_oneof![2 => Just(0_i64), 1 => -1..4_i64]
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![12 => 0..4_u64, 1 => Just(u64::MAX)]
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![12 => 0..20_i64, 1 => Just(i64::MAX), 1 => Just(i64::MIN)]
}

fn attributes() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0_u32), Just(1), Just(262_136)]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        Just(Operation::Delete),
        Just(Operation::KeepData),
        Just(Operation::DeepDelete)
    ]
}

prop_compose! {
    fn range()(stream in stream(), start_offset in offset(), end_offset in offset()) -> CommitRange {
        CommitRange { stream, epoch: 0, start_offset, end_offset, size: 1 }
    }
}

prop_compose! {
    fn stream_object()(
        object in object(),
        object_size in 0..9_u64,
        stream in stream(),
        start_offset in offset(),
        end_offset in offset(),
        attributes in attributes(),
    ) -> CommitStreamObject {
        CommitStreamObject { object, object_size, stream, start_offset, end_offset, attributes }
    }
}

prop_compose! {
    pub(super) fn commit()(
        object in object(),
        object_size in prop_oneof![0..9_u64, Just(u64::MAX)],
        attributes in attributes(),
        ranges in vec(range(), 0..3),
        stream_objects in vec(stream_object(), 0..4),
        compacted in prop_oneof![3 => vec(object(), 0..1), 1 => vec(object(), 1..3)],
    ) -> CommitRequest {
        CommitRequest { object, object_size, attributes, ranges, stream_objects, compacted }
    }
}

prop_compose! {
    pub(super) fn compact()(
        object in object(),
        object_size in 0..9_u64,
        stream in stream(),
        stream_epoch in prop_oneof![4 => Just(0_u64), 1 => 0..3_u64, 1 => Just(u64::MAX)],
        start_offset in offset(),
        end_offset in offset(),
        attributes in attributes(),
        marks in vec((object_or_new(), operation()), 0..4),
        given in 0..3_u8,
    ) -> CompactRequest {
        let (sources, mut operations): (Vec<_>, Vec<_>) = marks.into_iter().unzip();
        match given {
            0 => operations.clear(),
            1 if operations.len() > 1 => drop(operations.pop()),
            _ => {}
        }
        CompactRequest {
            object, object_size, stream, stream_epoch, start_offset, end_offset, attributes,
            sources, operations,
        }
    }
}

fn object_or_new() -> impl Strategy<Value = ObjectId> {
    prop_oneof![4 => object(), 1 => (14..20_u64).prop_map(ObjectId)]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("a".to_owned()),
        Just("clé".to_owned())
    ]
}

fn of_streams() -> BoxedStrategy<Command> {
    let who = || (node(), node_epoch());
    let open = || (who(), stream(), epoch());
    prop_oneof![
        who().prop_map(|(node, node_epoch)| Command::CreateStream { node, node_epoch }),
        (who(), 0..4_u32).prop_map(|((node, node_epoch), count)| Command::CreateStreams {
            node,
            node_epoch,
            count
        }),
        open().prop_map(|((node, node_epoch), stream, epoch)| Command::OpenStream {
            node,
            node_epoch,
            stream,
            epoch
        }),
        open().prop_map(|((node, node_epoch), stream, epoch)| Command::CloseStream {
            node,
            node_epoch,
            stream,
            epoch
        }),
        open().prop_map(
            |((node, node_epoch), stream, epoch)| Command::DeleteStream {
                node,
                node_epoch,
                stream,
                epoch
            }
        ),
        (open(), offset()).prop_map(|(((node, node_epoch), stream, epoch), new_start_offset)| {
            Command::TrimStream {
                node,
                node_epoch,
                stream,
                epoch,
                new_start_offset,
            }
        }),
        stream().prop_map(|stream| Command::PlaceStream { stream }),
        (stream(), node(), node()).prop_map(|(stream, from, to)| Command::TransferStream {
            stream,
            from,
            to
        }),
        (stream(), epoch()).prop_map(|(stream, epoch)| Command::CompleteTransfer { stream, epoch }),
        (
            node(),
            prop_oneof![8 => Just(1_i64), 1 => 0..4_i64],
            0..4_u32,
            key()
        )
            .prop_map(
                |(node, node_epoch, slots, http_address)| Command::RegisterNode {
                    node,
                    node_epoch,
                    http_address,
                    slots
                }
            ),
    ]
    .boxed()
}

fn of_objects() -> BoxedStrategy<Command> {
    let who = || (node(), node_epoch());
    prop_oneof![
        1 => (who(), 0..4_u32, -1..9_i64, time()).prop_map(
            |((node, node_epoch), count, ttl_ms, now_ms)| Command::PrepareObject {
                node,
                node_epoch,
                count,
                ttl_ms,
                now_ms
            }
        ),
        3 => (who(), time(), commit()).prop_map(|((node, node_epoch), now_ms, request)| {
            Command::CommitStreamSetObject { node, node_epoch, now_ms, request }
        }),
        3 => (who(), time(), compact()).prop_map(|((node, node_epoch), now_ms, request)| {
            Command::CompactStreamObject { node, node_epoch, now_ms, request }
        }),
        1 => time().prop_map(|now_ms| Command::ExpirePreparedObjects { now_ms }),
        1 => vec(object_or_new(), 0..5).prop_map(|objects| Command::CleanDestroyedObjects { objects }),
    ]
    .boxed()
}

fn of_keys() -> BoxedStrategy<Command> {
    let entry = || (key(), vec(0..3_u8, 0..3));
    prop_oneof![
        entry().prop_map(|(key, value)| Command::PutKv { key, value }),
        entry().prop_map(|(key, value)| Command::PutKvIfAbsent { key, value }),
        key().prop_map(|key| Command::DeleteKv { key }),
    ]
    .boxed()
}

/// Any command.
pub(super) fn command() -> BoxedStrategy<Command> {
    prop_oneof![6 => of_streams(), 6 => of_objects(), 1 => of_keys()].boxed()
}

/// Commands that set up nodes and open streams, then any commands, most of
/// them aimed at what the state holds by then.
pub(super) fn sequence(length: usize) -> BoxedStrategy<Vec<Command>> {
    let prelude: Vec<Command> = (1..4)
        .map(|node| Command::RegisterNode {
            node: NodeId(node),
            node_epoch: 1,
            http_address: String::new(),
            slots: 1,
        })
        .chain([Command::CreateStreams {
            node: NodeId(1),
            node_epoch: 1,
            count: 4,
        }])
        .chain((0..3).map(|stream| Command::OpenStream {
            node: NodeId(1),
            node_epoch: 1,
            stream: StreamId(stream),
            epoch: 0,
        }))
        .collect();
    vec((command(), prop::bool::weighted(0.7)), 0..length)
        .prop_map(move |commands| {
            let mut state = State::new();
            let mut sequence = prelude.clone();
            for command in &sequence {
                let _ = state.apply(command);
            }
            for (command, aim) in commands {
                let command = if aim { aimed(&state, command) } else { command };
                let _ = state.apply(&command);
                sequence.push(command);
            }
            sequence
        })
        .boxed()
}

/// The properties are worth something only if the sequences get somewhere.
#[test]
fn every_command_is_accepted_and_every_rejection_occurs() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut accepted: BTreeMap<&str, usize> = BTreeMap::new();
    let mut rejected: BTreeMap<u32, usize> = BTreeMap::new();
    for _ in 0..300 {
        let commands = sequence(60).new_tree(&mut runner).unwrap().current();
        let mut state = State::new();
        for command in commands {
            match state.apply(&command) {
                Ok(applied) if applied.changes != Changes::None => {
                    *accepted.entry(command.name()).or_default() += 1;
                }
                Ok(_) => {}
                Err(rejection) => *rejected.entry(rejection.code()).or_default() += 1,
            }
        }
    }
    assert_eq!(accepted.len(), 18, "{accepted:?}");
    assert_eq!(rejected.len(), 7, "{rejected:?}");
    assert!(accepted.values().all(|&count| count >= 5), "{accepted:?}");
    let set_compactions = accepted["CommitStreamSetObject"];
    assert!(
        set_compactions >= 100 && accepted["CompactStreamObject"] >= 100,
        "{accepted:?}"
    );
}
