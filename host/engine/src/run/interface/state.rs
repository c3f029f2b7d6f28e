//! `state`: the view pinned for the tick.

use crate::bindings::generated::aedile::maintenance::state::{
    Counts, Host, KvEntry, Mark, Node, Object, Reservation, Stream, StreamCursor, StreamObject,
};
use crate::run::context::Context;
use crate::run::page::page_len;
use crate::text::line_of;

/// What records take in the plugin's memory, in bytes, rounded up.
const RECORD: usize = 64;
/// What a text or a list takes besides its contents.
const SLICE: usize = 8;

fn record(what: &'static str) -> impl Fn() -> String {
    move || what.to_owned()
}

impl Context {
    fn records<T>(
        &self,
        what: &'static str,
        items: Vec<T>,
        limit: usize,
    ) -> wasmtime::Result<Vec<T>> {
        let name = record(what);
        Ok(self.page(items, limit, |_| RECORD, |_| name())?)
    }
}

impl Host for Context {
    fn applied_index(&mut self) -> wasmtime::Result<u64> {
        Ok(self.read("state.applied-index", |host| host.applied_index())?)
    }

    fn sizes(&mut self) -> wasmtime::Result<Counts> {
        Ok(self.read("state.sizes", |host| host.sizes())?)
    }

    fn lapsed_reservations(&mut self, limit: u32) -> wasmtime::Result<Vec<Reservation>> {
        let limit = page_len(limit);
        let items = self.read("state.lapsed-reservations", |host| {
            host.lapsed_reservations(limit)
        })?;
        self.records("a reservation", items, limit)
    }

    fn lapsed_count(&mut self, limit: u32) -> wasmtime::Result<u32> {
        let limit = page_len(limit);
        Ok(self.read("state.lapsed-count", |host| host.lapsed_count(limit))?)
    }

    fn destroyed(&mut self, after: Option<u64>, limit: u32) -> wasmtime::Result<Vec<Mark>> {
        let limit = page_len(limit);
        let items = self.read("state.destroyed", |host| host.destroyed(after, limit))?;
        self.records("a mark", items, limit)
    }

    fn objects(&mut self, after: Option<u64>, limit: u32) -> wasmtime::Result<Vec<Object>> {
        let limit = page_len(limit);
        let items = self.read("state.objects", |host| host.objects(after, limit))?;
        self.records("an object", items, limit)
    }

    fn object_ids(&mut self, after: Option<u64>, limit: u32) -> wasmtime::Result<Vec<u64>> {
        let limit = page_len(limit);
        let items = self.read("state.object-ids", |host| host.object_ids(after, limit))?;
        let name = record("an id");
        Ok(self.page(items, limit, |_| 8, |_| name())?)
    }

    fn get_object(&mut self, id: u64) -> wasmtime::Result<Option<Object>> {
        Ok(self.read("state.get-object", |host| host.get_object(id))?)
    }

    fn stream_objects(
        &mut self,
        id: u64,
        after: Option<StreamCursor>,
        limit: u32,
    ) -> wasmtime::Result<Vec<StreamObject>> {
        let limit = page_len(limit);
        let items = self.read("state.stream-objects", |host| {
            host.stream_objects(id, after, limit)
        })?;
        self.records("a stream object", items, limit)
    }

    fn streams(&mut self, after: Option<u64>, limit: u32) -> wasmtime::Result<Vec<Stream>> {
        let limit = page_len(limit);
        let items = self.read("state.streams", |host| host.streams(after, limit))?;
        self.records("a stream", items, limit)
    }

    fn get_stream(&mut self, id: u64) -> wasmtime::Result<Option<Stream>> {
        Ok(self.read("state.get-stream", |host| host.get_stream(id))?)
    }

    fn nodes(&mut self, after: Option<i32>, limit: u32) -> wasmtime::Result<Vec<Node>> {
        let limit = page_len(limit);
        let items = self.read("state.nodes", |host| host.nodes(after, limit))?;
        Ok(self.page(
            items,
            limit,
            |node| RECORD + node.http_address.len(),
            |node| format!("node {}", node.id),
        )?)
    }

    fn kv_get(&mut self, key: String) -> wasmtime::Result<Option<Vec<u8>>> {
        let value = self.read("state.kv-get", |host| host.kv_get(&key))?;
        match value {
            Some(value) if value.len() > self.limits.host_call_bytes => {
                Err(self.too_large(&value_of(&key), value.len()).into())
            }
            value => Ok(value),
        }
    }

    fn kv_scan(
        &mut self,
        prefix: String,
        after: Option<String>,
        limit: u32,
    ) -> wasmtime::Result<Vec<KvEntry>> {
        let (limit, bytes) = (page_len(limit), self.limits.host_call_bytes);
        let items = self.read("state.kv-scan", |host| {
            host.kv_scan(&prefix, after.as_deref(), limit, bytes)
        })?;
        Ok(self.page(
            items,
            limit,
            |entry| 2 * SLICE + entry.key.len() + entry.value.len(),
            |entry| value_of(&entry.key),
        )?)
    }

    fn kv_keys(
        &mut self,
        prefix: String,
        after: Option<String>,
        limit: u32,
    ) -> wasmtime::Result<Vec<String>> {
        let (limit, bytes) = (page_len(limit), self.limits.host_call_bytes);
        let items = self.read("state.kv-keys", |host| {
            host.kv_keys(&prefix, after.as_deref(), limit, bytes)
        })?;
        Ok(self.page(items, limit, |key| SLICE + key.len(), |key| value_of(key))?)
    }
}

fn value_of(key: &str) -> String {
    format!("the entry of the key `{}`", line_of(key, 128))
}
