//! Tests, a file per family, over a world that is quick to set up.

mod aim;
mod codec;
mod commit;
mod compact;
mod generate;
mod placement;
mod properties;
mod query;
mod queue;
mod snapshot;
mod steps;
mod streams;
mod succession;

use crate::{
    Applied, Changes, Command, CommitRange, CommitRequest, CommitStreamObject, CompactRequest,
    NOOP, NodeId, ObjectId, Outcome, Rejection, State, StreamId, Value,
};

const NODE: NodeId = NodeId(1);
const EPOCH: i64 = 10;

/// A state and short forms of the commands that node 1 sends.
#[derive(Clone, Debug)]
struct World {
    state: State,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            state: State::new(),
        };
        world
            .register(NODE, EPOCH, 1)
            .expect("the first registration");
        world
    }

    fn apply(&mut self, command: Command) -> Outcome {
        let before = self.state.clone();
        let outcome = self.state.apply(&command);
        if outcome.is_err() {
            assert_eq!(self.state, before, "{command:?}");
        }
        outcome
    }

    /// Applies a command that must be accepted.
    fn ok(&mut self, command: Command) -> Applied {
        self.apply(command).expect("the command is accepted")
    }

    fn register(&mut self, node: NodeId, node_epoch: i64, slots: u32) -> Outcome {
        self.apply(Command::RegisterNode {
            node,
            node_epoch,
            http_address: String::new(),
            slots,
        })
    }

    fn create(&mut self) -> StreamId {
        match self
            .ok(Command::CreateStream {
                node: NODE,
                node_epoch: EPOCH,
            })
            .value
        {
            Value::Id(id) => StreamId(id),
            other => panic!("{other:?}"),
        }
    }

    /// A new stream that the node has open at epoch 0.
    fn opened(&mut self) -> StreamId {
        let stream = self.create();
        self.open(stream, 0).expect("a new stream can be opened");
        stream
    }

    fn open(&mut self, stream: StreamId, epoch: i64) -> Outcome {
        self.apply(Command::OpenStream {
            node: NODE,
            node_epoch: EPOCH,
            stream,
            epoch,
        })
    }

    fn close(&mut self, stream: StreamId, epoch: i64) -> Outcome {
        self.apply(Command::CloseStream {
            node: NODE,
            node_epoch: EPOCH,
            stream,
            epoch,
        })
    }

    fn trim(&mut self, stream: StreamId, epoch: i64, new_start_offset: u64) -> Outcome {
        self.apply(Command::TrimStream {
            node: NODE,
            node_epoch: EPOCH,
            stream,
            epoch,
            new_start_offset,
        })
    }

    fn delete(&mut self, stream: StreamId, epoch: i64) -> Outcome {
        self.apply(Command::DeleteStream {
            node: NODE,
            node_epoch: EPOCH,
            stream,
            epoch,
        })
    }

    fn prepare(&mut self, count: u32, ttl_ms: i64, now_ms: i64) -> Outcome {
        self.apply(Command::PrepareObject {
            node: NODE,
            node_epoch: EPOCH,
            count,
            ttl_ms,
            now_ms,
        })
    }

    fn commit(&mut self, now_ms: i64, request: CommitRequest) -> Outcome {
        self.apply(Command::CommitStreamSetObject {
            node: NODE,
            node_epoch: EPOCH,
            now_ms,
            request,
        })
    }

    fn compact(&mut self, now_ms: i64, request: CompactRequest) -> Outcome {
        self.apply(Command::CompactStreamObject {
            node: NODE,
            node_epoch: EPOCH,
            now_ms,
            request,
        })
    }

    /// Commits a stream object from the stream's end offset on.
    fn object(&mut self, id: u64, stream: StreamId, offsets: u64) {
        let start = self
            .state
            .stream(stream)
            .expect("a stream that exists")
            .end_offset;
        let request = CommitRequest {
            stream_objects: vec![stream_object(id, stream, start, start + offsets)],
            ..nothing()
        };
        self.commit(1, request)
            .expect("the object follows the stream's end");
    }

    /// The destroyed queue as (object, operation name).
    fn queue(&self) -> Vec<(u64, &'static str)> {
        self.state
            .marks_after(None)
            .map(|(_, id, operation)| (id.0, operation.name()))
            .collect()
    }

    fn live(&self) -> Vec<u64> {
        self.state.live_after(None).map(|id| id.0).collect()
    }
}

