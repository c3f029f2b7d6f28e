//! What the writer does to the cluster, each step as PicoMQ's node does it:
//! reserve ids, upload bytes under their keys, commit; close, delete, compact.

mod steps;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use aedile_clock::SharedClock;
use aedile_log::{Log, LogOptions};
use aedile_state::{
    Command, CommitRange, CommitRequest, CommitStreamObject, CompactRequest, NOOP, NodeId,
    ObjectId, Operation, StreamId, Value,
};
use anyhow::{Context, bail};

use super::Done;
use crate::demo::layout::Layout;
use crate::demo::records::{Appender, Fate, Ledger};
use crate::demo::{KEPT_KEYS, LAPSE, SESSIONS};

/// Offsets that one object holds.
const SPAN: u64 = 10;
/// The writer's node.
const NODE: NodeId = NodeId(1);
/// Its epoch: when it started, as a PicoMQ node has it.
const NODE_EPOCH: i64 = 1;
/// The epoch at which it opens its streams.
const STREAM_EPOCH: i64 = 0;
/// How long a reservation for an upload stands in PicoMQ, in milliseconds.
const HOUR_MS: i64 = 3_600_000;
/// Stream objects in one commit.
const COMMIT: usize = 200;
/// Keys that are no data object's, as PicoMQ lays them out.
const FOREIGN: [&str; 3] = [
    "52674dec/DEFAULT/node-1",
    "C4CA4238A0B923820DCC509A6F75849B/_kafka_picomq/1/1/wal/0-4096",
    "notes.txt",
];

/// An open stream.
#[derive(Debug)]
struct Open {
    id: StreamId,
    end: u64,
    objects: Vec<u64>,
}

/// The writer's view of what it made.
#[derive(Debug)]
pub(super) struct Cluster {
    log: Log,
    objects: PathBuf,
    ledger: Appender<Ledger>,
    /// Hash and size of every object uploaded.
    made: BTreeMap<u64, (String, u64)>,
    filled: Option<Open>,
    trickle: VecDeque<Open>,
    turn: u64,
}

impl Cluster {
    pub(super) async fn open(layout: &Layout, clock: SharedClock) -> anyhow::Result<Self> {
        let url = layout.meta_url().parse()?;
        Ok(Self {
            log: Log::open(&url, LogOptions::default(), clock).await?,
            objects: layout.objects(),
            ledger: Appender::open(&layout.ledger())?,
            made: BTreeMap::new(),
            filled: None,
            trickle: VecDeque::new(),
            turn: 0,
        })
    }

    pub(super) async fn close(self) {
        self.log.close().await;
    }

    /// A small cluster with something of everything.
    pub(super) async fn seed(&mut self) -> anyhow::Result<Done> {
        self.propose(Command::RegisterNode {
            node: NODE,
            node_epoch: NODE_EPOCH,
            http_address: "http://127.0.0.1:9092".to_owned(),
            slots: 8,
        })
        .await?;
        self.foreign()?;
        let mut streams = Vec::new();
        for _ in 0..6 {
            let mut stream = self.stream().await?;
            self.append(&mut stream, 30, 2048).await?;
            streams.push(stream);
        }
        let deleted = [streams.remove(0), streams.remove(0)];
        for stream in deleted {
            self.delete(stream).await?;
        }
        let [first, second, third, fourth] = &mut streams[..] else {
            bail!("four streams are left of six");
        };
        self.stream_sets(first, second).await?;
        self.compact(third).await?;
        let victim = fourth.objects[7];
        self.hostile(first, victim).await?;
        self.abandon(
            8,
            LAPSE.as_millis() as i64,
            Fate::Abandoned,
            "never committed",
        )
        .await?;
        self.abandon(3, HOUR_MS, Fate::Reserved, "still being uploaded")
            .await?;
        for number in 0..20 {
            self.key(&format!("{SESSIONS}{number:03}"), true).await?;
        }
        for number in 0..3 {
            self.key(&format!("{KEPT_KEYS}{number}"), false).await?;
        }
        Ok(Done {
            text: format!(
                "6 streams, {} objects; 2 streams deleted, 4 stream-set objects compacted, \
                 8 uploads abandoned, 1 mark that names a live object ({victim})",
                self.made.len()
            ),
            ids: vec![victim],
        })
    }

