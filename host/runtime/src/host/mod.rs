//! What a plugin's call does: the engine's [`Host`] over the guards of a term.
//!
//! `state` answers from the view that is pinned for the tick; `commands` and
//! `storage` go through the guards, which judge by the newest view.

mod commands;
mod state;
mod storage;

use std::future::Future;
use std::sync::Arc;

use aedile_clock::UnixMillis;
use aedile_engine::wit::{
    Answer, Compaction, Counts, DeleteOutcome, HostError, KvEntry, Level, Mark, Node, Object, Put,
    Reservation, Stored, Stream, StreamAt, StreamCursor, StreamObject, Transfer, Trim,
};
use aedile_engine::{Call, Fatal, Host};
use aedile_log::View;
use async_trait::async_trait;

use crate::backend::{Backend, Trouble};
use crate::guard::{Guards, KeyRule};
use crate::source::Loaded;

/// One tick's host.
pub(crate) struct TickHost<B: Backend> {
    guards: Arc<Guards<B>>,
    plugin: String,
    keys: KeyRule,
    view: Arc<View>,
    now: UnixMillis,
    effects: u64,
}

impl<B: Backend> TickHost<B> {
    pub(crate) fn new(
        guards: Arc<Guards<B>>,
        loaded: &Loaded,
        view: Arc<View>,
        now: UnixMillis,
    ) -> Self {
        Self {
            guards,
            plugin: loaded.name().to_owned(),
            keys: KeyRule::new(loaded.name(), loaded.settings.kv_prefixes.clone()),
            view,
            now,
            effects: 0,
        }
    }

    /// How many things happened: commands that were applied, bytes that went.
    pub(crate) fn effects(&self) -> u64 {
        self.effects
    }

    /// Run what sends something in a task of its own, so that it ends by itself
    /// whatever becomes of the tick. The term joins it.
    async fn tracked<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, Trouble>> + Send + 'static,
    ) -> Call<T> {
        match self.guards.in_flight.spawn(call).await {
            Ok(Ok(answer)) => Ok(Ok(answer)),
            Ok(Err(Trouble::LeaseLost)) => Err(Fatal::LeaseLost),
            Ok(Err(Trouble::Unavailable(text))) => Ok(Err(HostError::Unavailable(text))),
            Err(error) => Err(Fatal::Failed(error.to_string())),
        }
    }

    /// Count the effects of an answered call.
    fn count(&mut self, effects: usize) {
        self.effects += effects as u64;
    }
}

/// How many items were applied.
fn applied(answers: &[Answer]) -> usize {
    answers
        .iter()
        .filter(|answer| matches!(answer, Answer::Applied))
        .count()
}

#[async_trait]
impl<B: Backend> Host for TickHost<B> {
    fn log(&mut self, level: Level, line: &str) {
        let plugin = self.plugin.as_str();
        match level {
            Level::Debug => tracing::debug!(target: "aedile::plugin", plugin, "{line}"),
            Level::Info => tracing::info!(target: "aedile::plugin", plugin, "{line}"),
            Level::Warn => tracing::warn!(target: "aedile::plugin", plugin, "{line}"),
            Level::Error => tracing::error!(target: "aedile::plugin", plugin, "{line}"),
        }
    }

    fn applied_index(&mut self) -> u64 {
        self.view.index
    }

    fn sizes(&mut self) -> Counts {
        state::sizes(&self.view.state)
    }

    fn lapsed_reservations(&mut self, limit: usize) -> Vec<Reservation> {
        state::lapsed(&self.view.state, self.now, limit).collect()
    }

