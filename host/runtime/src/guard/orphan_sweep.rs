//! The sweep for orphans: a view, then every key in the store, then another
//! view; and the delete of what it found, each object judged once more right
//! before it goes.
//!
//! A sweep is of its term: a new holder begins its own. It is done in portions,
//! so that a call is short, and only orphans are kept of what is listed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aedile_log::View;
use aedile_state::{Command, ObjectId, State};
use aedile_storage::{Composite, DeleteOutcome, Stored};

use super::guards::{CHUNK, lock};
use super::orphan_notes::{self, Age};
use super::{Deletion, Guards, OrphanOptions, Refusal, StoreTrust, Trust, known};
use crate::backend::{Backend, Trouble};

/// How much a sweep takes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Keys that are asked for at once.
    pub(super) page: usize,
    /// Pages of one portion.
    pub(super) pages: usize,
    /// Orphans that one sweep keeps; the rest are counted and wait for the next.
    pub(super) kept: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            page: 1000,
            pages: 16,
            kept: 100_000,
        }
    }
}

/// Marks up to which a sweep is begun: each is looked at.
const MARKS: usize = 20_000;
/// Looks that are taken at the store at once.
const LOOKS: usize = 32;
/// Notes that are proposed at once.
const NOTES: usize = 64;

/// An orphan in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Orphan {
    pub(crate) id: ObjectId,
    /// Size of its bytes.
    pub(crate) size: u64,
    pub(crate) age: Age,
}

/// What a complete sweep found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Keys of any kind.
    pub(crate) listed: u64,
    /// Data objects among them.
    pub(crate) objects: u64,
    /// Orphans among those, and their bytes.
    pub(crate) candidates: u64,
    pub(crate) bytes: u64,
    /// Orphans that are old enough.
    pub(crate) ripe: u64,
    /// Why none of them may go.
    pub(crate) held: Option<String>,
    /// The database's time when it was complete.
    pub(crate) at: i64,
}

/// What a call learns of the sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Portion {
    pub(crate) found: Found,
    pub(crate) complete: bool,
    /// Orphans that may be deleted now.
    pub(crate) give: Vec<ObjectId>,
    /// Whether keys were looked at.
    pub(crate) advanced: bool,
}

/// A sweep that is under way.
#[derive(Debug)]
struct Listing {
    before: Arc<View>,
    /// The last key that was looked at.
    cursor: Option<String>,
    found: Found,
    kept: Vec<(ObjectId, u64)>,
}

/// A sweep that is complete.
#[derive(Debug)]
struct Ready {
    found: Found,
    /// What it kept, by id.
    orphans: BTreeMap<ObjectId, Orphan>,
    /// Those of them that are old enough.
    ripe: HashSet<ObjectId>,
    /// Of those, the ones that were not given yet.
    waiting: Vec<ObjectId>,
    gone: BTreeSet<ObjectId>,
}

#[derive(Debug, Default)]
enum Desk {
    #[default]
    Idle,
    /// A call is at work on it.
    Taken,
    Listing(Listing),
    Ready(Ready),
}

/// The sweep of one term.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    options: OrphanOptions,
    pub(super) bounds: Bounds,
    desk: Mutex<Desk>,
    /// Marked objects that were looked at and are no composites.
    plain: Mutex<HashSet<ObjectId>>,
    /// What the last complete sweep found, and the orphans that it left.
    last: Mutex<Option<(Found, Vec<Orphan>)>>,
}

/// The desk's contents while a call works on them; put back however it ends.
struct AtWork<'a> {
    orphans: &'a Orphans,
    desk: Desk,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        *lock(&self.orphans.desk) = std::mem::take(&mut self.desk);
    }
}

impl Orphans {
    pub(crate) fn new(options: OrphanOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    fn take(&self) -> Result<AtWork<'_>, Trouble> {
        match std::mem::replace(&mut *lock(&self.desk), Desk::Taken) {
            Desk::Taken => Err(Trouble::Unavailable(
                "another call is at work on the sweep for orphans".to_owned(),
            )),
            desk => Ok(AtWork {
                orphans: self,
                desk,
            }),
        }
    }

    /// Whether a sweep is under way.
    pub(super) fn sweeping(&self) -> bool {
        !matches!(*lock(&self.desk), Desk::Idle)
    }

    /// The rules of the sweep.
    pub(crate) fn options(&self) -> OrphanOptions {
        self.options
    }