    /// Upload many small objects into one stream.
    pub(super) async fn fill(&mut self, count: u32) -> anyhow::Result<Done> {
        let mut stream = self.stream().await?;
        self.append(&mut stream, count, 256).await?;
        let done = Done {
            text: format!("{count} objects uploaded into stream {}", stream.id),
            ids: stream.objects.clone(),
        };
        self.filled = Some(stream);
        Ok(done)
    }

    /// Delete the stream that was filled.
    pub(super) async fn destroy(&mut self) -> anyhow::Result<Done> {
        let stream = self.filled.take().context("no stream was filled")?;
        let text = format!(
            "stream {} deleted with {} objects",
            stream.id,
            stream.objects.len()
        );
        self.delete(stream).await?;
        Ok(Done {
            text,
            ids: Vec::new(),
        })
    }

    /// A small piece of work: some uploads, a deletion, an abandoned upload.
    pub(super) async fn trickle(&mut self) -> anyhow::Result<()> {
        self.turn += 1;
        let mut stream = self.stream().await?;
        self.append(&mut stream, 5, 1024).await?;
        self.trickle.push_back(stream);
        if self.trickle.len() > 3
            && let Some(oldest) = self.trickle.pop_front()
        {
            self.delete(oldest).await?;
        }
        if self.turn.is_multiple_of(5) {
            self.abandon(
                1,
                LAPSE.as_millis() as i64,
                Fate::Abandoned,
                "never committed",
            )
            .await?;
            self.key(&format!("{SESSIONS}late-{}", self.turn), true)
                .await?;
        }
        Ok(())
    }

    /// Delete what the small pieces of work left over, all but one stream.
    pub(super) async fn rest(&mut self) -> anyhow::Result<Done> {
        while self.trickle.len() > 1
            && let Some(stream) = self.trickle.pop_front()
        {
            self.delete(stream).await?;
        }
        Ok(Done {
            text: format!("rests; it made {} objects", self.made.len()),
            ids: Vec::new(),
        })
    }

    async fn stream(&mut self) -> anyhow::Result<Open> {
        let value = self
            .propose(Command::CreateStream {
                node: NODE,
                node_epoch: NODE_EPOCH,
            })
            .await?;
        let id = StreamId(id_of(&value)?);
        self.ledger.append([&Ledger::Stream { id: id.0 }])?;
        self.propose(Command::OpenStream {
            node: NODE,
            node_epoch: NODE_EPOCH,
            stream: id,
            epoch: STREAM_EPOCH,
        })
        .await?;
        Ok(Open {
            id,
            end: 0,
            objects: Vec::new(),
        })
    }

    /// Append objects to a stream.
    async fn append(&mut self, stream: &mut Open, count: u32, size: usize) -> anyhow::Result<()> {
        let ids = self.upload(count, HOUR_MS, size).await?;
        for chunk in ids.chunks(COMMIT) {
            let mut start = stream.end;
            let stream_objects = chunk
                .iter()
                .map(|&id| {
                    let object = CommitStreamObject {
                        object: ObjectId(id),
                        object_size: size as u64,
                        stream: stream.id,
                        start_offset: start,
                        end_offset: start + SPAN,
                        attributes: 0,
                    };
                    start += SPAN;
                    object
                })
                .collect();
            self.commit(CommitRequest {
                object: NOOP,
                object_size: 0,
                attributes: 0,
                ranges: Vec::new(),
                stream_objects,
                compacted: Vec::new(),
            })
            .await?;
            stream.end = start;
            stream.objects.extend(chunk);
            self.note(chunk, Fate::Live, "committed")?;
        }
        Ok(())
    }

    /// Three stream-set objects over two streams, then one that replaces them.
    async fn stream_sets(&mut self, a: &mut Open, b: &mut Open) -> anyhow::Result<()> {
        let (start_a, start_b) = (a.end, b.end);
        let ids = self.upload(4, HOUR_MS, 4096).await?;
        let Some((&merged, parts)) = ids.split_last() else {
            bail!("four ids were reserved");
        };
        for &id in parts {
            let ranges = vec![
                range(a.id, a.end, a.end + SPAN),
                range(b.id, b.end, b.end + SPAN),
            ];
            a.end += SPAN;
            b.end += SPAN;
            self.commit(stream_set(id, ranges, Vec::new())).await?;
            self.note(&[id], Fate::Live, "committed")?;
        }
        let ranges = vec![range(a.id, start_a, a.end), range(b.id, start_b, b.end)];
        let compacted = parts.iter().map(|&id| ObjectId(id)).collect();
        self.commit(stream_set(merged, ranges, compacted)).await?;
        self.note(parts, Fate::Destroyed, "compacted into another")?;
        self.note(&[merged], Fate::Live, "committed")
    }

