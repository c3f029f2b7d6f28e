//! What the composites link.
//!
//! A composite holds no data of its own: its bytes name other objects, and major
//! compaction lets the catalog forget those. So the composites' own bytes are
//! the only place that says that a part is still read. Bytes are immutable:
//! each composite is read once in a term and remembered by its id.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use aedile_state::{ObjectId, Operation, State};
use aedile_storage::Composite;

/// What is known of the composites' links.
#[derive(Debug, Default)]
pub struct LinkIndex {
    /// Objects that were looked at, with what they link: empty for plain ones.
    read: HashMap<ObjectId, Arc<[ObjectId]>>,
    /// Linked objects, with the composites that link them.
    by_part: HashMap<ObjectId, Vec<ObjectId>>,
    /// Objects that are to be known and could not be read.
    unreadable: BTreeMap<ObjectId, String>,
    /// DeepDelete marks still to be looked at.
    marked: BTreeSet<ObjectId>,
    /// The last mark that was looked through.
    scanned: Option<u64>,
}

impl LinkIndex {
    /// Record what an object says about itself.
    pub fn record(&mut self, id: ObjectId, found: Composite) {
        let links = match found {
            Composite::Links(links) => links,
            Composite::Plain => Vec::new(),
            Composite::Absent => {
                self.unreadable
                    .insert(id, "its bytes are not in the store".to_owned());
                return;
            }
            Composite::Unreadable(reason) => {
                self.unreadable.insert(id, reason);
                return;
            }
        };
        self.unreadable.remove(&id);
        self.marked.remove(&id);
        let links: Arc<[ObjectId]> = links.into_iter().map(ObjectId).collect();
        for &part in &*links {
            let by = self.by_part.entry(part).or_default();
            if !by.contains(&id) {
                by.push(id);
            }
        }
        self.read.insert(id, links);
    }

    /// The objects that must be read before this view can be judged: live
    /// composites and DeepDelete marks that are not known yet. What could not
    /// be read before is named again.
    pub fn missing(&mut self, state: &State) -> Vec<ObjectId> {
        for (seq, id, operation) in state.marks_after(self.scanned) {
            self.scanned = Some(seq);
            if operation == Operation::DeepDelete && !self.read.contains_key(&id) {
                self.marked.insert(id);
            }
        }
        // A mark that is gone, or whose bytes are, protects nothing.
        let unreadable = &self.unreadable;
        self.marked
            .retain(|&id| state.mark(id).is_some() && !unreadable.contains_key(&id));
        state
            .composites()
            .filter(|id| !self.read.contains_key(id))
            .chain(self.marked.iter().copied())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// A composite that links the object and still counts in this view: live,
    /// or marked with an operation that takes its bytes.
    pub fn linked_by(&self, state: &State, id: ObjectId) -> Option<ObjectId> {
        self.by_part.get(&id)?.iter().copied().find(|&composite| {
            state.is_live(composite)
                || matches!(
                    state.mark(composite),
                    Some((_, Operation::Delete | Operation::DeepDelete))
                )
        })
    }

    /// Whether the object is known to link others.
    pub fn is_composite(&self, id: ObjectId) -> bool {
        self.read.get(&id).is_some_and(|links| !links.is_empty())
    }

    /// Why nothing may be deleted on this view; none if all links are known.
    pub fn doubt(&self, state: &State) -> Option<String> {
        self.unreadable
            .iter()
            .find(|&(&id, _)| state.is_live(id))
            .map(|(id, reason)| {
                format!(
                    "what the live composite {id} links cannot be read ({reason}), so any object \
                     may be a part of it; restore the object `{}`, and deleting goes on",
                    aedile_storage::object_key(id.0)
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::testing::World;

    #[test]
    fn a_live_composite_is_missing_until_it_is_read() {
        let mut world = World::new();
        let (composite, parts) = world.composite();
        let mut links = LinkIndex::default();
        assert_eq!(links.missing(&world.state), [composite]);
        links.record(composite, Composite::Unreadable("cut short".to_owned()));
        let doubt = links.doubt(&world.state).expect("not known");
        assert!(doubt.contains(&composite.to_string()) && doubt.contains("cut short"));
        assert_eq!(links.missing(&world.state), [composite]);
        links.record(
            composite,
            Composite::Links(parts.iter().map(|part| part.0).collect()),
        );
        assert_eq!(links.doubt(&world.state), None);
        assert!(links.missing(&world.state).is_empty());
        for &part in &parts {
            assert_eq!(links.linked_by(&world.state, part), Some(composite));
        }
        assert!(links.is_composite(composite) && !links.is_composite(parts[0]));
    }

    #[test]
    fn a_deep_delete_mark_is_looked_at_once_and_never_blocks() {
        let mut world = World::new();
        let (composite, parts) = world.composite();
        world.compact(&[composite], &[Operation::DeepDelete]);
        let mut links = LinkIndex::default();
        assert_eq!(links.missing(&world.state), [composite]);
        links.record(composite, Composite::Absent);
        assert!(links.missing(&world.state).is_empty());
        assert_eq!(links.doubt(&world.state), None);
        links.record(composite, Composite::Links(vec![parts[0].0]));
        assert_eq!(links.linked_by(&world.state, parts[0]), Some(composite));
        world.clean(&[composite]);
        assert_eq!(links.linked_by(&world.state, parts[0]), None);
    }
}
