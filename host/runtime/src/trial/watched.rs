//! A host between plugin and production host: it notes what crosses the
//! boundary, and can stop the tick at one of its calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aedile_engine::wit::{
    Answer, Compaction, Counts, DeleteOutcome, KvEntry, Level, Mark, Node, Object, Put,
    Reservation, Stored, Stream, StreamAt, StreamCursor, StreamObject, Sweep, Transfer, Trim,
};
use aedile_engine::{Call, Fatal, Host};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::wire::{Wire, answered};

/// What becomes of the call at which a tick is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The tick ends before the call has done anything.
    Before,
    /// The call has its whole effect, and the tick ends.
    After,
    /// The first half of the call's items has its effect, and the tick ends.
    Half,
    /// The call has its whole effect, its answer is lost (`unknown`, or a delete
    /// to retry), and the tick goes on.
    AnswerLost,
}

/// A call that sends something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Its function, as a grant: `commands.put-kv`.
    pub function: String,
    /// Items in its list; 1 for a call without a list.
    pub items: usize,
}

/// What crossed the boundary in the ticks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boundary {
    /// Calls of any kind.
    pub calls: u64,
    /// Bytes that the plugin passed to the host.
    pub to_host: u64,
    /// Bytes that the host answered.
    pub to_plugin: u64,
    /// The most bytes that one call carried in one direction.
    pub largest: u64,
    /// The function of that call.
    pub largest_call: String,
    /// Bytes of log lines.
    pub log: u64,
}

/// What the watched ticks of one run did.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) sent: Vec<Sent>,
    pub(super) boundary: Boundary,
    /// Where to stop: a place in `sent`, and how.
    stop: Option<(usize, Stop)>,
    /// Whether it came to that.
    pub(super) stopped: bool,
    /// Log lines are not passed on: they were by another run of the same ticks.
    pub(super) quiet: bool,
}

impl Journal {
    pub(super) fn quiet() -> Self {
        Self {
            quiet: true,
            ..Self::default()
        }
    }

    pub(super) fn stopping(at: usize, how: Stop) -> Self {
        Self {
            stop: Some((at, how)),
            ..Self::quiet()
        }
    }

    fn crossed(&mut self, function: &str, to_host: usize, to_plugin: usize) {
        let boundary = &mut self.boundary;
        boundary.calls += 1;
        boundary.to_host += to_host as u64;
        boundary.to_plugin += to_plugin as u64;
        let most = to_host.max(to_plugin) as u64;
        if most > boundary.largest {
            boundary.largest = most;
            function.clone_into(&mut boundary.largest_call);
        }
    }

    /// Note a call that sends something; how the tick is to be stopped at it.
    fn sends(&mut self, function: &str, items: usize) -> Option<Stop> {
        let here = self.sent.len();
        self.sent.push(Sent {
            function: function.to_owned(),
            items,
        });
        let how = self
            .stop
            .and_then(|(at, how)| (at == here).then_some(how))?;
        self.stopped = true;
        Some(how)
    }
}

/// Shared with the run that reads it.
pub(super) type SharedJournal = Arc<Mutex<Journal>>;

/// What is noted is whole also after a panic.
pub(super) fn lock(journal: &SharedJournal) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A host whose calls are watched.
#[derive(Debug)]
pub(super) struct Watched<H> {
    pub(super) host: H,
    pub(super) journal: SharedJournal,
}

/// An answer that a lost reply leaves of a call.
trait Lost {
    fn lose(&mut self);
}

impl Lost for Answer {
    fn lose(&mut self) {
        *self = Self::Unknown;
    }
}

impl Lost for DeleteOutcome {
    fn lose(&mut self) {
        *self = Self::Retry("the answer was lost".to_owned());
    }
}

/// A sweep is asked for again by the next call.
impl Lost for Sweep {
    fn lose(&mut self) {
        self.ripe.clear();
    }
}

impl<T: Lost> Lost for Vec<T> {
    fn lose(&mut self) {
        self.iter_mut().for_each(Lost::lose);
    }
}

