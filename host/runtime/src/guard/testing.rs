//! A small catalog that tests build by the log's own commands.

use aedile_state::{
    Command, CommitStreamObject, NOOP, NodeId, ObjectId, Operation, State, StreamId, Value,
};

pub(crate) const NODE: NodeId = NodeId(1);
pub(crate) const EPOCH: i64 = 7;
pub(crate) const NOW: i64 = 1_800_000_000_000;

/// A catalog with one node and one open stream.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) stream: StreamId,
    pub(crate) commands: Vec<Command>,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut world = Self {
            state: State::new(),
            stream: StreamId(0),
            commands: Vec::new(),
        };
        world.apply(Command::RegisterNode {
            node: NODE,
            node_epoch: EPOCH,
            http_address: String::new(),
            slots: 1,
        });
        world.apply(Command::CreateStream {
            node: NODE,
            node_epoch: EPOCH,
        });
        world.apply(Command::OpenStream {
            node: NODE,
            node_epoch: EPOCH,
            stream: world.stream,
            epoch: 0,
        });
        world
    }

    pub(crate) fn apply(&mut self, command: Command) -> Value {
        let outcome = self.state.apply(&command);
        self.commands.push(command);
        outcome.expect("the command is accepted").value
    }

    /// Reserve ids for this long.
    pub(crate) fn reserve(&mut self, count: u32, ttl_ms: i64) -> Vec<ObjectId> {
        self.reserve_at(NOW, count, ttl_ms)
    }

    /// Reserve ids for this long from then on.
    pub(crate) fn reserve_at(&mut self, now_ms: i64, count: u32, ttl_ms: i64) -> Vec<ObjectId> {
        let first = match self.apply(Command::PrepareObject {
            node: NODE,
            node_epoch: EPOCH,
            count,
            ttl_ms,
            now_ms,
        }) {
            Value::Id(first) => first,
            other => panic!("an id, not {other:?}"),
        };
        (first..first + u64::from(count)).map(ObjectId).collect()
    }

    /// Commit new stream objects of ten offsets each.
    pub(crate) fn objects(&mut self, count: u32) -> Vec<ObjectId> {
        let ids = self.reserve(count, 3_600_000);
        self.commit(&ids);
        ids
    }

    /// Commit these ids as stream objects of ten offsets each.
    pub(crate) fn commit(&mut self, ids: &[ObjectId]) {
        let mut offset = self
            .state
            .stream(self.stream)
            .expect("the stream")
            .end_offset;
        let stream_objects = ids
            .iter()
            .map(|&object| {
                let start_offset = offset;
                offset += 10;
                CommitStreamObject {
                    object,
                    object_size: 100,
                    stream: self.stream,
                    start_offset,
                    end_offset: offset,
                    attributes: 0,
                }
            })
            .collect();
        self.apply(Command::CommitStreamSetObject {
            node: NODE,
            node_epoch: EPOCH,
            now_ms: NOW,
            request: aedile_state::CommitRequest {
                object: NOOP,
                object_size: 0,
                attributes: 0,
                ranges: Vec::new(),
                stream_objects,
                compacted: Vec::new(),
            },
        });
    }

    /// Take objects out of the catalog, each with its operation.
    pub(crate) fn compact(&mut self, sources: &[ObjectId], operations: &[Operation]) {
        self.replace(NOOP, 0, (0, 0), sources, operations);
    }

    fn replace(
        &mut self,
        object: ObjectId,
        attributes: u32,
        offsets: (u64, u64),
        sources: &[ObjectId],
        operations: &[Operation],
    ) {
        self.apply(Command::CompactStreamObject {
            node: NODE,
            node_epoch: EPOCH,
            now_ms: NOW,
            request: aedile_state::CompactRequest {
                object,
                object_size: 100,
                stream: self.stream,
                stream_epoch: 0,
                start_offset: offsets.0,
                end_offset: offsets.1,
                attributes,
                sources: sources.to_vec(),
                operations: operations.to_vec(),
            },
        });
    }

    /// Marked objects, with this operation.
    pub(crate) fn marked(&mut self, count: u32, operation: Operation) -> Vec<ObjectId> {
        let ids = self.objects(count);
        self.compact(&ids, &vec![operation; ids.len()]);
        ids
    }

    /// Mark an object that stays live: a compaction of a foreign stream marks its
    /// sources without looking.
    pub(crate) fn mark_elsewhere(&mut self, object: ObjectId) {
        let Value::Id(stream) = self.apply(Command::CreateStream {
            node: NODE,
            node_epoch: EPOCH,
        }) else {
            panic!("an id");
        };
        self.apply(Command::CompactStreamObject {
            node: NODE,
            node_epoch: EPOCH,
            now_ms: NOW,
            request: aedile_state::CompactRequest {
                object: NOOP,
                object_size: 0,
                stream: StreamId(stream),
                // The row's epoch is -1 until it is opened.
                stream_epoch: u64::MAX,
                start_offset: 0,
                end_offset: 0,
                attributes: 0,
                sources: vec![object],
                operations: Vec::new(),
            },
        });
    }

    /// A live composite of three objects, whose marks keep the data.
    pub(crate) fn composite(&mut self) -> (ObjectId, Vec<ObjectId>) {
        let start = self
            .state
            .stream(self.stream)
            .expect("the stream")
            .end_offset;
        let parts = self.objects(3);
        let composite = self.reserve(1, 3_600_000)[0];
        self.replace(
            composite,
            1,
            (start, start + 30),
            &parts,
            &[Operation::KeepData; 3],
        );
        (composite, parts)
    }

    /// A composite of live objects of the stream, as PicoMQ's compaction makes
    /// it: plain ones keep their data, composites among them are deleted.
    pub(crate) fn compose(&mut self, sources: &[ObjectId]) -> ObjectId {
        let composite = self.reserve(1, 3_600_000)[0];
        let operations: Vec<Operation> = sources
            .iter()
            .map(|&id| match self.state.object(id) {
                Some(object) if aedile_state::is_composite(object.attributes) => Operation::Delete,
                _ => Operation::KeepData,
            })
            .collect();
        let stream = self.state.stream(self.stream).expect("the stream");
        let offsets = (stream.start_offset, stream.end_offset);
        self.replace(composite, 1, offsets, sources, &operations);
        composite
    }

    pub(crate) fn clean(&mut self, objects: &[ObjectId]) {
        self.apply(Command::CleanDestroyedObjects {
            objects: objects.to_vec(),
        });
    }
}

/// Ids as the store has them.
pub(crate) fn ids(objects: &[ObjectId]) -> Vec<u64> {
    objects.iter().map(|id| id.0).collect()
}

/// The bytes of a composite.
pub(crate) fn composite_bytes(links: &[ObjectId]) -> Vec<u8> {
    let mut bytes = vec![0x52];
    bytes.extend((links.len() as u32).to_be_bytes());
    for link in links {
        bytes.extend(link.0.to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend((-2_i16).to_be_bytes());
    }
    let position = bytes.len() as u64;
    let index = [7; 36];
    bytes.extend(index);
    bytes.extend(position.to_be_bytes());
    bytes.extend((index.len() as u32).to_be_bytes());
    bytes.resize(bytes.len() + 28, 0);
    bytes.extend(0x88E2_41B7_85F4_CFF8_u64.to_be_bytes());
    bytes
}