    fn lapsed_count(&mut self, limit: usize) -> u32 {
        let count = state::lapsed(&self.view.state, self.now, limit).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn destroyed(&mut self, after: Option<u64>, limit: usize) -> Vec<Mark> {
        self.view
            .state
            .marks_after(after)
            .filter(|&(_, id, operation)| !self.guards.leaves_out(id, operation))
            .take(limit)
            .map(state::mark)
            .collect()
    }

    fn objects(&mut self, after: Option<u64>, limit: usize) -> Vec<Object> {
        state::objects(&self.view.state, after)
            .take(limit)
            .collect()
    }

    fn object_ids(&mut self, after: Option<u64>, limit: usize) -> Vec<u64> {
        state::object_ids(&self.view.state, after)
            .take(limit)
            .collect()
    }

    fn get_object(&mut self, id: u64) -> Option<Object> {
        state::get_object(&self.view.state, id)
    }

    fn stream_objects(
        &mut self,
        id: u64,
        after: Option<StreamCursor>,
        limit: usize,
    ) -> Vec<StreamObject> {
        state::stream_objects(&self.view.state, id, after, limit)
    }

    fn streams(&mut self, after: Option<u64>, limit: usize) -> Vec<Stream> {
        state::streams(&self.view.state, after)
            .take(limit)
            .collect()
    }

    fn get_stream(&mut self, id: u64) -> Option<Stream> {
        state::get_stream(&self.view.state, id)
    }

    fn nodes(&mut self, after: Option<i32>, limit: usize) -> Vec<Node> {
        state::nodes(&self.view.state, after).take(limit).collect()
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
        state::kv_scan(&self.view.state, prefix, after, limit, bytes)
    }

    fn kv_keys(
        &mut self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        bytes: usize,
    ) -> Vec<String> {
        state::kv_keys(&self.view.state, prefix, after, limit, bytes)
    }

    async fn expire_reservations(&mut self) -> Call<Answer> {
        let (guards, plugin) = (self.guards.clone(), self.plugin.clone());
        let call = async move { guards.expire(&plugin).await.map(commands::answer) };
        let answer = self.tracked(call).await?;
        self.count(
            answer
                .iter()
                .filter(|a| matches!(a, Answer::Applied))
                .count(),
        );
        Ok(answer)
    }

    async fn clean_destroyed(&mut self, ids: Vec<u64>) -> Call<Vec<Answer>> {
        self.listed(
            move |guards, plugin| async move { commands::clean(&guards, &plugin, ids).await },
        )
        .await
    }

    async fn put_kv(&mut self, entries: Vec<Put>) -> Call<Vec<Answer>> {
        let keys = self.keys.clone();
        self.listed(move |guards, plugin| async move {
            commands::put(&guards, &plugin, &keys, entries, false).await
        })
        .await
    }

    async fn put_kv_if_absent(&mut self, entries: Vec<Put>) -> Call<Vec<Answer>> {
        let keys = self.keys.clone();
        self.listed(move |guards, plugin| async move {
            commands::put(&guards, &plugin, &keys, entries, true).await
        })
        .await
    }

    async fn delete_kv(&mut self, keys: Vec<String>) -> Call<Vec<Answer>> {
        let rule = self.keys.clone();
        self.listed(move |guards, plugin| async move {
            commands::delete_kv(&guards, &plugin, &rule, keys).await
        })
        .await
    }

    async fn trim_stream(&mut self, trims: Vec<Trim>) -> Call<Vec<Answer>> {
        self.listed(
            move |guards, plugin| async move { commands::trim(&guards, &plugin, trims).await },
        )
        .await
    }

    async fn delete_stream(&mut self, streams: Vec<StreamAt>) -> Call<Vec<Answer>> {
        self.listed(move |guards, plugin| async move {
            commands::delete_stream(&guards, &plugin, streams).await
        })
        .await
    }

    async fn compact_away(&mut self, compactions: Vec<Compaction>) -> Call<Vec<Answer>> {
        self.listed(move |guards, plugin| async move {
            commands::compact_away(&guards, &plugin, compactions).await
        })
        .await
    }

    async fn transfer_stream(&mut self, transfers: Vec<Transfer>) -> Call<Vec<Answer>> {
        self.listed(move |guards, plugin| async move {
            commands::transfer(&guards, &plugin, transfers).await
        })
        .await
    }

    async fn delete(&mut self, ids: Vec<u64>) -> Call<Vec<DeleteOutcome>> {
        let (guards, plugin) = (self.guards.clone(), self.plugin.clone());
        let call = async move { storage::delete(&guards, &plugin, ids).await };
        let outcomes = self.tracked(call).await?;
        self.count(
            outcomes
                .iter()
                .flatten()
                .filter(|o| storage::gone(o))
                .count(),
        );
        Ok(outcomes)
    }

    async fn list(
        &mut self,
        prefix: String,
        after: Option<String>,
        limit: usize,
    ) -> Call<Vec<Stored>> {
        let guards = self.guards.clone();
        self.tracked(async move { storage::list(&guards, &prefix, after, limit).await })
            .await
    }

    async fn head(&mut self, id: u64) -> Call<Option<Stored>> {
        let guards = self.guards.clone();
        self.tracked(async move { storage::head(&guards, id).await })
            .await
    }

    async fn read(&mut self, id: u64, offset: u64, length: u32) -> Call<Option<Vec<u8>>> {
        let guards = self.guards.clone();
        self.tracked(async move { storage::read(&guards, id, offset, length).await })
            .await
    }
}

impl<B: Backend> TickHost<B> {
    /// A call that answers a list of items.
    async fn listed<F>(
        &mut self,
        call: impl FnOnce(Arc<Guards<B>>, String) -> F + Send,
    ) -> Call<Vec<Answer>>
    where
        F: Future<Output = Result<Vec<Answer>, Trouble>> + Send + 'static,
    {
        let call = call(self.guards.clone(), self.plugin.clone());
        let answers = self.tracked(call).await?;
        self.count(answers.as_deref().map_or(0, applied));
        Ok(answers)
    }
}