    /// Replace two objects of a stream by one; the bytes of the second stay.
    async fn compact(&mut self, stream: &mut Open) -> anyhow::Result<()> {
        let new = self.upload(1, HOUR_MS, 4096).await?[0];
        let sources: Vec<u64> = stream.objects.drain(..2).collect();
        let now_ms = self.now().await?;
        self.propose(Command::CompactStreamObject {
            node: NODE,
            node_epoch: NODE_EPOCH,
            now_ms,
            request: CompactRequest {
                object: ObjectId(new),
                object_size: 4096,
                stream: stream.id,
                stream_epoch: STREAM_EPOCH as u64,
                start_offset: 0,
                end_offset: 2 * SPAN,
                attributes: 0,
                sources: sources.iter().map(|&id| ObjectId(id)).collect(),
                operations: vec![Operation::Delete, Operation::KeepData],
            },
        })
        .await?;
        stream.objects.push(new);
        self.note(&[new], Fate::Live, "committed")?;
        self.note(&sources[..1], Fate::Destroyed, "compacted into another")?;
        self.note(&sources[1..], Fate::Kept, "compacted, its bytes are kept")
    }

    /// A mark that names a live object of another stream: `apply` accepts it.
    async fn hostile(&mut self, stream: &Open, victim: u64) -> anyhow::Result<()> {
        let now_ms = self.now().await?;
        self.propose(Command::CompactStreamObject {
            node: NODE,
            node_epoch: NODE_EPOCH,
            now_ms,
            request: CompactRequest {
                object: NOOP,
                object_size: 0,
                stream: stream.id,
                stream_epoch: STREAM_EPOCH as u64,
                start_offset: 0,
                end_offset: SPAN,
                attributes: 0,
                sources: vec![ObjectId(victim)],
                operations: Vec::new(),
            },
        })
        .await?;
        self.note(
            &[victim],
            Fate::Conflict,
            "a compaction of another stream names it",
        )
    }

    /// Upload and never commit.
    async fn abandon(
        &mut self,
        count: u32,
        ttl_ms: i64,
        fate: Fate,
        why: &str,
    ) -> anyhow::Result<()> {
        let ids = self.upload(count, ttl_ms, 512).await?;
        self.note(&ids, fate, why)
    }

    async fn delete(&mut self, stream: Open) -> anyhow::Result<()> {
        let (node, node_epoch, epoch) = (NODE, NODE_EPOCH, STREAM_EPOCH);
        let id = stream.id;
        self.propose(Command::CloseStream {
            node,
            node_epoch,
            stream: id,
            epoch,
        })
        .await?;
        self.propose(Command::DeleteStream {
            node,
            node_epoch,
            stream: id,
            epoch,
        })
        .await?;
        self.note(&stream.objects, Fate::Destroyed, "its stream was deleted")
    }

    async fn key(&mut self, key: &str, expires: bool) -> anyhow::Result<()> {
        self.propose(Command::PutKv {
            key: key.to_owned(),
            value: format!("value of {key}").into_bytes(),
        })
        .await?;
        self.ledger.append([&Ledger::Key {
            key: key.to_owned(),
            expires,
        }])
    }
}

fn id_of(value: &Value) -> anyhow::Result<u64> {
    match value {
        Value::Id(id) => Ok(*id),
        other => bail!("an id was expected, not {other:?}"),
    }
}

fn range(stream: StreamId, start_offset: u64, end_offset: u64) -> CommitRange {
    CommitRange {
        stream,
        epoch: STREAM_EPOCH as u64,
        start_offset,
        end_offset,
        size: 2048,
    }
}

fn stream_set(id: u64, ranges: Vec<CommitRange>, compacted: Vec<ObjectId>) -> CommitRequest {
    CommitRequest {
        object: ObjectId(id),
        object_size: 4096,
        attributes: 0,
        ranges,
        stream_objects: Vec::new(),
        compacted,
    }
}

/// Bytes that differ from object to object and are the same in every run.
fn content(id: u64, size: usize) -> Vec<u8> {
    let mut state = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..size)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}
