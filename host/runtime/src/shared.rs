//! What the parts of a running runtime share, and the status drawn from it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aedile_clock::{SharedClock, UnixMillis};
use aedile_lease::Leadership;
use aedile_log::{Log, LogHealth, View};
use aedile_state::{ObjectId, Operation};
use aedile_storage::Store;
use tokio::sync::watch;

use crate::backend::Live;
use crate::entropy::Entropy;
use crate::guard::{Aside, Guards, Why, operation_name};
use crate::options::RuntimeOptions;
use crate::parked::ParkedIndex;
use crate::plan::LeftObject;
use crate::source::PluginSet;
use crate::status::{Backlog, OrphanStatus, Role, Status, StopFile};
use crate::stopfile::{self, Stops};
use crate::term::Book;

/// What the parts of a running runtime share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: RuntimeOptions,
    pub(crate) clock: SharedClock,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) entropy: Arc<Entropy>,
    pub(crate) book: Arc<Book>,
    pub(crate) aside: Arc<Aside>,
    pub(crate) set: Arc<watch::Sender<Arc<PluginSet>>>,
    pub(crate) stops: Arc<watch::Sender<Arc<Stops>>>,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) holder: String,
    pub(crate) started: UnixMillis,
    pub(crate) terms: AtomicU64,
    pub(crate) guards: Mutex<Option<Arc<Guards<Live>>>>,
    parked: ParkedIndex,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is shared at the start.
#[derive(Debug)]
pub(crate) struct SharedParts {
    pub(crate) options: RuntimeOptions,
    pub(crate) clock: SharedClock,
    pub(crate) log: Log,
    pub(crate) store: Store,
    pub(crate) entropy: Arc<Entropy>,
    pub(crate) book: Arc<Book>,
    pub(crate) aside: Arc<Aside>,
    pub(crate) set: PluginSet,
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) holder: String,
}

impl Shared {
    pub(crate) fn new(parts: SharedParts) -> Arc<Self> {
        // Heeded from the first tick on.
        let stops = stopfile::look(parts.options.stop_file.as_deref());
        Arc::new(Self {
            stops: Arc::new(watch::Sender::new(Arc::new(stops))),
            started: parts.clock.unix(),
            options: parts.options,
            clock: parts.clock,
            log: parts.log,
            store: parts.store,
            entropy: parts.entropy,
            book: parts.book,
            aside: parts.aside,
            set: Arc::new(watch::Sender::new(Arc::new(parts.set))),
            leadership: parts.leadership,
            holder: parts.holder,
            terms: AtomicU64::new(0),
            guards: Mutex::default(),
            parked: ParkedIndex::default(),
        })
    }

    /// A term begins: its guards are what the status asks.
    pub(crate) fn began_term(&self, guards: Arc<Guards<Live>>) {
        self.terms.fetch_add(1, Ordering::Relaxed);
        *lock(&self.guards) = Some(guards);
    }

    /// The term has ended.
    pub(crate) fn ended_term(&self) {
        *lock(&self.guards) = None;
        self.book.touch();
    }

    /// The status now.
    pub(crate) fn status(&self) -> Status {
        let view = self.log.view();
        let set = self.set.borrow().clone();
        let mut status = Status {
            node: self.options.node.clone(),
            holder: self.holder.clone(),
            version: self.options.version.clone(),
            started: self.started.0,
            terms: self.terms.load(Ordering::Relaxed),
            applied_index: view.index,
            log: log_trouble(&self.log.health().borrow()),
            problems: set.problems.clone(),
            ..Status::default()
        };
        self.role(&mut status);
        let stops = self.stops.borrow().clone();
        status.plugins = self.book.status(&set, status.role == Role::Holder, &stops);
        status.stop_file = self.stop_file(&stops, &set);
        status.store_suspect = lock(&self.guards)
            .as_ref()
            .and_then(|guards| guards.doubt(&view.state));
        status.store_notes = self.store.notes();
        status.orphans = lock(&self.guards)
            .as_ref()
            .and_then(|guards| guards.orphans.found())
            .map(|found| OrphanStatus {
                at: found.at,
                listed: found.listed,
                objects: found.objects,
                orphans: found.candidates,
                bytes: found.bytes,
                ripe: found.ripe,
                held: found.held,
            });
        self.backlog(&view, &mut status);
        status
    }

    /// The plugins that run, without those that the stop file names.
    pub(crate) fn unstopped(&self) -> PluginSet {
        let mut set = PluginSet::clone(&self.set.borrow());
        let stops = self.stops.borrow().clone();
        set.plugins.retain(|name, _| !stops.stops(name));
        set
    }

