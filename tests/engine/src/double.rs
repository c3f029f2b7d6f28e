//! A host in memory.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use aedile_engine::wit::{
    Answer, Compaction, Counts, DeleteOutcome, HostError, KvEntry, Level, Mark, Node, Object,
    Operation, Put, Reservation, Stored, Stream, StreamAt, StreamCursor, StreamObject, Sweep,
    Transfer, Trim,
};
use aedile_engine::{Call, Fatal, Host};
use async_trait::async_trait;
use tokio::sync::Notify;

/// What `expire-reservations` does.
#[derive(Clone, Debug, Default)]
pub enum Behaviour {
    /// It answers.
    #[default]
    Answer,
    /// It never ends; the flag is set when it is dropped.
    Hang(Arc<AtomicBool>),
    /// It says that it began, waits to be let go, then ends and sets the flag.
    Wait {
        /// Notified when the call begins.
        began: Arc<Notify>,
        /// Awaited.
        go: Arc<Notify>,
        /// Set at the end.
        ended: Arc<AtomicBool>,
    },
    /// It takes this long.
    Slow(Duration),
    /// It panics.
    Panic,
    /// It fails.
    Fail(Fatal),
    /// It answers with an error.
    Error(HostError),
    /// It answers with a text of this many bytes.
    Text(usize),
}

/// A host in memory.
#[derive(Debug, Default)]
pub struct Double {
    /// What `expire-reservations` does.
    pub behaviour: Behaviour,
    /// Reservations that have lapsed.
    pub lapsed: u32,
    /// The destroyed queue.
    pub marks: Vec<Mark>,
    /// Ids of objects.
    pub ids: Vec<u64>,
    /// The key-value map.
    pub kv: BTreeMap<String, Vec<u8>>,
    /// Bytes that are gone.
    pub deleted: BTreeSet<u64>,
    /// Log lines.
    pub log: Vec<(Level, String)>,
    /// Calls of `commands` and `storage`.
    pub calls: u64,
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Double {
    /// The double that a tick hands back.
    ///
    /// # Panics
    /// If it handed none back.
    pub fn from(host: Option<Box<dyn Host>>) -> Self {
        let host: Box<dyn Any> = host.expect("the host comes back");
        *host.downcast().expect("it is the double")
    }

    fn answers(&mut self, count: usize) -> Call<Vec<Answer>> {
        self.calls += 1;
        Ok(Ok(vec![Answer::Applied; count]))
    }
}

#[async_trait]
impl Host for Double {
    fn log(&mut self, level: Level, line: &str) {
        self.log.push((level, line.to_owned()));
    }

    fn applied_index(&mut self) -> u64 {
        1
    }

    fn sizes(&mut self) -> Counts {
        Counts {
            streams: 0,
            nodes: 0,
            objects: self.ids.len() as u64,
            reservations: u64::from(self.lapsed),
            destroyed: self.marks.len() as u64,
            kv: self.kv.len() as u64,
        }
    }

    fn lapsed_reservations(&mut self, limit: usize) -> Vec<Reservation> {
        (0..u64::from(self.lapsed))
            .take(limit)
            .map(|id| Reservation { id, deadline: 0 })
            .collect()
    }

    fn lapsed_count(&mut self, limit: usize) -> u32 {
        self.lapsed.min(limit as u32)
    }

    fn destroyed(&mut self, after: Option<u64>, limit: usize) -> Vec<Mark> {
        let later = |mark: &&Mark| after.is_none_or(|after| mark.seq > after);
        self.marks
            .iter()
            .filter(later)
            .take(limit)
            .copied()
            .collect()
    }

    fn objects(&mut self, _: Option<u64>, _: usize) -> Vec<Object> {
        Vec::new()
    }

    // More than asked for: the engine does not rely on its host here.
    fn object_ids(&mut self, after: Option<u64>, _: usize) -> Vec<u64> {
        let later = |id: &&u64| after.is_none_or(|after| **id > after);
        self.ids.iter().filter(later).copied().collect()
    }

    fn get_object(&mut self, _: u64) -> Option<Object> {
        None
    }

    fn stream_objects(&mut self, _: u64, _: Option<StreamCursor>, _: usize) -> Vec<StreamObject> {
        Vec::new()
    }

    fn streams(&mut self, _: Option<u64>, _: usize) -> Vec<Stream> {
        Vec::new()
    }

    fn get_stream(&mut self, _: u64) -> Option<Stream> {
        None
    }

    fn nodes(&mut self, _: Option<i32>, _: usize) -> Vec<Node> {
        Vec::new()
    }

    fn kv_get(&mut self, key: &str) -> Option<Vec<u8>> {
        self.kv.get(key).cloned()
    }

