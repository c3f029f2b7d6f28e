//! The host as a component imports it.

use std::time::Duration;

use crate::bindings::aedile::maintenance::{commands, job, logging, metrics, state, storage};
use crate::host::{Commands, Job, Logging, Metrics, State, Storage};
use crate::{
    Answer, Compaction, Counts, DeleteOutcome, HostError, KvEntry, Level, LogIndex, Mark, Node,
    NodeId, Object, ObjectId, Put, Reservation, Stored, Stream, StreamAt, StreamCursor, StreamId,
    StreamObject, Sweep, TimestampMs, Transfer, Trim,
};

/// The host behind the imports of the component. Works in Wasm only.
#[derive(Debug, Clone, Copy, Default)]
pub struct Imports(());

impl Imports {
    pub(crate) fn new() -> Self {
        Self(())
    }
}

impl Job for Imports {
    fn now(&self) -> TimestampMs {
        job::now()
    }
    fn plugin(&self) -> String {
        job::plugin()
    }
    fn node(&self) -> String {
        job::node()
    }
    fn epoch(&self) -> u64 {
        job::epoch()
    }
    fn cpu_left(&self) -> Duration {
        Duration::from_millis(job::cpu_left_ms())
    }
    fn wall_left(&self) -> Duration {
        Duration::from_millis(job::wall_left_ms())
    }
    fn should_stop(&self) -> bool {
        job::should_stop()
    }
    fn seed(&self) -> u64 {
        job::seed()
    }
}

impl Logging for Imports {
    fn log(&self, level: Level, message: &str) {
        logging::log(level, message);
    }
}

impl State for Imports {
    fn applied_index(&self) -> LogIndex {
        state::applied_index()
    }
    fn sizes(&self) -> Counts {
        state::sizes()
    }
    fn lapsed_reservations(&self, limit: u32) -> Vec<Reservation> {
        state::lapsed_reservations(limit)
    }
    fn lapsed_count(&self, limit: u32) -> u32 {
        state::lapsed_count(limit)
    }
    fn destroyed(&self, after: Option<u64>, limit: u32) -> Vec<Mark> {
        state::destroyed(after, limit)
    }
    fn objects(&self, after: Option<ObjectId>, limit: u32) -> Vec<Object> {
        state::objects(after, limit)
    }
    fn object_ids(&self, after: Option<ObjectId>, limit: u32) -> Vec<ObjectId> {
        state::object_ids(after, limit)
    }
    fn object(&self, id: ObjectId) -> Option<Object> {
        state::get_object(id)
    }
    fn stream_objects(
        &self,
        id: StreamId,
        after: Option<StreamCursor>,
        limit: u32,
    ) -> Vec<StreamObject> {
        state::stream_objects(id, after, limit)
    }
    fn streams(&self, after: Option<StreamId>, limit: u32) -> Vec<Stream> {
        state::streams(after, limit)
    }
    fn stream(&self, id: StreamId) -> Option<Stream> {
        state::get_stream(id)
    }
    fn nodes(&self, after: Option<NodeId>, limit: u32) -> Vec<Node> {
        state::nodes(after, limit)
    }
    fn kv_get(&self, key: &str) -> Option<Vec<u8>> {
        state::kv_get(key)
    }
    fn kv_scan(&self, prefix: &str, after: Option<&str>, limit: u32) -> Vec<KvEntry> {
        state::kv_scan(prefix, after, limit)
    }
    fn kv_keys(&self, prefix: &str, after: Option<&str>, limit: u32) -> Vec<String> {
        state::kv_keys(prefix, after, limit)
    }
}

impl Commands for Imports {
    fn expire_reservations(&mut self) -> Result<Answer, HostError> {
        commands::expire_reservations()
    }
    fn clean_destroyed(&mut self, ids: &[ObjectId]) -> Result<Vec<Answer>, HostError> {
        commands::clean_destroyed(ids)
    }
    fn put_kv(&mut self, entries: &[Put]) -> Result<Vec<Answer>, HostError> {
        commands::put_kv(entries)
    }
    fn put_kv_if_absent(&mut self, entries: &[Put]) -> Result<Vec<Answer>, HostError> {
        commands::put_kv_if_absent(entries)
    }
    fn delete_kv(&mut self, keys: &[String]) -> Result<Vec<Answer>, HostError> {
        commands::delete_kv(keys)
    }
    fn trim_stream(&mut self, trims: &[Trim]) -> Result<Vec<Answer>, HostError> {
        commands::trim_stream(trims)
    }
    fn delete_stream(&mut self, streams: &[StreamAt]) -> Result<Vec<Answer>, HostError> {
        commands::delete_stream(streams)
    }
    fn compact_away(&mut self, compactions: &[Compaction]) -> Result<Vec<Answer>, HostError> {
        commands::compact_away(compactions)
    }
    fn transfer_stream(&mut self, transfers: &[Transfer]) -> Result<Vec<Answer>, HostError> {
        commands::transfer_stream(transfers)
    }
}

impl Storage for Imports {
    fn delete(&mut self, ids: &[ObjectId]) -> Result<Vec<DeleteOutcome>, HostError> {
        storage::delete(ids)
    }
    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Stored>, HostError> {
        storage::list(prefix, after, limit)
    }
    fn head(&self, id: ObjectId) -> Result<Option<Stored>, HostError> {
        storage::head(id)
    }
    fn read(&self, id: ObjectId, offset: u64, length: u32) -> Result<Option<Vec<u8>>, HostError> {
        storage::read(id, offset, length)
    }
    fn find_orphans(&mut self) -> Result<Sweep, HostError> {
        storage::find_orphans()
    }
    fn delete_orphan(&mut self, ids: &[ObjectId]) -> Result<Vec<DeleteOutcome>, HostError> {
        storage::delete_orphan(ids)
    }
}

impl Metrics for Imports {
    fn count(&mut self, name: &str, by: u64) {
        metrics::count(name, by);
    }
    fn gauge(&mut self, name: &str, value: f64) {
        metrics::gauge(name, value);
    }
}
