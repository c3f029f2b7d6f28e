//! Logs and catalogs to measure with, built by the log's own commands.

use aedile_state::{
    Command, CommitRange, CommitRequest, CommitStreamObject, NOOP, NodeId, ObjectId, State,
    StreamId, Value, codec,
};

/// The node that every command comes from.
pub(crate) const NODE: NodeId = NodeId(1);
/// Its epoch.
pub(crate) const EPOCH: i64 = 7;
/// The time in every command, in Unix milliseconds.
pub(crate) const NOW: i64 = 1_800_000_000_000;

/// Commands in a row, as the log packs them.
const ROW: usize = 256;

/// A state that grows by commands, and the commands.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) state: State,
    commands: Vec<Command>,
    keep: bool,
}

impl World {
    /// An empty cluster with one node.
    pub(crate) fn new() -> Self {
        let mut world = Self {
            state: State::new(),
            commands: Vec::new(),
            keep: true,
        };
        world.apply(Command::RegisterNode {
            node: NODE,
            node_epoch: EPOCH,
            http_address: "http://127.0.0.1:4437".to_owned(),
            slots: 8,
        });
        world
    }

    /// One whose commands are not kept.
    fn of_state_only() -> Self {
        let mut world = Self::new();
        world.keep = false;
        world.commands.clear();
        world
    }

    /// Take the commands since the start or the last time, packed into rows.
    pub(crate) fn rows(&mut self) -> Vec<Vec<u8>> {
        let rows = self.commands.chunks(ROW).map(codec::encode_batch);
        let rows = rows.collect();
        self.commands.clear();
        rows
    }

    pub(crate) fn apply(&mut self, command: Command) -> Value {
        let outcome = self.state.apply(&command);
        if self.keep {
            self.commands.push(command);
        }
        outcome
            .expect("the commands of a benchmark are accepted")
            .value
    }

    /// Create a stream and open it.
    pub(crate) fn stream(&mut self) -> StreamId {
        let Value::Id(id) = self.apply(Command::CreateStream {
            node: NODE,
            node_epoch: EPOCH,
        }) else {
            unreachable!("the answer to a create is an id");
        };
        let stream = StreamId(id);
        self.apply(Command::OpenStream {
            node: NODE,
            node_epoch: EPOCH,
            stream,
            epoch: 1,
        });
        stream
    }

    /// Reserve ids.
    pub(crate) fn prepare(&mut self, count: u32) -> impl Iterator<Item = ObjectId> + use<> {
        let Value::Id(first) = self.apply(Command::PrepareObject {
            node: NODE,
            node_epoch: EPOCH,
            count,
            ttl_ms: 3_600_000,
            now_ms: NOW,
        }) else {
            unreachable!("the answer to a prepare is an id");
        };
        (first..first + u64::from(count)).map(ObjectId)
    }

    fn commit(&mut self, request: CommitRequest) {
        self.apply(Command::CommitStreamSetObject {
            node: NODE,
            node_epoch: EPOCH,
            now_ms: NOW,
            request,
        });
    }

    fn end(&self, stream: StreamId) -> u64 {
        self.state.stream(stream).map_or(0, |row| row.end_offset)
    }

    /// Reserve and commit one stream object for each of these streams.
    pub(crate) fn stream_objects(&mut self, streams: &[StreamId]) -> Vec<ObjectId> {
        let ids: Vec<_> = self.prepare(streams.len() as u32).collect();
        let mut ends = std::collections::HashMap::new();
        let stream_objects = ids
            .iter()
            .zip(streams)
            .map(|(&object, &stream)| {
                let end = ends.entry(stream).or_insert_with(|| self.end(stream));
                let start_offset = *end;
                *end += 10;
                CommitStreamObject {
                    object,
                    object_size: 1 << 20,
                    stream,
                    start_offset,
                    end_offset: *end,
                    attributes: 0,
                }
            })
            .collect();
        self.commit(CommitRequest {
            object: NOOP,
            object_size: 0,
            attributes: 0,
            ranges: Vec::new(),
            stream_objects,
            compacted: Vec::new(),
        });
        ids
    }

    /// Reserve and commit a stream-set object with a range of each of these
    /// streams, which must differ.
    fn stream_set(&mut self, streams: &[StreamId]) {
        let object = self.prepare(1).next().unwrap_or(NOOP);
        let ranges = streams
            .iter()
            .map(|&stream| {
                let start_offset = self.end(stream);
                CommitRange {
                    stream,
                    epoch: 1,
                    start_offset,
                    end_offset: start_offset + 10,
                    size: 1 << 20,
                }
            })
            .collect();
        self.commit(CommitRequest {
            object,
            object_size: 3 << 20,
            attributes: 0,
            ranges,
            stream_objects: Vec::new(),
            compacted: Vec::new(),
        });
    }
}

/// A catalog of so many streams and objects: half of these are stream objects,
/// half stream-set objects of three ranges, as the streams take turns.
pub(crate) fn catalog(streams: usize, objects: usize) -> State {
    let mut world = World::of_state_only();
    let streams: Vec<_> = (0..streams.max(4)).map(|_| world.stream()).collect();
    let mut turn = streams.iter().copied().cycle();
    let mut next = |count| -> Vec<StreamId> { turn.by_ref().take(count).collect() };
    for _ in 0..objects / 8 {
        world.stream_objects(&next(4));
        for _ in 0..4 {
            world.stream_set(&next(3));
        }
    }
    world.state
}
