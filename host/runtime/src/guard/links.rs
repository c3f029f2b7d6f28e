//! What the composites link.
//!
//! A composite holds no data of its own: its bytes name other objects, its
//! *parts*, and major compaction lets the catalog forget those. So the
//! composites' own bytes are the only place that says that a part is still
//! read. Bytes are immutable: each composite is read once in a term and
//! remembered by its id.
//!
//! # A live composite that cannot be read
//! Any object might be a part of it, unless one of these excludes it; both
//! follow from how PicoMQ's compaction makes a composite (it lists a stream's
//! committed objects, *then* reserves the composite's id, and the commit that
//! publishes the composite takes its sources out of the catalog in the same
//! command; the parts of a composite among the sources are linked anew, the
//! composite itself never is):
//! 1. *A part is older.* Its id was reserved before the composite's, and ids
//!    are handed out in order: no object with a higher id is a part.
//! 2. *A part is not live beside its composite.* An object that was live in a
//!    view in which the composite was live too is no part of it, whatever
//!    becomes of the object later: the composite's links never change, and a
//!    part left the catalog at the latest with the composite's commit.
//!
//! So such a composite holds back only what was destroyed, or never committed,
//! before it was found unreadable and is older than it: [`LinkIndex::holds_back`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::BootInstant;
use aedile_state::{ObjectId, Operation, State};
use aedile_storage::Composite;

/// How long a live composite that could not be read is left before the next
/// look: the operator may have restored it.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Composites more than twice those that stand, above which the others are
/// forgotten.
const SLACK: usize = 4096;

/// What is known of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// It links these objects; none if it holds its data itself.
    Links(Arc<[ObjectId]>),
    /// Its bytes are not in the store.
    Absent,
    /// It is a composite whose links cannot be read, and why.
    Unreadable(String),
}

#[derive(Clone, Debug)]
struct Unread {
    known: Look,
    /// The view in which it was first found so.
    beside: State,
    /// When it may be looked at again.
    again: BootInstant,
}

/// What is known of the composites' links.
#[derive(Debug, Default)]
pub struct LinkIndex {
    /// Objects that were read, with what they link: nothing for plain ones.
    read: HashMap<ObjectId, Arc<[ObjectId]>>,
    /// Parts, each with a composite that links it.
    first: HashMap<ObjectId, ObjectId>,
    /// Parts that several composites link, with the others.
    more: HashMap<ObjectId, Vec<ObjectId>>,
    /// Objects that were looked at and could not be read.
    unread: BTreeMap<ObjectId, Unread>,
    /// So many composites are remembered before those that are gone are
    /// looked for.
    forget_at: usize,
}

impl LinkIndex {
    /// Record what an object says about itself; `state` is the view because of
    /// which it was looked at.
    pub fn record(&mut self, state: &State, id: ObjectId, found: Composite, now: BootInstant) {
        let known = match found {
            Composite::Links(links) => {
                return self.add(id, links.into_iter().map(ObjectId).collect());
            }
            // The catalog knows better: it was damaged or cut short.
            Composite::Plain if state.is_live(id) => {
                Look::Unreadable("the catalog calls it a composite, its bytes do not".to_owned())
            }
            Composite::Plain => return self.add(id, Arc::default()),
            Composite::Absent => Look::Absent,
            Composite::Unreadable(reason) => Look::Unreadable(reason),
        };
        let again = now + LOOK_AGAIN;
        self.unread
            .entry(id)
            .and_modify(|unread| (unread.known, unread.again) = (known.clone(), again))
            .or_insert_with(|| Unread {
                known,
                beside: state.clone(),
                again,
            });
    }

    fn add(&mut self, id: ObjectId, links: Arc<[ObjectId]>) {
        self.unread.remove(&id);
        if self.read.contains_key(&id) {
            return;
        }
        for &part in &*links {
            let first = *self.first.entry(part).or_insert(id);
            if first != id {
                let more = self.more.entry(part).or_default();
                if more.last() != Some(&id) {
                    more.push(id);
                }
            }
        }
        self.read.insert(id, links);
    }

    /// What is known of an object; none if it was not looked at.
    pub fn known(&self, id: ObjectId) -> Option<Look> {
        let read = self.read.get(&id).map(|links| Look::Links(links.clone()));
        read.or_else(|| self.unread.get(&id).map(|unread| unread.known.clone()))
    }

