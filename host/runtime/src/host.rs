//! What a plugin's calls do: the engine's host over the guards of a term.
//!
//! One for each tick: it pins a view, knows which plugin calls, and counts what
//! its calls achieved. Every call that sends anything runs as a task of the term,
//! so that it is joined before the lease is released even if its tick is cut off.

mod commands;
mod destructive;
mod orphans;
mod storage;
mod view;

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use aedile_engine::wit::{
    Answer, Compaction, Counts, DeleteOutcome, HostError, KvEntry, Level, Mark, Node, Object, Put,
    Reservation, Stored, Stream, StreamAt, StreamCursor, StreamObject, Sweep, Transfer, Trim,
};
use aedile_engine::{Call, Fatal, Host};
use aedile_log::View;
use aedile_state::StreamId;
use async_trait::async_trait;

use crate::backend::{Backend, Trouble};
use crate::guard::{Guards, Item, KeyRule};

/// What one tick's calls go through.
#[derive(Debug)]
pub(crate) struct PluginHost<B> {
    pub(crate) guards: Arc<Guards<B>>,
    /// Name of the plugin.
    pub(crate) plugin: Arc<str>,
    /// The view of this tick.
    pub(crate) view: Arc<View>,
    /// Time of this tick, in milliseconds.
    pub(crate) now: i64,
    pub(crate) keys: KeyRule,
    /// What its calls achieved.
    pub(crate) effects: Arc<AtomicU64>,
    /// Whether it got on with something that takes several ticks.
    pub(crate) advanced: Arc<AtomicBool>,
}

impl<B: Backend> PluginHost<B> {
    /// Run a call as a task of the term.
    async fn tracked<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, Trouble>> + Send + 'static,
    ) -> Call<T> {
        match self.guards.in_flight.spawn(call).await {
            Ok(Ok(answer)) => Ok(Ok(answer)),
            Ok(Err(Trouble::LeaseLost)) => Err(Fatal::LeaseLost),
            Ok(Err(Trouble::Unavailable(text))) => Ok(Err(HostError::Unavailable(text))),
            Err(error) => Err(Fatal::Failed(format!("a call's task died: {error}"))),
        }
    }

    fn answers(&self, items: Vec<Item>) -> Vec<Answer> {
        items.into_iter().map(|item| self.answer(item)).collect()
    }

    fn answer(&self, item: Item) -> Answer {
        match item {
            Item::Applied => {
                self.effects.fetch_add(1, Ordering::Relaxed);
                Answer::Applied
            }
            Item::Redundant => Answer::Redundant,
            Item::Rejected(text) => Answer::Rejected(text),
            Item::Unknown => Answer::Unknown,
        }
    }
}

#[async_trait]
impl<B: Backend + std::fmt::Debug> Host for PluginHost<B> {
    fn log(&mut self, level: Level, line: &str) {
        let plugin = &*self.plugin;
        match level {
            Level::Debug => tracing::debug!(plugin, "{line}"),
            Level::Info => tracing::info!(plugin, "{line}"),
            Level::Warn => tracing::warn!(plugin, "{line}"),
            Level::Error => tracing::error!(plugin, "{line}"),
        }
    }

    fn applied_index(&mut self) -> u64 {
        self.view.index
    }

    fn sizes(&mut self) -> Counts {
        view::sizes(&self.view.state)
    }

    fn lapsed_reservations(&mut self, limit: usize) -> Vec<Reservation> {
        view::lapsed(&self.view.state, self.now, limit)
    }

