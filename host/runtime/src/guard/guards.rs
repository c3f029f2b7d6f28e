//! The guards of one term: the rules of [`judge`], with what they need to know.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aedile_clock::BootInstant;
use aedile_log::Answer;
use aedile_state::{Changes, Command, ObjectId, State};
use aedile_storage::DeleteOutcome;
use tokio_util::task::TaskTracker;

use super::{
    Aside, CleanVerdict, LinkIndex, OrphanOptions, Orphans, StoreTrust, Trust, judge_clean,
};
use crate::backend::{Backend, Trouble};
use crate::entropy::Entropy;
use crate::parked::ParkedIndex;

/// Most objects in a chunk: of a delete, and of a clean command.
pub(crate) const CHUNK: usize = 1000;
/// Looks that are taken at the store at once.
pub(super) const LOOKS: usize = 32;
/// Deleted objects above which those without a mark are forgotten.
const REMEMBERED: usize = 100_000;

/// What became of one object in a delete call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// The store answered.
    Outcome(DeleteOutcome),
    /// The guards refused; the store was not asked.
    Refused(Refusal),
}

/// Why the guards refused a delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotMarked,
    KeepData,
    Conflict(String),
    Parked(String),
    StoreSuspect(String),
}

/// What became of one item of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Applied,
    Redundant,
    Rejected(String),
    Unknown,
}

/// What the guards let through, counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) deleted: AtomicU64,
    /// Those of `deleted` that went as parts of a composite.
    pub(crate) parts: AtomicU64,
    pub(crate) cleaned: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) commands: AtomicU64,
}

/// The guards of one term.
#[derive(Debug)]
pub(crate) struct Guards<B> {
    pub(crate) backend: B,
    pub(crate) aside: Arc<Aside>,
    /// What is parked, by the latest view.
    pub(crate) parked: ParkedIndex,
    pub(crate) trust: StoreTrust,
    pub(crate) entropy: Arc<Entropy>,
    pub(crate) counters: Counters,
    /// What was sent and has not ended: joined before the lease is released.
    pub(crate) in_flight: TaskTracker,
    /// The sweep for orphans.
    pub(crate) orphans: Orphans,
    pub(super) links: Mutex<LinkIndex>,
    /// Whether a call is deleting composites with their parts.
    pub(super) deep: AtomicBool,
    /// Objects whose bytes the store confirmed gone in this term.
    pub(super) deleted: Mutex<HashSet<ObjectId>>,
    /// Other refusals that a report lists.
    pub(super) refused: Mutex<HashMap<ObjectId, String>>,
}

