//! What the parts of a running runtime share, and the status drawn from it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock, UnixMillis};
use aedile_lease::Leadership;
use aedile_log::{Log, LogHealth, View};
use aedile_state::Operation;
use aedile_storage::Store;
use tokio::sync::watch;

use crate::backend::Live;
use crate::entropy::Entropy;
use crate::guard::{Aside, DEEP_DELETE, Guards, Why, operation_name};
use crate::options::RuntimeOptions;
use crate::plan::LeftObject;
use crate::source::PluginSet;
use crate::status::{Backlog, Role, Status};
use crate::term::Book;

/// Marks above which the queue is not walked for each new view.
const MANY: usize = 20_000;
/// How often a long queue is walked.
const WALK: Duration = Duration::from_secs(10);

/// Marks that are parked by their operation: how many, and the first of them.
#[derive(Clone, Debug, Default)]
struct ParkedMarks {
    index: Option<u64>,
    at: Option<BootInstant>,
    count: u64,
    listed: Vec<LeftObject>,
}

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
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) holder: String,
    pub(crate) started: UnixMillis,
    pub(crate) terms: AtomicU64,
    pub(crate) guards: Mutex<Option<Arc<Guards<Live>>>>,
    parked: Mutex<ParkedMarks>,
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
        Arc::new(Self {
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
            parked: Mutex::default(),
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

    /// The status now. Walks the destroyed queue only if the view is a new one.
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
        status.plugins = self.book.status(&set, status.role == Role::Holder);
        status.store_suspect = lock(&self.guards)
            .as_ref()
            .and_then(|guards| guards.doubt(&view.state));
        self.backlog(&view, &mut status);
        status
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
        let marks = self.parked_marks(view);
        status.backlog = Backlog {
            destroyed: counts.marks as u64,
            reservations: counts.reservations as u64,
            objects: counts.live_objects() as u64,
            parked: marks.count,
            conflicts: 0,
            backed_off: 0,
        };
        let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
        if marks.count > 0 {
            reasons.insert(DEEP_DELETE.to_owned(), marks.count);
        }
        status.parked = marks.listed;
        for (id, why) in self.aside.list() {
            let Some((_, operation)) = view.state.mark(aedile_state::ObjectId(id)) else {
                continue;
            };
            let (count, list) = match &why {
                Why::Parked(text) => {
                    *reasons.entry(text.clone()).or_default() += 1;
                    (&mut status.backlog.parked, &mut status.parked)
                }
                Why::Conflict(_) => (&mut status.backlog.conflicts, &mut status.conflicts),
                Why::Failed(_) => (&mut status.backlog.backed_off, &mut status.failing),
            };
            *count += 1;
            if list.len() < Status::LISTED {
                list.push(left(id, operation, why.text()));
            }
        }
        status.parked_reasons = reasons.into_iter().collect();
    }

    fn parked_marks(&self, view: &View) -> ParkedMarks {
        let mut parked = lock(&self.parked);
        let now = self.clock.boot();
        let stale = parked.index != Some(view.index)
            && (view.state.counts().marks < MANY
                || parked.at.is_none_or(|at| now.since(at) >= WALK));
        if stale {
            *parked = ParkedMarks {
                index: Some(view.index),
                at: Some(now),
                ..ParkedMarks::default()
            };
            for (_, id, operation) in view.state.marks_after(None) {
                if operation == Operation::DeepDelete && !view.state.is_live(id) {
                    parked.count += 1;
                    if parked.listed.len() < Status::LISTED {
                        parked.listed.push(left(id.0, operation, DEEP_DELETE));
                    }
                }
            }
        }
        parked.clone()
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
            "{} leads, a PicoMQ node: it renews for ever; --take-over takes the lease",
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
