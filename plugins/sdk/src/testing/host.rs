//! The host itself: time, scripts, records.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::Model;
use crate::guest::parse;
use crate::host::{Job, Logging, Metrics};
use crate::{
    Answer, DeleteOutcome, Failure, HostError, Level, ObjectId, Plugin, Report, Stored, StreamId,
    Sweep, TimestampMs,
};

/// Something that a plugin sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// `commands.expire-reservations`.
    ExpireReservations,
    /// `commands.clean-destroyed`.
    CleanDestroyed(Vec<ObjectId>),
    /// `commands.put-kv` and `commands.put-kv-if-absent`: the keys.
    PutKv(Vec<String>),
    /// `commands.delete-kv`.
    DeleteKv(Vec<String>),
    /// A destructive command, by the name of its function.
    Destructive(&'static str),
    /// `storage.delete`.
    Delete(Vec<ObjectId>),
    /// `storage.find-orphans`.
    FindOrphans,
    /// `storage.delete-orphan`.
    DeleteOrphan(Vec<ObjectId>),
    /// `commands.compact-away`: each stream with the objects that are to go.
    CompactAway(Vec<(StreamId, Vec<ObjectId>)>),
    /// `commands.trim-stream`: each stream with where it is to begin.
    TrimStream(Vec<(StreamId, u64)>),
    /// `commands.delete-stream`.
    DeleteStream(Vec<StreamId>),
}

/// A log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// How much it matters.
    pub level: Level,
    /// Its text.
    pub message: String,
}

/// A host in memory.
#[derive(Debug)]
pub struct Host {
    /// The state as it is now. A tick reads the [view](Host::pin) of it.
    pub state: Model,
    /// Objects in the store and their bytes.
    pub stored: BTreeMap<ObjectId, Vec<u8>>,
    /// Outcomes of deletes that are not what the store would give.
    pub delete_outcomes: BTreeMap<ObjectId, DeleteOutcome>,
    /// Answers to the next command calls, one for all items of a call, instead
    /// of what the state would give; nothing is applied by a scripted call.
    pub answers: VecDeque<Answer>,
    /// What the host's sweep for orphans says, call by call. The last one is
    /// said again once the others are used up; without any, there are no orphans.
    pub sweeps: VecDeque<Sweep>,
    /// `should-stop` turns true after this many calls that send something.
    pub stop_after: Option<usize>,
    /// Prefixes besides the plugin's own that it may write.
    pub kv_prefixes: Vec<String>,
    /// Objects that [`State::destroyed`](crate::State::destroyed) leaves out.
    /// A failed delete adds its object when the view is pinned again.
    pub backed_off: BTreeSet<ObjectId>,
    /// What the plugin sent, in order.
    pub calls: Vec<Call>,
    /// The gauges as last set.
    pub gauges: BTreeMap<String, f64>,
    /// The counters.
    pub counters: BTreeMap<String, u64>,
    pub(super) errors: BTreeMap<usize, HostError>,
    pub(super) view: Model,
    pub(super) index: u64,
    pub(super) failed: BTreeSet<ObjectId>,
    pub(super) gone: BTreeSet<ObjectId>,
    pub(super) pages: Cell<u64>,
    lines: RefCell<Vec<Line>>,
    now: TimestampMs,
    plugin: String,
}

impl Host {
    /// An empty host for a plugin deployed as `plugin`. Its clock begins at
    /// 2 100 000 000 000 ms, in July 2036.
    #[must_use]
    pub fn new(plugin: &str) -> Self {
        Self {
            state: Model::default(),
            stored: BTreeMap::new(),
            delete_outcomes: BTreeMap::new(),
            answers: VecDeque::new(),
            sweeps: VecDeque::new(),
            errors: BTreeMap::new(),
            stop_after: None,
            kv_prefixes: Vec::new(),
            backed_off: BTreeSet::new(),
            calls: Vec::new(),
            gauges: BTreeMap::new(),
            counters: BTreeMap::new(),
            view: Model::default(),
            index: 0,
            failed: BTreeSet::new(),
            gone: BTreeSet::new(),
            pages: Cell::new(0),
            lines: RefCell::new(Vec::new()),
            now: 2_100_000_000_000,
            plugin: plugin.to_owned(),
        }
    }

    /// Runs one tick of a plugin as the host does: decodes and validates the
    /// configuration, pins the view, ticks.
    ///
    /// # Errors
    /// What the plugin failed with, or what is wrong with the configuration.
    pub fn tick<P: Plugin>(&mut self, config: &str) -> Result<Report, Failure> {
        let config = parse::<P>(config)
            .and_then(|config| P::validate(&config).map(|()| config))
            .map_err(Failure::Reject)?;
        self.pin();
        P::tick(self, &config)
    }

    /// What `validate-config` of a plugin answers.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn validate<P: Plugin>(config: &str) -> Result<(), String> {
        parse::<P>(config).and_then(|config| P::validate(&config))
    }

    /// Pins the view to the state as it is now.
    pub fn pin(&mut self) {
        self.view = self.state.clone();
        self.backed_off.append(&mut self.failed);
    }

    /// Lets time pass.
    pub fn advance(&mut self, by: Duration) {
        self.now += TimestampMs::try_from(by.as_millis()).expect("a test's duration is short");
    }

    /// Lets a call that sends something fail before it does anything: the one
    /// that will be at place `at` of [`Host::calls`].
    pub fn fail_call(&mut self, at: usize, error: HostError) {
        self.errors.insert(at, error);
    }

    /// Puts an object into the store.
    pub fn store(&mut self, id: ObjectId, bytes: &[u8]) {
        self.stored.insert(id, bytes.to_vec());
    }

    /// The log lines written so far.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.lines.borrow().clone()
    }

    /// How many pages of lists were read so far: the work of an idle tick.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages.get()
    }

    /// Takes the calls recorded so far.
    pub fn take_calls(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.calls)
    }

    pub(super) fn stored(&self, id: ObjectId) -> Option<Stored> {
        self.stored.get(&id).map(|bytes| Stored {
            key: id.to_string(),
            id: Some(id),
            size: bytes.len() as u64,
            modified: self.now,
        })
    }
}

impl Job for Host {
    fn now(&self) -> TimestampMs {
        self.now
    }
    fn plugin(&self) -> String {
        self.plugin.clone()
    }
    fn node(&self) -> String {
        "test".to_owned()
    }
    fn epoch(&self) -> u64 {
        1
    }
    fn cpu_left(&self) -> Duration {
        Duration::from_secs(5)
    }
    fn wall_left(&self) -> Duration {
        Duration::from_secs(60)
    }
    fn should_stop(&self) -> bool {
        self.stop_after
            .is_some_and(|after| self.calls.len() >= after)
    }
    fn seed(&self) -> u64 {
        self.index
    }
}

impl Logging for Host {
    fn log(&self, level: Level, message: &str) {
        self.lines.borrow_mut().push(Line {
            level,
            message: message.to_owned(),
        });
    }
}

impl Metrics for Host {
    fn count(&mut self, name: &str, by: u64) {
        *self.counters.entry(name.to_owned()).or_default() += by;
    }
    fn gauge(&mut self, name: &str, value: f64) {
        self.gauges.insert(name.to_owned(), value);
    }
}