    /// How long an orphan must have been one.
    pub(crate) fn grace(&self) -> Duration {
        self.options.grace
    }

    /// What the last complete sweep of this term found.
    pub(crate) fn found(&self) -> Option<Found> {
        lock(&self.last).as_ref().map(|(found, _)| found.clone())
    }

    /// The orphans that the last complete sweep of this term left, by id.
    pub(crate) fn left(&self) -> Vec<Orphan> {
        lock(&self.last)
            .as_ref()
            .map(|(_, left)| left.clone())
            .unwrap_or_default()
    }
}

impl<B: Backend> Guards<B> {
    /// Do the next portion of the sweep.
    pub(crate) async fn find_orphans(&self, plugin: &str) -> Result<Portion, Trouble> {
        self.authority()?;
        let mut work = self.orphans.take()?;
        if matches!(work.desk, Desk::Idle) {
            work.desk = Desk::Listing(self.begin().await?);
        }
        if let Desk::Listing(listing) = &mut work.desk {
            let end = self.list(listing).await?;
            if !end {
                return Ok(Portion {
                    found: listing.found.clone(),
                    complete: false,
                    give: Vec::new(),
                    advanced: true,
                });
            }
            let ready = self.conclude(plugin, listing).await?;
            work.desk = Desk::Ready(ready);
        }
        let Desk::Ready(ready) = &mut work.desk else {
            return Err(Trouble::Unavailable("the sweep is not there".to_owned()));
        };
        let rest = ready.waiting.len().saturating_sub(CHUNK);
        let give = ready.waiting.split_off(rest);
        let portion = Portion {
            found: ready.found.clone(),
            complete: true,
            advanced: !give.is_empty(),
            give,
        };
        if portion.give.is_empty() {
            let commands = orphan_notes::forget(&self.backend.latest().state, &ready.gone);
            self.note(plugin, commands).await?;
            work.desk = Desk::Idle;
        }
        Ok(portion)
    }

    /// The view that a sweep begins with; none unless the store is trusted.
    async fn begin(&self) -> Result<Listing, Trouble> {
        let before = self.known_composites().await?;
        self.right_store(&before.state).await?;
        Ok(Listing {
            before,
            cursor: None,
            found: Found::default(),
            kept: Vec::new(),
        })
    }

