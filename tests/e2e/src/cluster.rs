//! A cluster made for a test: a catalog with live and destroyed objects, by
//! rows of PicoMQ's own forms.

use aedile_state::{
    Command, CommitRequest, CommitStreamObject, CompactRequest, NOOP, NodeId, ObjectId, StreamId,
};
use aedile_storage::object_key;
use aedile_tests_contract::databases::Raw;

const NODE: NodeId = NodeId(1);
const NODE_EPOCH: i64 = 1;
const STREAM: StreamId = StreamId(0);
/// Objects in one command.
const CHUNK: usize = 1000;

/// What the catalog holds.
#[derive(Clone, Debug, Default)]
pub struct Made {
    /// Objects that are live.
    pub live: Vec<u64>,
    /// Objects that are marked `Delete`.
    pub marked: Vec<u64>,
    /// The last index of the log.
    pub index: i64,
}

impl Made {
    /// Keys of all objects.
    pub fn keys(&self) -> impl Iterator<Item = String> + '_ {
        self.live
            .iter()
            .chain(&self.marked)
            .map(|&id| object_key(id))
    }
}

/// The bytes of an object: none is a composite, and none so short that the
/// test's S3 server fails at reading the end of it.
pub fn content(key: &str) -> Vec<u8> {
    format!("the bytes of {key}\n").repeat(4).into_bytes()
}

/// Fill an empty database: so many live objects, then so many destroyed ones.
pub async fn make(raw: &mut Raw, live: usize, marked: usize) -> Made {
    raw.make_tables().await.expect("the tables can be made");
    let all = live + marked;
    let count = u32::try_from(all).expect("a number of objects");
    append(
        raw,
        vec![
            Command::RegisterNode {
                node: NODE,
                node_epoch: NODE_EPOCH,
                http_address: "http://127.0.0.1:1".to_owned(),
                slots: 8,
            },
            Command::CreateStream {
                node: NODE,
                node_epoch: NODE_EPOCH,
            },
            Command::OpenStream {
                node: NODE,
                node_epoch: NODE_EPOCH,
                stream: STREAM,
                epoch: 1,
            },
            Command::PrepareObject {
                node: NODE,
                node_epoch: NODE_EPOCH,
                count,
                ttl_ms: 3_600_000,
                now_ms: 0,
            },
        ],
    )
    .await;
    let ids: Vec<u64> = (0..all as u64).collect();
    for chunk in ids.chunks(CHUNK) {
        append(raw, vec![commit(chunk)]).await;
    }
    let (live, marked) = ids.split_at(live);
    for chunk in marked.chunks(CHUNK) {
        append(raw, vec![destroy(chunk)]).await;
    }
    let (state, rows) = raw.read().await.expect("the log can be read").state();
    for (index, commands) in rows {
        for (command, outcome) in commands {
            assert!(
                outcome.is_ok(),
                "row {index}: {}: {outcome:?}",
                command.name()
            );
        }
    }
    assert_eq!(state.counts().marks, marked.len());
    Made {
        live: live.to_vec(),
        marked: marked.to_vec(),
        index: raw.last().await.expect("the log can be read"),
    }
}

/// A commit of these objects, each one offset long at the place of its id.
fn commit(ids: &[u64]) -> Command {
    Command::CommitStreamSetObject {
        node: NODE,
        node_epoch: NODE_EPOCH,
        now_ms: 0,
        request: CommitRequest {
            object: NOOP,
            object_size: 0,
            attributes: 0,
            ranges: Vec::new(),
            stream_objects: ids
                .iter()
                .map(|&id| CommitStreamObject {
                    object: ObjectId(id),
                    object_size: 24,
                    stream: STREAM,
                    start_offset: id,
                    end_offset: id + 1,
                    attributes: 0,
                })
                .collect(),
            compacted: Vec::new(),
        },
    }
}

/// A compaction that takes these objects out of the catalog and marks them.
fn destroy(ids: &[u64]) -> Command {
    Command::CompactStreamObject {
        node: NODE,
        node_epoch: NODE_EPOCH,
        now_ms: 0,
        request: CompactRequest {
            object: NOOP,
            object_size: 0,
            stream: STREAM,
            stream_epoch: 1,
            start_offset: 0,
            end_offset: 1,
            attributes: 0,
            sources: ids.iter().map(|&id| ObjectId(id)).collect(),
            operations: Vec::new(),
        },
    }
}

/// Destroy live objects of a cluster made here.
pub async fn destroyed(raw: &mut Raw, ids: &[u64]) {
    for chunk in ids.chunks(CHUNK) {
        append(raw, vec![destroy(chunk)]).await;
    }
}

/// Append one row.
pub async fn append(raw: &mut Raw, commands: Vec<Command>) -> i64 {
    raw.append_next(&commands)
        .await
        .expect("a row can be appended")
}