    fn lapsed_count(&mut self, limit: usize) -> u32 {
        let count = self.view.state.lapsed(self.now).take(limit).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn destroyed(&mut self, after: Option<u64>, limit: usize) -> Vec<Mark> {
        let left_out = self.guards.left_out(&self.view.state);
        view::destroyed(&self.view.state, after, limit, left_out)
    }

    fn objects(&mut self, after: Option<u64>, limit: usize) -> Vec<Object> {
        view::objects(&self.view.state, after, limit)
    }

    fn object_ids(&mut self, after: Option<u64>, limit: usize) -> Vec<u64> {
        view::object_ids(&self.view.state, after, limit)
    }

    fn get_object(&mut self, id: u64) -> Option<Object> {
        view::object(&self.view.state, id)
    }

    fn stream_objects(
        &mut self,
        id: u64,
        after: Option<StreamCursor>,
        limit: usize,
    ) -> Vec<StreamObject> {
        view::stream_objects(&self.view.state, id, after, limit)
    }

    fn streams(&mut self, after: Option<u64>, limit: usize) -> Vec<Stream> {
        view::streams(&self.view.state, after, limit)
    }

    fn get_stream(&mut self, id: u64) -> Option<Stream> {
        view::stream(&self.view.state, id)
    }

    fn nodes(&mut self, after: Option<i32>, limit: usize) -> Vec<Node> {
        view::nodes(&self.view.state, after, limit)
    }

    fn kv_get(&mut self, key: &str) -> Option<Vec<u8>> {
        self.view.state.kv_get(key).map(<[u8]>::to_vec)
    }

    fn kv_scan(
        &mut self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        bytes: usize,
    ) -> Vec<KvEntry> {
        view::kv_scan(&self.view.state, prefix, after, limit, bytes)
    }

    fn kv_keys(
        &mut self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        bytes: usize,
    ) -> Vec<String> {
        view::kv_keys(&self.view.state, prefix, after, limit, bytes)
    }

    async fn expire_reservations(&mut self) -> Call<Answer> {
        self.expire().await
    }

    async fn clean_destroyed(&mut self, ids: Vec<u64>) -> Call<Vec<Answer>> {
        self.clean(ids).await
    }

    async fn put_kv(&mut self, entries: Vec<Put>) -> Call<Vec<Answer>> {
        self.put(entries, false).await
    }

    async fn put_kv_if_absent(&mut self, entries: Vec<Put>) -> Call<Vec<Answer>> {
        self.put(entries, true).await
    }

    async fn delete_kv(&mut self, keys: Vec<String>) -> Call<Vec<Answer>> {
        self.remove(keys).await
    }

    async fn trim_stream(&mut self, trims: Vec<Trim>) -> Call<Vec<Answer>> {
        self.checked(trims, destructive::trim).await
    }

    async fn delete_stream(&mut self, streams: Vec<StreamAt>) -> Call<Vec<Answer>> {
        let wanted = streams.iter().map(|at| StreamId(at.id)).collect();
        // One look for all of them, by the view that judges them.
        let shared = OnceLock::new();
        self.checked(streams, move |view, at| {
            let shared = shared.get_or_init(|| view.state.in_stream_sets(&wanted));
            destructive::delete(view, at, shared)
        })
        .await
    }

    async fn compact_away(&mut self, compactions: Vec<Compaction>) -> Call<Vec<Answer>> {
        self.checked(compactions, destructive::compact).await
    }

    async fn transfer_stream(&mut self, transfers: Vec<Transfer>) -> Call<Vec<Answer>> {
        self.checked(transfers, destructive::transfer).await
    }

    async fn delete(&mut self, ids: Vec<u64>) -> Call<Vec<DeleteOutcome>> {
        self.delete_bytes(ids).await
    }

    async fn list(
        &mut self,
        prefix: String,
        after: Option<String>,
        limit: usize,
    ) -> Call<Vec<Stored>> {
        self.list_keys(prefix, after, limit).await
    }

    async fn head(&mut self, id: u64) -> Call<Option<Stored>> {
        self.head_object(id).await
    }

    async fn read(&mut self, id: u64, offset: u64, length: u32) -> Call<Option<Vec<u8>>> {
        self.read_object(id, offset, length).await
    }

    async fn find_orphans(&mut self) -> Call<Sweep> {
        self.sweep().await
    }

    async fn delete_orphan(&mut self, ids: Vec<u64>) -> Call<Vec<DeleteOutcome>> {
        self.delete_orphans(ids).await
    }
}
