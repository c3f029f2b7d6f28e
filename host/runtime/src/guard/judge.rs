//! The decision whether an object's bytes may go, and whether its mark may.
//!
//! Pure functions over a view and what is remembered of the composites: the
//! live run and the dry run call the same ones.

use std::fmt;

use aedile_state::{ObjectId, Operation, State};

use super::LinkIndex;

/// Why a mark contradicts the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The object is in the catalog: its bytes are live data.
    Live,
    /// The object is reserved: an upload under its id may be under way.
    Reserved,
    /// A composite reads the object's bytes.
    Linked(ObjectId),
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => f.write_str("the object is live: the catalog has it"),
            Self::Reserved => f.write_str("the object is reserved: an upload may be under way"),
            Self::Linked(by) => write!(f, "composite {by} links the object"),
        }
    }
}

/// Why a DeepDelete is left to a later version.
pub(crate) const DEEP_DELETE: &str =
    "DeepDelete is not handled by this version; the mark and the bytes stay";
/// Why the delete of a composite is left to a later version.
pub(crate) const COMPOSITE: &str =
    "the object is a composite: its delete is not handled by this version";

/// Whether an object's bytes may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They may: the mark says so and nothing speaks against it.
    Delete,
    /// The destroyed queue does not name the object.
    NotMarked,
    /// The mark keeps the data.
    KeepData,
    /// The mark contradicts the catalog.
    Conflict(Conflict),
    /// This version does not handle it.
    Parked(&'static str),
    /// What live composites link is not known: nothing may go.
    Suspect(String),
}

/// Decide whether the bytes of `id` may go.
///
/// `state` must be a view that has caught up with the log's tail, and `links`
/// must know every composite of that view (`LinkIndex::missing` is empty).
///
/// The order matters only for the text: every reason against is checked, and
/// [`Verdict::Delete`] is what remains.
pub fn judge(state: &State, links: &LinkIndex, id: ObjectId) -> Verdict {
    #[cfg(feature = "without-guard")]
    {
        // The mutant: what the demo's verdict must notice.
        let _ = (state, links, id);
        Verdict::Delete
    }
    #[cfg(not(feature = "without-guard"))]
    {
        let Some((_, operation)) = state.mark(id) else {
            return Verdict::NotMarked;
        };
        if operation == Operation::KeepData {
            return Verdict::KeepData;
        }
        if state.is_live(id) {
            return Verdict::Conflict(Conflict::Live);
        }
        if state.is_reserved(id) {
            return Verdict::Conflict(Conflict::Reserved);
        }
        if let Some(by) = links.linked_by(state, id) {
            return Verdict::Conflict(Conflict::Linked(by));
        }
        if operation == Operation::DeepDelete {
            return Verdict::Parked(DEEP_DELETE);
        }
        if links.is_composite(id) {
            return Verdict::Parked(COMPOSITE);
        }
        if let Some(text) = links.doubt(state) {
            return Verdict::Suspect(text);
        }
        Verdict::Delete
    }
}

/// Whether a mark may leave the destroyed queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CleanVerdict {
    /// It may.
    Clean(Operation),
    /// There is no mark.
    NotMarked,
    /// It may not.
    Refused(String),
}

/// Decide whether the mark of `id` may leave the queue. `deleted` says whether
/// the store confirmed in this term that the object's bytes are gone.
pub(crate) fn judge_clean(state: &State, deleted: bool, id: ObjectId) -> CleanVerdict {
    let Some((_, operation)) = state.mark(id) else {
        return CleanVerdict::NotMarked;
    };
    // Of a mark that keeps the data only the mark goes, whatever it names.
    if operation == Operation::KeepData {
        return CleanVerdict::Clean(operation);
    }
    if !deleted {
        return CleanVerdict::Refused(format!(
            "the bytes of object {id} must go first: they were not deleted in this term"
        ));
    }
    if state.is_live(id) {
        return CleanVerdict::Refused(format!("object {id}: {}", Conflict::Live));
    }
    CleanVerdict::Clean(operation)
}

/// The name of an operation as the plugins' interface has it.
pub(crate) fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Delete => "delete",
        Operation::KeepData => "keep-data",
        Operation::DeepDelete => "deep-delete",
    }
}