/// What a lock guards is whole also after a panic: each holder writes at once.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B: Backend> Guards<B> {
    pub(crate) fn new(
        backend: B,
        aside: Arc<Aside>,
        trust: StoreTrust,
        entropy: Arc<Entropy>,
    ) -> Self {
        #[cfg(feature = "without-guard")]
        tracing::error!(
            "THIS BUILD HAS NO GUARD: it deletes live data; it exists to be caught by the demo"
        );
        Self {
            backend,
            aside,
            parked: ParkedIndex::default(),
            trust,
            entropy,
            counters: Counters::default(),
            in_flight: TaskTracker::new(),
            orphans: Orphans::default(),
            links: Mutex::default(),
            deep: AtomicBool::new(false),
            deleted: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// With these rules for orphans instead of the default ones.
    pub(crate) fn with_orphans(mut self, options: OrphanOptions) -> Self {
        self.orphans = Orphans::new(options);
        self
    }

    pub(super) fn boot(&self) -> BootInstant {
        self.backend.clock().boot()
    }

    /// Refuse when the term is over.
    pub(crate) fn authority(&self) -> Result<(), Trouble> {
        self.backend
            .authority()
            .map(|_| ())
            .ok_or(Trouble::LeaseLost)
    }

    /// Refusals that are neither conflicts nor parked: the object and why.
    pub(crate) fn refusals(&self) -> Vec<(ObjectId, String)> {
        let mut list: Vec<_> = lock(&self.refused)
            .iter()
            .map(|(&id, text)| (id, text.clone()))
            .collect();
        list.sort_unstable_by_key(|&(id, _)| id);
        list
    }

    /// A doubt about the store: none of it is there, or a live composite cannot
    /// be read.
    pub(crate) fn doubt(&self, state: &State) -> Option<String> {
        self.trust
            .doubt()
            .or_else(|| lock(&self.links).doubt(state))
    }

    /// Which objects a page of the destroyed queue leaves out.
    pub(crate) fn left_out(&self, state: &State) -> impl Fn(ObjectId) -> bool + '_ {
        let parked = self.parked.of(state);
        let now = self.boot();
        move |id| parked.get(id).is_some() || self.aside.holds(id.0, now)
    }

    /// Take marks off the queue; one answer each, in order.
    pub(crate) async fn clean(&self, plugin: &str, ids: &[ObjectId]) -> Result<Vec<Item>, Trouble> {
        let mut answers: HashMap<ObjectId, Item> = HashMap::with_capacity(ids.len());
        let mut allowed = Vec::with_capacity(ids.len());
        let view = self.backend.latest();
        {
            // Marks that another holder cleaned are nothing to remember.
            let mut deleted = lock(&self.deleted);
            if deleted.len() > REMEMBERED {
                deleted.retain(|&id| view.state.mark(id).is_some());
            }
        }
        // Of a store that is in doubt the catalog forgets nothing.
        if let Trust::Suspect(text) = self.trust.now(self.boot()) {
            return Ok(vec![Item::Rejected(text); ids.len()]);
        }
        for id in ids.iter().copied().collect::<BTreeSet<_>>() {
            let deleted = lock(&self.deleted).contains(&id);
            match judge_clean(&view.state, deleted, id) {
                CleanVerdict::Clean(_) => allowed.push(id),
                // Nothing to propose: an idle cluster's log does not grow.
                CleanVerdict::NotMarked => drop(answers.insert(id, Item::Redundant)),
                CleanVerdict::Refused(text) => drop(answers.insert(id, Item::Rejected(text))),
            }
        }
        for chunk in allowed.chunks(CHUNK) {
            let command = Command::CleanDestroyedObjects {
                objects: chunk.to_vec(),
            };
            let answer = self.propose(plugin, vec![command]).await?.pop();
            for (at, &id) in chunk.iter().enumerate() {
                let item = match &answer {
                    Some(Answer::Applied(applied)) => match &applied.changes {
                        Changes::Items(items) if !items.get(at).copied().unwrap_or(false) => {
                            Item::Redundant
                        }
                        Changes::None => Item::Redundant,
                        _ => Item::Applied,
                    },
                    Some(Answer::Redundant(_)) => Item::Redundant,
                    Some(Answer::Rejected(rejection)) => Item::Rejected(rejection.to_string()),
                    Some(Answer::FencedOut(reason)) => Item::Rejected(reason.clone()),
                    _ => Item::Unknown,
                };
                if item == Item::Applied {
                    self.counters.cleaned.fetch_add(1, Ordering::Relaxed);
                }
                if matches!(item, Item::Applied | Item::Redundant) {
                    lock(&self.deleted).remove(&id);
                    self.aside.forget(id.0);
                }
                answers.insert(id, item);
            }
        }
        Ok(ids
            .iter()
            .map(|id| answers.get(id).cloned().unwrap_or(Item::Unknown))
            .collect())
    }

    /// Propose commands, inside the term.
    pub(crate) async fn propose(
        &self,
        plugin: &str,
        commands: Vec<Command>,
    ) -> Result<Vec<Answer>, Trouble> {
        self.authority()?;
        self.backend.propose(plugin, commands).await
    }

    /// Propose commands of any other kind; those that change something count.
    pub(crate) async fn propose_other(
        &self,
        plugin: &str,
        commands: Vec<Command>,
    ) -> Result<Vec<Answer>, Trouble> {
        let answers = self.propose(plugin, commands).await?;
        let applied = answers
            .iter()
            .filter(|answer| item(answer) == Item::Applied)
            .count();
        self.counters
            .commands
            .fetch_add(applied as u64, Ordering::Relaxed);
        Ok(answers)
    }

    /// Expire what has lapsed by the database's clock; nothing is proposed when
    /// nothing has.
    pub(crate) async fn expire(&self, plugin: &str) -> Result<Item, Trouble> {
        self.authority()?;
        let now = self.backend.now().await?;
        if self.backend.latest().state.lapsed(now.0).next().is_none() {
            return Ok(Item::Redundant);
        }
        let command = Command::ExpirePreparedObjects { now_ms: now.0 };
        let answer = self.propose(plugin, vec![command]).await?.pop();
        if let Some(Answer::Applied(applied)) = &answer
            && let aedile_state::Value::Count(count) = applied.value
        {
            self.counters.expired.fetch_add(count, Ordering::Relaxed);
        }
        Ok(answer.map_or(Item::Unknown, |answer| item(&answer)))
    }
}

/// The answer to a whole command.
pub(crate) fn item(answer: &Answer) -> Item {
    match answer {
        Answer::Applied(applied) if applied.changes == Changes::None => Item::Redundant,
        Answer::Applied(_) => Item::Applied,
        Answer::Redundant(_) => Item::Redundant,
        Answer::Rejected(rejection) => Item::Rejected(rejection.to_string()),
        Answer::FencedOut(reason) => Item::Rejected(reason.clone()),
        Answer::Unknown => Item::Unknown,
    }
}