    fn kv_scan(
        &mut self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        _: usize,
    ) -> Vec<KvEntry> {
        self.kv
            .iter()
            .filter(|(key, _)| {
                key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after)
            })
            .take(limit)
            .map(|(key, value)| KvEntry {
                key: key.clone(),
                value: value.clone(),
            })
            .collect()
    }

    fn kv_keys(
        &mut self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        bytes: usize,
    ) -> Vec<String> {
        let entries = self.kv_scan(prefix, after, limit, bytes);
        entries.into_iter().map(|entry| entry.key).collect()
    }

    async fn expire_reservations(&mut self) -> Call<Answer> {
        self.calls += 1;
        match self.behaviour.clone() {
            Behaviour::Answer => {
                let answer = if self.lapsed == 0 {
                    Answer::Redundant
                } else {
                    Answer::Applied
                };
                self.lapsed = 0;
                Ok(Ok(answer))
            }
            Behaviour::Hang(dropped) => {
                let _dropped = SetOnDrop(dropped);
                std::future::pending().await
            }
            Behaviour::Wait { began, go, ended } => {
                began.notify_one();
                go.notified().await;
                ended.store(true, Ordering::SeqCst);
                Ok(Ok(Answer::Applied))
            }
            Behaviour::Slow(takes) => {
                let clock: SharedClock = Arc::new(SystemClock);
                clock.sleep(takes).await;
                Ok(Ok(Answer::Redundant))
            }
            Behaviour::Panic => panic!("the double was told to panic"),
            Behaviour::Fail(fatal) => Err(fatal),
            Behaviour::Error(error) => Ok(Err(error)),
            Behaviour::Text(bytes) => Ok(Ok(Answer::Rejected("ä".repeat(bytes / 2)))),
        }
    }

    async fn clean_destroyed(&mut self, ids: Vec<u64>) -> Call<Vec<Answer>> {
        for id in &ids {
            let mark = self.marks.iter().find(|mark| mark.id == *id);
            let keeps = mark.is_some_and(|mark| mark.operation == Operation::KeepData);
            if !keeps && !self.deleted.contains(id) {
                return Err(Fatal::Failed(format!(
                    "{id} is cleaned before its bytes went"
                )));
            }
        }
        let gone: BTreeSet<u64> = ids.iter().copied().collect();
        self.marks.retain(|mark| !gone.contains(&mark.id));
        self.answers(ids.len())
    }

    async fn put_kv(&mut self, entries: Vec<Put>) -> Call<Vec<Answer>> {
        self.answers(entries.len())
    }

    async fn put_kv_if_absent(&mut self, entries: Vec<Put>) -> Call<Vec<Answer>> {
        self.answers(entries.len())
    }

    async fn delete_kv(&mut self, keys: Vec<String>) -> Call<Vec<Answer>> {
        self.answers(keys.len())
    }

    async fn trim_stream(&mut self, trims: Vec<Trim>) -> Call<Vec<Answer>> {
        self.answers(trims.len())
    }

    async fn delete_stream(&mut self, streams: Vec<StreamAt>) -> Call<Vec<Answer>> {
        self.answers(streams.len())
    }

    async fn compact_away(&mut self, compactions: Vec<Compaction>) -> Call<Vec<Answer>> {
        self.answers(compactions.len())
    }

    async fn transfer_stream(&mut self, transfers: Vec<Transfer>) -> Call<Vec<Answer>> {
        self.answers(transfers.len())
    }

    async fn delete(&mut self, ids: Vec<u64>) -> Call<Vec<DeleteOutcome>> {
        self.calls += 1;
        let outcomes = ids
            .iter()
            .map(|id| match self.deleted.insert(*id) {
                true => DeleteOutcome::Deleted,
                false => DeleteOutcome::Absent,
            })
            .collect();
        Ok(Ok(outcomes))
    }

    async fn list(&mut self, _: String, _: Option<String>, _: usize) -> Call<Vec<Stored>> {
        self.calls += 1;
        Ok(Ok(Vec::new()))
    }

    async fn head(&mut self, _: u64) -> Call<Option<Stored>> {
        self.calls += 1;
        Ok(Ok(None))
    }

    // More than asked for, as in `object_ids`.
    async fn read(&mut self, _: u64, _: u64, length: u32) -> Call<Option<Vec<u8>>> {
        self.calls += 1;
        Ok(Ok(Some(vec![7; length as usize + 100])))
    }

    async fn find_orphans(&mut self) -> Call<Sweep> {
        self.calls += 1;
        Ok(Ok(Sweep {
            listed: 0,
            candidates: 0,
            bytes: 0,
            complete: true,
            ripe: Vec::new(),
            held: None,
        }))
    }

    async fn delete_orphan(&mut self, ids: Vec<u64>) -> Call<Vec<DeleteOutcome>> {
        self.delete(ids).await
    }
}