    /// List one portion; whether that was all.
    async fn list(&self, listing: &mut Listing) -> Result<bool, Trouble> {
        let Bounds {
            page: size, pages, ..
        } = self.orphans.bounds;
        for _ in 0..pages {
            self.authority()?;
            let page = self
                .backend
                .store()
                .list("", listing.cursor.as_deref(), size)
                .await
                .map_err(|error| {
                    Trouble::Unavailable(format!("the store cannot be listed: {error}"))
                })?;
            // A service that does not go on where it was told to would be listed
            // in part, or for ever.
            let mut last = listing.cursor.as_deref();
            for stored in &page {
                if last.is_some_and(|last| last >= stored.key.as_str()) {
                    return Err(Trouble::Unavailable(format!(
                        "the store lists its keys out of order: {} after {}",
                        stored.key.escape_debug(),
                        last.unwrap_or_default().escape_debug()
                    )));
                }
                last = Some(&stored.key);
            }
            self.look_through(listing, &page);
            let end = page.len() < size;
            if let Some(last) = page.into_iter().last() {
                listing.cursor = Some(last.key);
            }
            if end {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn look_through(&self, listing: &mut Listing, page: &[Stored]) {
        let links = lock(&self.links);
        for stored in page {
            listing.found.listed += 1;
            // Only a key that derives from its id again has one: never one of a
            // log, an index, a probe, a module or somebody else.
            let id = stored.id.map(ObjectId);
            let Some(id) = id.filter(|&id| !self.backend.gone(id)) else {
                continue;
            };
            listing.found.objects += 1;
            if known(&listing.before.state, &links, id).is_some() {
                continue;
            }
            listing.found.candidates += 1;
            listing.found.bytes += stored.size;
            if listing.kept.len() < self.orphans.bounds.kept {
                listing.kept.push((id, stored.size));
            }
        }
    }

    /// Judge what was listed by a view that has caught up after it, and by how
    /// long it has been so.
    async fn conclude(&self, plugin: &str, listing: &mut Listing) -> Result<Ready, Trouble> {
        let after = self.known_composites().await?;
        let now = self.backend.now().await?.0;
        let mut found = listing.found.clone();
        let mut sizes = BTreeMap::new();
        {
            let links = lock(&self.links);
            for &(id, size) in &listing.kept {
                // What was learnt of composites since counts for both views.
                let is_known = known(&listing.before.state, &links, id)
                    .or_else(|| known(&after.state, &links, id))
                    .is_some();
                if is_known {
                    found.candidates -= 1;
                    found.bytes -= size;
                } else {
                    sizes.insert(id, size);
                }
            }
        }
        let grace = self.orphans.options.grace;
        let ids: BTreeSet<ObjectId> = sizes.keys().copied().collect();
        let aged = orphan_notes::age(&after.state, &ids, now, grace);
        if !aged.skipped.is_zero() {
            tracing::warn!(
                skipped = %humantime::format_duration(aged.skipped),
                "time since the last sweep for orphans is not counted: the database's clock leapt, \
                 or no node swept"
            );
        }
        let orphans: BTreeMap<ObjectId, Orphan> = sizes
            .into_iter()
            .filter_map(|(id, size)| {
                let age = *aged.ages.get(&id)?;
                Some((id, Orphan { id, size, age }))
            })
            .collect();
        let mut waiting: Vec<ObjectId> = orphans
            .values()
            .filter(|orphan| orphan.age.counted >= grace)
            .map(|orphan| orphan.id)
            .collect();
        found.ripe = waiting.len() as u64;
        found.at = now;
        found.held = self
            .orphans
            .options
            .breaker(found.candidates, found.objects);
        if let Some(held) = &found.held {
            tracing::error!(reason = %held, "no orphan is deleted");
            waiting.clear();
        } else if grace.is_zero() && !waiting.is_empty() {
            tracing::warn!(
                count = waiting.len(),
                "orphans are deleted without any grace: an upload that commits late loses its data"
            );
        }
        self.note(plugin, aged.commands).await?;
        // Given from the end: in the order of their ids, which spreads them.
        waiting.reverse();
        let left = orphans.values().copied().collect();
        *lock(&self.orphans.last) = Some((found.clone(), left));
        Ok(Ready {
            found,
            orphans,
            ripe: waiting.iter().copied().collect(),
            waiting,
            gone: BTreeSet::new(),
        })
    }

    /// Write notes. One that is lost makes an orphan younger, never older.
    async fn note(&self, plugin: &str, commands: Vec<Command>) -> Result<(), Trouble> {
        for chunk in commands.chunks(NOTES) {
            self.propose(plugin, chunk.to_vec()).await?;
        }
        Ok(())
    }

    /// Delete orphans that the sweep has found old enough: one answer each, in
    /// order.
    pub(crate) async fn delete_orphans(
        &self,
        plugin: &str,
        ids: &[ObjectId],
    ) -> Result<Vec<Deletion>, Trouble> {
        self.authority()?;
        let mut work = self.orphans.take()?;
        let Desk::Ready(ready) = &mut work.desk else {
            let refusal = "no sweep for orphans is complete".to_owned();
            return Ok(vec![
                Deletion::Refused(Refusal::Conflict(refusal));
                ids.len()
            ]);
        };
        let mut answers: HashMap<ObjectId, Deletion> = HashMap::with_capacity(ids.len());
        let asked: Vec<ObjectId> = ids
            .iter()
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .filter(|id| {
                let ripe = ready.ripe.contains(id) && !ready.gone.contains(id);
                if !ripe {
                    let refusal = "the sweep did not find it, or not old enough".to_owned();
                    answers.insert(*id, Deletion::Refused(Refusal::Conflict(refusal)));
                }
                ripe
            })
            .collect();
        for chunk in asked.chunks(CHUNK) {
            self.delete_orphan_chunk(plugin, ready, chunk, &mut answers)
                .await?;
        }
        let gone = ready.gone.clone();
        if let Some((_, left)) = lock(&self.orphans.last).as_mut() {
            left.retain(|orphan| !gone.contains(&orphan.id));
        }
        let unanswered = || Deletion::Outcome(DeleteOutcome::Retry("no answer".to_owned()));
        Ok(ids
            .iter()
            .map(|id| answers.get(id).cloned().unwrap_or_else(unanswered))
            .collect())
    }

    async fn delete_orphan_chunk(
        &self,
        plugin: &str,
        ready: &mut Ready,
        chunk: &[ObjectId],
        answers: &mut HashMap<ObjectId, Deletion>,
    ) -> Result<(), Trouble> {
        // A commit that came late saves its object: what is sent is judged by a
        // view that has caught up just now.
        let view = self.known_composites().await?;
        self.right_store(&view.state).await?;
        let mut send = Vec::with_capacity(chunk.len());
        {
            let links = lock(&self.links);
            for id in chunk {
                match known(&view.state, &links, *id) {
                    Some(known) => {
                        let text = known.to_string();
                        tracing::info!(object = id.0, reason = %text, "no orphan any more");
                        answers.insert(*id, Deletion::Refused(Refusal::Conflict(text)));
                    }
                    None => send.extend(ready.orphans.get(id).copied()),
                }
            }
        }
        self.authority()?;
        let mut unsent = false;
        for (id, outcome) in self.backend.delete_orphans(plugin, &send).await {
            match &outcome {
                DeleteOutcome::Deleted | DeleteOutcome::Absent => {
                    ready.gone.insert(id);
                    self.counters.deleted.fetch_add(1, Ordering::Relaxed);
                }
                DeleteOutcome::NotSent => unsent = true,
                _ => {}
            }
            answers.insert(id, Deletion::Outcome(outcome));
        }
        if unsent {
            return Err(Trouble::LeaseLost);
        }
        Ok(())
    }

    /// A view that has caught up with the log's tail, of which every composite
    /// is known: the live ones, and those that are only marked.
    async fn known_composites(&self) -> Result<Arc<View>, Trouble> {
        let view = self.informed().await?;
        if let Some(doubt) = lock(&self.links).doubt(&view.state) {
            return Err(Trouble::Unavailable(doubt));
        }
        let marks = view.state.counts().marks;
        if marks > MARKS {
            return Err(Trouble::Unavailable(format!(
                "{marks} marks wait in the destroyed queue; no sweep for orphans before they are \
                 fewer than {MARKS}"
            )));
        }
        let ids: Vec<u64> = {
            let plain = lock(&self.orphans.plain);
            let links = lock(&self.links);
            view.state
                .marks_after(None)
                .map(|(_, id, _)| id)
                .filter(|id| !plain.contains(id) && !links.is_composite(*id))
                .map(|id| id.0)
                .collect()
        };
        for (id, found) in self.backend.store().links_many(&ids, LOOKS).await {
            let id = ObjectId(id);
            let unreadable = |reason: String| {
                Trouble::Unavailable(format!(
                    "what the marked object {id} links cannot be read: {reason}"
                ))
            };
            match found {
                Ok(found @ Composite::Links(_)) => {
                    lock(&self.links).record(&view.state, id, found, self.boot());
                }
                Ok(Composite::Plain) => {
                    lock(&self.orphans.plain).insert(id);
                }
                // Nobody can read anything through it any more.
                Ok(Composite::Absent) => {}
                Ok(Composite::Unreadable(reason)) => return Err(unreadable(reason)),
                Err(error) => return Err(unreadable(error.to_string())),
            }
        }
        Ok(view)
    }

    /// Whether the store is the catalog's: stricter than for marked objects,
    /// since here the catalog's silence is what condemns.
    async fn right_store(&self, state: &State) -> Result<(), Trouble> {
        let sample = StoreTrust::sample(state);
        if sample.is_empty() {
            if self.trust.confirmed() {
                return Ok(());
            }
            return Err(Trouble::Unavailable(
                "the catalog has no live object to know the store by; if it is the right one, \
                 confirm it with --confirm-empty-store"
                    .to_owned(),
            ));
        }
        if let Trust::Suspect(text) = self.trust.now(self.boot()) {
            return Err(Trouble::Unavailable(text));
        }
        let ids: Vec<u64> = sample.iter().map(|id| id.0).collect();
        for (id, look) in self.backend.store().head_many(&ids, LOOKS).await {
            match look {
                Ok(Some(_)) => {}
                // It may have gone meanwhile, rightly.
                Ok(None) if !self.backend.fresh().await?.state.is_live(ObjectId(id)) => {}
                Ok(None) => {
                    return Err(Trouble::Unavailable(format!(
                        "the live object {id} is not in the store ({}): it may be the wrong bucket \
                         or directory, or have lost data; no orphan is deleted until it is there",
                        aedile_storage::object_key(id)
                    )));
                }
                Err(error) => return Err(Trouble::Unavailable(error.to_string())),
            }
        }
        Ok(())
    }
}