    /// The live composites that must be looked at before this view can be
    /// judged. What could not be read is named again after a while.
    pub fn missing(&self, state: &State, now: BootInstant) -> Vec<ObjectId> {
        state
            .composites()
            .filter(|id| !self.read.contains_key(id))
            .filter(|id| self.unread.get(id).is_none_or(|unread| unread.again <= now))
            .collect()
    }

    /// Forget what neither the catalog nor the queue names any more, once that
    /// is the most of it. Not while somebody judges by an older view as well.
    pub(super) fn forget_gone(&mut self, state: &State) {
        let stands = |id: &ObjectId| state.is_live(*id) || state.mark(*id).is_some();
        if self.read.len() < self.forget_at {
            return;
        }
        self.unread.retain(|id, _| stands(id));
        let read = std::mem::take(&mut self.read);
        self.first.clear();
        self.more.clear();
        for (id, links) in read.into_iter().filter(|(id, _)| stands(id)) {
            self.add(id, links);
        }
        self.forget_at = 2 * self.read.len() + SLACK;
    }

    fn linking(&self, part: ObjectId) -> impl Iterator<Item = ObjectId> + '_ {
        let more = self.more.get(&part).into_iter().flatten();
        self.first.get(&part).into_iter().chain(more).copied()
    }

    /// A live composite that links the object.
    pub fn linked_by(&self, state: &State, id: ObjectId) -> Option<ObjectId> {
        self.linking(id).find(|&composite| state.is_live(composite))
    }

    /// A composite that links the part and still counts: a live one, or one
    /// whose DeepDelete mark will take the part later. Those that are `going`
    /// now, or gone, do not count.
    pub fn left_to(
        &self,
        state: &State,
        part: ObjectId,
        going: impl Fn(ObjectId) -> bool,
    ) -> Option<ObjectId> {
        self.linking(part).find(|&composite| {
            state.is_live(composite)
                || (matches!(state.mark(composite), Some((_, Operation::DeepDelete)))
                    && !going(composite))
        })
    }

    /// A composite that links the object and is live or marked in this view, with
    /// whatever operation.
    pub(super) fn held_by(&self, state: &State, id: ObjectId) -> Option<ObjectId> {
        self.linking(id)
            .find(|&composite| state.is_live(composite) || state.mark(composite).is_some())
    }

    /// Whether the object is known to link others.
    pub(super) fn is_composite(&self, id: ObjectId) -> bool {
        self.read.get(&id).is_some_and(|links| !links.is_empty())
    }

    /// Why the object may be a part of a live composite that cannot be read;
    /// none if it is known to be a part of none. The module says why that is
    /// enough.
    pub fn holds_back(&self, state: &State, id: ObjectId) -> Option<String> {
        let younger = ObjectId(id.0.saturating_add(1));
        self.unread
            .range(younger..)
            .find(|(composite, unread)| state.is_live(**composite) && !unread.beside.is_live(id))
            .map(|(composite, unread)| {
                format!(
                    "it may be a part of the live composite {composite}, which cannot be read ({})",
                    reason(&unread.known)
                )
            })
    }

    /// Live composites that cannot be read, and why.
    pub fn unreadable<'a>(
        &'a self,
        state: &'a State,
    ) -> impl Iterator<Item = (ObjectId, String)> + 'a {
        self.unread
            .iter()
            .filter(|(id, _)| state.is_live(**id))
            .map(|(&id, unread)| (id, reason(&unread.known)))
    }

    /// What an operator must know of live composites that cannot be read; none
    /// if all links are known.
    pub fn doubt(&self, state: &State) -> Option<String> {
        let mut unreadable = self.unreadable(state);
        let (id, reason) = unreadable.next()?;
        let others = match unreadable.count() {
            0 => String::new(),
            count => format!(" (and {count} more like it)"),
        };
        Some(format!(
            "what the live composite {id} links cannot be read: {reason}{others}; objects older \
             than it that were destroyed before it was found so are kept, since they may be its \
             parts; restore the object `{}`, and they go",
            aedile_storage::object_key(id.0)
        ))
    }
}

fn reason(known: &Look) -> String {
    match known {
        Look::Links(_) => String::new(),
        Look::Absent => "its bytes are not in the store".to_owned(),
        Look::Unreadable(reason) => reason.clone(),
    }
}
