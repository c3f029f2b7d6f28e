//! A plugin's host natively: the host's functions called through the SDK's
//! traits, on a thread that may block.

use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use aedile_engine::{Call, Host};
use aedile_plugin::{
    Answer, Commands, Compaction, Counts, DeleteOutcome, HostError, Job, KvEntry, Level, Logging,
    Mark, Metrics, Node, Object, Put, Reservation, State, Storage, Stored, Stream, StreamAt,
    StreamCursor, StreamObject, Sweep, Transfer, Trim,
};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// The host of one native tick.
pub(crate) struct Native {
    pub(crate) host: RefCell<Box<dyn Host>>,
    pub(crate) runtime: Handle,
    pub(crate) now: i64,
    pub(crate) stop: CancellationToken,
}

/// A page is capped as the engine caps it.
const PAGE: u32 = 2000;

fn page(limit: u32) -> usize {
    limit.min(PAGE) as usize
}

impl Native {
    fn wait<T>(&self, call: impl Future<Output = Call<T>>) -> Result<T, HostError> {
        match self.runtime.block_on(call) {
            Ok(answer) => answer,
            Err(fatal) => Err(HostError::Unavailable(fatal.to_string())),
        }
    }
}

impl Job for Native {
    fn now(&self) -> i64 {
        self.now
    }
    fn plugin(&self) -> String {
        "cleaner".to_owned()
    }
    fn node(&self) -> String {
        "bench".to_owned()
    }
    fn epoch(&self) -> u64 {
        1
    }
    fn cpu_left(&self) -> Duration {
        Duration::MAX
    }
    fn wall_left(&self) -> Duration {
        Duration::MAX
    }
    fn should_stop(&self) -> bool {
        self.stop.is_cancelled()
    }
    fn seed(&self) -> u64 {
        1
    }
}

impl Logging for Native {
    fn log(&self, level: Level, message: &str) {
        self.host.borrow_mut().log(level, message);
    }
}

impl Metrics for Native {
    fn count(&mut self, _: &str, _: u64) {}
    fn gauge(&mut self, _: &str, _: f64) {}
}

impl State for Native {
    fn applied_index(&self) -> u64 {
        self.host.borrow_mut().applied_index()
    }
    fn sizes(&self) -> Counts {
        self.host.borrow_mut().sizes()
    }
    fn lapsed_reservations(&self, limit: u32) -> Vec<Reservation> {
        self.host.borrow_mut().lapsed_reservations(page(limit))
    }
    fn lapsed_count(&self, limit: u32) -> u32 {
        self.host.borrow_mut().lapsed_count(limit as usize)
    }
    fn destroyed(&self, after: Option<u64>, limit: u32) -> Vec<Mark> {
        self.host.borrow_mut().destroyed(after, page(limit))
    }
    fn objects(&self, after: Option<u64>, limit: u32) -> Vec<Object> {
        self.host.borrow_mut().objects(after, page(limit))
    }
    fn object_ids(&self, after: Option<u64>, limit: u32) -> Vec<u64> {
        self.host.borrow_mut().object_ids(after, page(limit))
    }
    fn object(&self, id: u64) -> Option<Object> {
        self.host.borrow_mut().get_object(id)
    }
    fn stream_objects(
        &self,
        id: u64,
        after: Option<StreamCursor>,
        limit: u32,
    ) -> Vec<StreamObject> {
        let mut host = self.host.borrow_mut();
        host.stream_objects(id, after, page(limit))
    }
    fn streams(&self, after: Option<u64>, limit: u32) -> Vec<Stream> {
        self.host.borrow_mut().streams(after, page(limit))
    }
    fn stream(&self, id: u64) -> Option<Stream> {
        self.host.borrow_mut().get_stream(id)
    }
    fn nodes(&self, after: Option<i32>, limit: u32) -> Vec<Node> {
        self.host.borrow_mut().nodes(after, page(limit))
    }
    fn kv_get(&self, key: &str) -> Option<Vec<u8>> {
        self.host.borrow_mut().kv_get(key)
    }
    fn kv_scan(&self, prefix: &str, after: Option<&str>, limit: u32) -> Vec<KvEntry> {
        let mut host = self.host.borrow_mut();
        host.kv_scan(prefix, after, page(limit), usize::MAX)
    }
    fn kv_keys(&self, prefix: &str, after: Option<&str>, limit: u32) -> Vec<String> {
        let mut host = self.host.borrow_mut();
        host.kv_keys(prefix, after, page(limit), usize::MAX)
    }
}

impl Commands for Native {
    fn expire_reservations(&mut self) -> Result<Answer, HostError> {
        self.wait(self.host.borrow_mut().expire_reservations())
    }
    fn clean_destroyed(&mut self, ids: &[u64]) -> Result<Vec<Answer>, HostError> {
        self.wait(self.host.borrow_mut().clean_destroyed(ids.to_vec()))
    }
    fn put_kv(&mut self, entries: &[Put]) -> Result<Vec<Answer>, HostError> {
        self.wait(self.host.borrow_mut().put_kv(entries.to_vec()))
    }
    fn put_kv_if_absent(&mut self, entries: &[Put]) -> Result<Vec<Answer>, HostError> {
        self.wait(self.host.borrow_mut().put_kv_if_absent(entries.to_vec()))
    }
    fn delete_kv(&mut self, keys: &[String]) -> Result<Vec<Answer>, HostError> {
        self.wait(self.host.borrow_mut().delete_kv(keys.to_vec()))
    }
    fn trim_stream(&mut self, trims: &[Trim]) -> Result<Vec<Answer>, HostError> {
        self.wait(self.host.borrow_mut().trim_stream(trims.to_vec()))
    }
    fn delete_stream(&mut self, streams: &[StreamAt]) -> Result<Vec<Answer>, HostError> {
        self.wait(self.host.borrow_mut().delete_stream(streams.to_vec()))
    }
    fn compact_away(&mut self, compactions: &[Compaction]) -> Result<Vec<Answer>, HostError> {
        self.wait(self.host.borrow_mut().compact_away(compactions.to_vec()))
    }
    fn transfer_stream(&mut self, transfers: &[Transfer]) -> Result<Vec<Answer>, HostError> {
        self.wait(self.host.borrow_mut().transfer_stream(transfers.to_vec()))
    }
}

impl Storage for Native {
    fn delete(&mut self, ids: &[u64]) -> Result<Vec<DeleteOutcome>, HostError> {
        self.wait(self.host.borrow_mut().delete(ids.to_vec()))
    }
    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Stored>, HostError> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        self.wait(self.host.borrow_mut().list(prefix, after, page(limit)))
    }
    fn head(&self, id: u64) -> Result<Option<Stored>, HostError> {
        self.wait(self.host.borrow_mut().head(id))
    }
    fn read(&self, id: u64, offset: u64, length: u32) -> Result<Option<Vec<u8>>, HostError> {
        self.wait(self.host.borrow_mut().read(id, offset, length))
    }
    fn find_orphans(&mut self) -> Result<Sweep, HostError> {
        self.wait(self.host.borrow_mut().find_orphans())
    }
    fn delete_orphan(&mut self, ids: &[u64]) -> Result<Vec<DeleteOutcome>, HostError> {
        self.wait(self.host.borrow_mut().delete_orphan(ids.to_vec()))
    }
}
