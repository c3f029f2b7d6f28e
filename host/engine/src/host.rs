//! What the engine asks of its owner while a tick runs.

use std::any::Any;

use async_trait::async_trait;

use crate::wit::{
    Answer, Compaction, Counts, DeleteOutcome, HostError, KvEntry, Level, Mark, Node, Object, Put,
    Reservation, Stored, Stream, StreamAt, StreamCursor, StreamObject, Sweep, Transfer, Trim,
};

/// Why a host call ends the tick instead of answering the plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fatal {
    /// The term is over; the tick ends with [`TickEnd::LeaseLost`](crate::TickEnd::LeaseLost).
    #[error("the lease was lost")]
    LeaseLost,
    /// The host itself is broken; the tick ends with
    /// [`TickEnd::HostError`](crate::TickEnd::HostError).
    #[error("the host failed: {0}")]
    Failed(String),
}

/// An answer for the plugin, or the end of its tick.
pub type Call<T> = Result<Result<T, HostError>, Fatal>;

/// One tick's access to the state, the log and the store. What each function
/// means is written in `wit/`; the engine has checked grant, authority and
/// limits before it calls one.
///
/// The functions of `state` read memory and must not block. Those of `commands`
/// and `storage` may wait; the engine awaits what it began, also past the end
/// of the term, for as long as [`Limits::grace`](crate::Limits::grace) says:
/// a host that sends in portions asks its own authority before each.
///
/// A host is handed back in [`Tick::host`](crate::Tick::host); `Any` lets its
/// owner turn the box into its own type again.
#[async_trait]
pub trait Host: Any + Send {
    /// A line of the plugin's log: control characters are escaped, at most 4 KiB.
    fn log(&mut self, level: Level, line: &str);

    /// `state.applied-index`.
    fn applied_index(&mut self) -> u64;
    /// `state.sizes`.
    fn sizes(&mut self) -> Counts;
    /// `state.lapsed-reservations`.
    fn lapsed_reservations(&mut self, limit: usize) -> Vec<Reservation>;
    /// `state.lapsed-count`.
    fn lapsed_count(&mut self, limit: usize) -> u32;
    /// `state.destroyed`: what is neither parked nor backed off.
    fn destroyed(&mut self, after: Option<u64>, limit: usize) -> Vec<Mark>;
    /// `state.objects`.
    fn objects(&mut self, after: Option<u64>, limit: usize) -> Vec<Object>;
    /// `state.object-ids`.
    fn object_ids(&mut self, after: Option<u64>, limit: usize) -> Vec<u64>;
    /// `state.get-object`.
    fn get_object(&mut self, id: u64) -> Option<Object>;
    /// `state.stream-objects`.
    fn stream_objects(
        &mut self,
        id: u64,
        after: Option<StreamCursor>,
        limit: usize,
    ) -> Vec<StreamObject>;
    /// `state.streams`.
    fn streams(&mut self, after: Option<u64>, limit: usize) -> Vec<Stream>;
    /// `state.get-stream`.
    fn get_stream(&mut self, id: u64) -> Option<Stream>;
    /// `state.nodes`.
    fn nodes(&mut self, after: Option<i32>, limit: usize) -> Vec<Node>;
    /// `state.kv-get`.
    fn kv_get(&mut self, key: &str) -> Option<Vec<u8>>;
    /// `state.kv-scan`. A page of more than `bytes` is cut by the engine, so
    /// collecting may end there, after one entry at least.
    fn kv_scan(
        &mut self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        bytes: usize,
    ) -> Vec<KvEntry>;
    /// `state.kv-keys`; `bytes` as for [`Host::kv_scan`].
    fn kv_keys(
        &mut self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        bytes: usize,
    ) -> Vec<String>;

    /// `commands.expire-reservations`.
    async fn expire_reservations(&mut self) -> Call<Answer>;
    /// `commands.clean-destroyed`.
    async fn clean_destroyed(&mut self, ids: Vec<u64>) -> Call<Vec<Answer>>;
    /// `commands.put-kv`.
    async fn put_kv(&mut self, entries: Vec<Put>) -> Call<Vec<Answer>>;
    /// `commands.put-kv-if-absent`.
    async fn put_kv_if_absent(&mut self, entries: Vec<Put>) -> Call<Vec<Answer>>;
    /// `commands.delete-kv`.
    async fn delete_kv(&mut self, keys: Vec<String>) -> Call<Vec<Answer>>;
    /// `commands.trim-stream`.
    async fn trim_stream(&mut self, trims: Vec<Trim>) -> Call<Vec<Answer>>;
    /// `commands.delete-stream`.
    async fn delete_stream(&mut self, streams: Vec<StreamAt>) -> Call<Vec<Answer>>;
    /// `commands.compact-away`.
    async fn compact_away(&mut self, compactions: Vec<Compaction>) -> Call<Vec<Answer>>;
    /// `commands.transfer-stream`.
    async fn transfer_stream(&mut self, transfers: Vec<Transfer>) -> Call<Vec<Answer>>;

    /// `storage.delete`.
    async fn delete(&mut self, ids: Vec<u64>) -> Call<Vec<DeleteOutcome>>;
    /// `storage.list`.
    async fn list(
        &mut self,
        prefix: String,
        after: Option<String>,
        limit: usize,
    ) -> Call<Vec<Stored>>;
    /// `storage.head`.
    async fn head(&mut self, id: u64) -> Call<Option<Stored>>;
    /// `storage.read`.
    async fn read(&mut self, id: u64, offset: u64, length: u32) -> Call<Option<Vec<u8>>>;
    /// `storage.find-orphans`.
    async fn find_orphans(&mut self) -> Call<Sweep>;
    /// `storage.delete-orphan`.
    async fn delete_orphan(&mut self, ids: Vec<u64>) -> Call<Vec<DeleteOutcome>>;
}