impl<H: Host> Watched<H> {
    /// A call that reads memory.
    fn reads<T: Wire>(
        &mut self,
        function: &str,
        to_host: usize,
        call: impl FnOnce(&mut H) -> T,
    ) -> T {
        let answer = call(&mut self.host);
        lock(&self.journal).crossed(function, to_host, answer.wire());
        answer
    }

    fn note<T: Wire>(&self, function: &str, to_host: usize, answer: &Call<T>) {
        lock(&self.journal).crossed(function, to_host, answered(answer));
    }
}

/// A call with a list: watched, and stopped where the run says so.
macro_rules! send {
    ($self:ident, $function:literal, $method:ident, $items:ident) => {{
        let (to_host, most) = ($items.wire(), $items.len());
        let how = lock(&$self.journal).sends($function, most);
        let mut items = $items;
        match how {
            Some(Stop::Before) => return Err(Fatal::LeaseLost),
            Some(Stop::Half) => items.truncate(most / 2),
            _ => {}
        }
        let mut answer = $self.host.$method(items).await;
        match (how, &mut answer) {
            (Some(Stop::After | Stop::Half), Ok(_)) => return Err(Fatal::LeaseLost),
            (Some(Stop::AnswerLost), Ok(Ok(answer))) => answer.lose(),
            _ => {}
        }
        $self.note($function, to_host, &answer);
        answer
    }};
}

/// The same for a call without arguments.
macro_rules! send_bare {
    ($self:ident, $function:literal, $method:ident) => {{
        let how = lock(&$self.journal).sends($function, 1);
        if how == Some(Stop::Before) {
            return Err(Fatal::LeaseLost);
        }
        let mut answer = $self.host.$method().await;
        match (how, &mut answer) {
            (Some(Stop::After | Stop::Half), Ok(_)) => return Err(Fatal::LeaseLost),
            (Some(Stop::AnswerLost), Ok(Ok(answer))) => answer.lose(),
            _ => {}
        }
        $self.note($function, 0, &answer);
        answer
    }};
}

#[async_trait]
impl<H: Host> Host for Watched<H> {
    fn log(&mut self, level: Level, line: &str) {
        let mut journal = lock(&self.journal);
        journal.boundary.log += line.len() as u64;
        if !journal.quiet {
            self.host.log(level, line);
        }
    }

    fn applied_index(&mut self) -> u64 {
        self.reads("state.applied-index", 0, H::applied_index)
    }

    fn sizes(&mut self) -> Counts {
        self.reads("state.sizes", 0, H::sizes)
    }

    fn lapsed_reservations(&mut self, limit: usize) -> Vec<Reservation> {
        self.reads("state.lapsed-reservations", 4, |host| {
            host.lapsed_reservations(limit)
        })
    }

    fn lapsed_count(&mut self, limit: usize) -> u32 {
        self.reads("state.lapsed-count", 4, |host| host.lapsed_count(limit))
    }

    fn destroyed(&mut self, after: Option<u64>, limit: usize) -> Vec<Mark> {
        self.reads("state.destroyed", 20, |host| host.destroyed(after, limit))
    }

    fn objects(&mut self, after: Option<u64>, limit: usize) -> Vec<Object> {
        self.reads("state.objects", 20, |host| host.objects(after, limit))
    }

    fn object_ids(&mut self, after: Option<u64>, limit: usize) -> Vec<u64> {
        self.reads("state.object-ids", 20, |host| host.object_ids(after, limit))
    }

    fn get_object(&mut self, id: u64) -> Option<Object> {
        self.reads("state.get-object", 8, |host| host.get_object(id))
    }

    fn stream_objects(
        &mut self,
        id: u64,
        after: Option<StreamCursor>,
        limit: usize,
    ) -> Vec<StreamObject> {
        self.reads("state.stream-objects", 36, |host| {
            host.stream_objects(id, after, limit)
        })
    }

    fn streams(&mut self, after: Option<u64>, limit: usize) -> Vec<Stream> {
        self.reads("state.streams", 20, |host| host.streams(after, limit))
    }