/// A commit of nothing, to build on.
fn nothing() -> CommitRequest {
    CommitRequest {
        object: NOOP,
        object_size: 0,
        attributes: 0,
        ranges: Vec::new(),
        stream_objects: Vec::new(),
        compacted: Vec::new(),
    }
}

/// A compaction of nothing, to build on.
fn no_compaction(stream: StreamId) -> CompactRequest {
    CompactRequest {
        object: NOOP,
        object_size: 0,
        stream,
        stream_epoch: 0,
        start_offset: 0,
        end_offset: 0,
        attributes: 0,
        sources: Vec::new(),
        operations: Vec::new(),
    }
}

fn stream_object(id: u64, stream: StreamId, start: u64, end: u64) -> CommitStreamObject {
    CommitStreamObject {
        object: ObjectId(id),
        object_size: 100 + id,
        stream,
        start_offset: start,
        end_offset: end,
        attributes: 0,
    }
}

fn range(stream: StreamId, start: u64, end: u64) -> CommitRange {
    CommitRange {
        stream,
        epoch: 0,
        start_offset: start,
        end_offset: end,
        size: 1,
    }
}

/// The code of a rejection.
fn code(outcome: &Outcome) -> u32 {
    match outcome {
        Ok(applied) => panic!("accepted: {applied:?}"),
        Err(rejection) => rejection.code(),
    }
}

fn unit(changes: Changes) -> Outcome {
    Ok(Applied {
        value: Value::Unit,
        changes,
    })
}

#[test]
fn only_a_registered_epoch_may_ask() {
    let mut world = World::new();
    for (node, node_epoch) in [(NodeId(2), EPOCH), (NODE, EPOCH - 1), (NODE, EPOCH + 1)] {
        for command in [
            Command::CreateStream { node, node_epoch },
            Command::CreateStreams {
                node,
                node_epoch,
                count: 0,
            },
            Command::DeleteStream {
                node,
                node_epoch,
                stream: StreamId(9),
                epoch: 0,
            },
            Command::PrepareObject {
                node,
                node_epoch,
                count: 0,
                ttl_ms: 0,
                now_ms: 0,
            },
            Command::CommitStreamSetObject {
                node,
                node_epoch,
                now_ms: 0,
                request: nothing(),
            },
        ] {
            assert_eq!(
                world.apply(command),
                Err(Rejection::NodeEpochMismatch { node })
            );
        }
    }
}

#[test]
fn a_node_registers_forward_only() {
    let mut world = World::new();
    let register = |address: &str, node_epoch, slots| Command::RegisterNode {
        node: NODE,
        node_epoch,
        http_address: address.to_owned(),
        slots,
    };
    assert_eq!(world.apply(register("a", EPOCH, 1)), unit(Changes::All));
    assert_eq!(world.apply(register("", EPOCH, 1)), unit(Changes::None));
    assert_eq!(world.apply(register("", EPOCH + 1, 0)), unit(Changes::All));
    assert_eq!(code(&world.apply(register("b", EPOCH, 1))), 5);
    let node = world.state.node(NODE).unwrap();
    assert_eq!(
        (&*node.http_address, node.epoch, node.slots),
        ("a", EPOCH + 1, 0)
    );
}

#[test]
fn keys_answer_as_picomq_does() {
    let mut world = World::new();
    let (key, value) = ("k".to_owned(), vec![1, 2]);
    let bytes = |bytes: Option<&[u8]>, changes| Applied {
        value: Value::Bytes(bytes.map(<[u8]>::to_vec)),
        changes,
    };
    let put = Command::PutKv {
        key: key.clone(),
        value: value.clone(),
    };
    let other = Command::PutKvIfAbsent {
        key: key.clone(),
        value: vec![9],
    };
    let delete = Command::DeleteKv { key };
    assert_eq!(world.ok(put.clone()), bytes(Some(&[1, 2]), Changes::All));
    assert_eq!(world.ok(put), bytes(Some(&[1, 2]), Changes::None));
    assert_eq!(world.ok(other.clone()), bytes(Some(&[1, 2]), Changes::None));
    assert_eq!(world.ok(delete.clone()), bytes(Some(&[1, 2]), Changes::All));
    assert_eq!(world.ok(delete), bytes(None, Changes::None));
    assert_eq!(world.ok(other), bytes(Some(&[9]), Changes::All));
    assert_eq!(world.state.kv_get("k"), Some(&[9][..]));
}