    fn stop_file(&self, stops: &Stops, set: &PluginSet) -> Option<StopFile> {
        let path = self.options.stop_file.as_ref().filter(|_| stops.there)?;
        let unknown = stops
            .names
            .iter()
            .find(|name| *name != "*" && !set.plugins.contains_key(*name));
        Some(StopFile {
            path: path.display().to_string(),
            plugins: stops.names.iter().cloned().collect(),
            problem: stops
                .problem
                .clone()
                .or_else(|| unknown.map(|name| format!("no plugin here is named `{name}`"))),
        })
    }

    fn role(&self, status: &mut Status) {
        let leadership = self.leadership.borrow();
        status.detail = detail(&leadership);
        status.role = match &*leadership {
            Leadership::Ineligible { .. } => Role::Ineligible,
            Leadership::Follower { seen } => {
                status.epoch = seen.as_ref().map_or(0, |seen| seen.epoch);
                Role::Follower
            }
            Leadership::Holder { term, authority } => {
                status.epoch = term.epoch;
                let left = u64::try_from(authority.left().as_millis()).unwrap_or(u64::MAX);
                status.authority_ms = Some(left);
                Role::Holder
            }
            Leadership::Unreachable { .. } => Role::Unreachable,
            Leadership::WrongRole { .. } => Role::WrongRole,
        };
    }

    fn backlog(&self, view: &View, status: &mut Status) {
        let counts = view.state.counts();
        status.backlog = Backlog {
            destroyed: counts.marks as u64,
            reservations: counts.reservations as u64,
            objects: counts.live_objects() as u64,
            parked: 0,
            conflicts: 0,
            backed_off: 0,
        };
        let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
        let parked = self.parked.of(&view.state);
        status.parked_problems.clone_from(&parked.all.problems);
        for object in parked.all.objects() {
            let Some((_, operation)) = view.state.mark(ObjectId(object.id)) else {
                continue;
            };
            *reasons.entry(object.reason.clone()).or_default() += 1;
            status.backlog.parked += 1;
            if status.parked.len() < Status::LISTED {
                status
                    .parked
                    .push(left(object.id, operation, &object.reason));
            }
        }
        for (id, why) in self.aside.list() {
            let Some((_, operation)) = view.state.mark(ObjectId(id)) else {
                continue;
            };
            if parked.get(ObjectId(id)).is_some() {
                continue;
            }
            let (count, list) = match &why {
                Why::Unreadable(text) => {
                    *reasons.entry(text.clone()).or_default() += 1;
                    (&mut status.backlog.parked, &mut status.parked)
                }
                Why::Conflict(_) => (&mut status.backlog.conflicts, &mut status.conflicts),
                Why::Failed(_) | Why::Held(_) => {
                    (&mut status.backlog.backed_off, &mut status.failing)
                }
            };
            *count += 1;
            if list.len() < Status::LISTED {
                list.push(left(id, operation, why.text()));
            }
        }
        status.parked_reasons = reasons.into_iter().collect();
    }
}

/// Where a node stands, in a line; empty for a holder.
pub(crate) fn detail(leadership: &Leadership) -> String {
    match leadership {
        Leadership::Ineligible { reason } => reason.clone(),
        Leadership::Follower { seen: Some(seen) } if seen.expires_in.is_zero() => {
            "nobody leads".to_owned()
        }
        Leadership::Follower { seen: Some(seen) } if seen.native => format!(
            "{} leads, a PicoMQ node: it renews for ever, and only --take-over takes the lease from it",
            seen.holder
        ),
        Leadership::Follower { seen: Some(seen) } => format!("{} leads", seen.holder),
        Leadership::Follower { seen: None } => "nobody leads".to_owned(),
        Leadership::Holder { .. } => String::new(),
        Leadership::Unreachable { error, .. } => {
            format!("the lease's database does not answer: {error}")
        }
        Leadership::WrongRole { detail } => detail.clone(),
    }
}

/// An object that is left, for a list.
pub(crate) fn left(id: u64, operation: Operation, reason: &str) -> LeftObject {
    LeftObject {
        id,
        operation: operation_name(operation).to_owned(),
        reason: reason.to_owned(),
    }
}

fn log_trouble(health: &LogHealth) -> Option<String> {
    match health {
        LogHealth::Healthy => None,
        other => Some(other.to_string()),
    }
}