    fn get_stream(&mut self, id: u64) -> Option<Stream> {
        self.reads("state.get-stream", 8, |host| host.get_stream(id))
    }

    fn nodes(&mut self, after: Option<i32>, limit: usize) -> Vec<Node> {
        self.reads("state.nodes", 12, |host| host.nodes(after, limit))
    }

    fn kv_get(&mut self, key: &str) -> Option<Vec<u8>> {
        self.reads("state.kv-get", key.len(), |host| host.kv_get(key))
    }

    fn kv_scan(
        &mut self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        bytes: usize,
    ) -> Vec<KvEntry> {
        let to_host = prefix.len() + after.map_or(0, str::len);
        self.reads("state.kv-scan", to_host, |host| {
            host.kv_scan(prefix, after, limit, bytes)
        })
    }

    fn kv_keys(
        &mut self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        bytes: usize,
    ) -> Vec<String> {
        let to_host = prefix.len() + after.map_or(0, str::len);
        self.reads("state.kv-keys", to_host, |host| {
            host.kv_keys(prefix, after, limit, bytes)
        })
    }

    async fn expire_reservations(&mut self) -> Call<Answer> {
        send_bare!(self, "commands.expire-reservations", expire_reservations)
    }

    async fn clean_destroyed(&mut self, ids: Vec<u64>) -> Call<Vec<Answer>> {
        send!(self, "commands.clean-destroyed", clean_destroyed, ids)
    }

    async fn put_kv(&mut self, entries: Vec<Put>) -> Call<Vec<Answer>> {
        send!(self, "commands.put-kv", put_kv, entries)
    }

    async fn put_kv_if_absent(&mut self, entries: Vec<Put>) -> Call<Vec<Answer>> {
        send!(self, "commands.put-kv-if-absent", put_kv_if_absent, entries)
    }

    async fn delete_kv(&mut self, keys: Vec<String>) -> Call<Vec<Answer>> {
        send!(self, "commands.delete-kv", delete_kv, keys)
    }

    async fn trim_stream(&mut self, trims: Vec<Trim>) -> Call<Vec<Answer>> {
        send!(self, "commands.trim-stream", trim_stream, trims)
    }

    async fn delete_stream(&mut self, streams: Vec<StreamAt>) -> Call<Vec<Answer>> {
        send!(self, "commands.delete-stream", delete_stream, streams)
    }

    async fn compact_away(&mut self, compactions: Vec<Compaction>) -> Call<Vec<Answer>> {
        send!(self, "commands.compact-away", compact_away, compactions)
    }

    async fn transfer_stream(&mut self, transfers: Vec<Transfer>) -> Call<Vec<Answer>> {
        send!(self, "commands.transfer-stream", transfer_stream, transfers)
    }

    async fn delete(&mut self, ids: Vec<u64>) -> Call<Vec<DeleteOutcome>> {
        send!(self, "storage.delete", delete, ids)
    }

    async fn list(
        &mut self,
        prefix: String,
        after: Option<String>,
        limit: usize,
    ) -> Call<Vec<Stored>> {
        let to_host = prefix.wire() + after.wire();
        let answer = self.host.list(prefix, after, limit).await;
        self.note("storage.list", to_host, &answer);
        answer
    }

    async fn head(&mut self, id: u64) -> Call<Option<Stored>> {
        let answer = self.host.head(id).await;
        self.note("storage.head", id.wire(), &answer);
        answer
    }

    async fn read(&mut self, id: u64, offset: u64, length: u32) -> Call<Option<Vec<u8>>> {
        let answer = self.host.read(id, offset, length).await;
        self.note("storage.read", 20, &answer);
        answer
    }

    async fn find_orphans(&mut self) -> Call<Sweep> {
        send_bare!(self, "storage.find-orphans", find_orphans)
    }

    async fn delete_orphan(&mut self, ids: Vec<u64>) -> Call<Vec<DeleteOutcome>> {
        send!(self, "storage.delete-orphan", delete_orphan, ids)
    }
}
