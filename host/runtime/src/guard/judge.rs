//! The decision whether an object's bytes may go, and whether its mark may.
//!
//! Pure functions over a view and what is remembered of the composites: the
//! live run and the dry run call the same ones.

use std::fmt;

use aedile_state::{ObjectId, Operation, State};

use super::LinkIndex;
use super::links::Look;

/// Why a mark contradicts the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The object is in the catalog: its bytes are live data.
    Live,
    /// The object is reserved: an upload under its id may be under way.
    Reserved,
    /// A live composite reads the object's bytes.
    Linked(ObjectId),
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => f.write_str("the object is live: the catalog has it"),
            Self::Reserved => f.write_str("the object is reserved: an upload may be under way"),
            Self::Linked(by) => write!(f, "the live composite {by} links the object"),
        }
    }
}

/// Whether an object's bytes may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They may: the mark says so and nothing speaks against it. Of a
    /// DeepDelete the parts go first (see [`judge_part`]).
    Delete,
    /// The destroyed queue does not name the object.
    NotMarked,
    /// The mark keeps the data.
    KeepData,
    /// The mark contradicts the catalog.
    Conflict(Conflict),
    /// A live composite that cannot be read may link it.
    Held(String),
    /// Its mark is DeepDelete, and what it links cannot be read.
    Unreadable(String),
}

/// Decide whether the bytes of `id` may go.
///
/// `state` must be a view that has caught up with the log's tail, and `links`
/// must have looked at every live composite of that view
/// (`LinkIndex::missing` is empty) and, if its mark is DeepDelete, at `id`.
///
/// The order matters only for the text: every reason against is checked, and
/// [`Verdict::Delete`] is what remains.
pub fn judge(state: &State, links: &LinkIndex, id: ObjectId) -> Verdict {
    #[cfg(feature = "without-guard")]
    {
        // The mutant: what the demo's verdict must notice.
        let _ = (state, links, id, in_use);
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
        if let Some(conflict) = in_use(state, links, id) {
            return Verdict::Conflict(conflict);
        }
        if let Some(text) = links.holds_back(state, id) {
            return Verdict::Held(text);
        }
        if operation == Operation::DeepDelete {
            return judge_links(links, id);
        }
        Verdict::Delete
    }
}

/// What speaks against the deletion of any object.
fn in_use(state: &State, links: &LinkIndex, id: ObjectId) -> Option<Conflict> {
    if state.is_live(id) {
        return Some(Conflict::Live);
    }
    if state.is_reserved(id) {
        return Some(Conflict::Reserved);
    }
    links.linked_by(state, id).map(Conflict::Linked)
}

/// Whether what a DeepDelete would take is known.
#[cfg_attr(feature = "without-guard", allow(dead_code))]
fn judge_links(links: &LinkIndex, id: ObjectId) -> Verdict {
    match links.known(id) {
        // A part is older than its composite; a link to anything else is damage.
        Some(Look::Links(parts)) => match parts.iter().find(|&&part| part >= id) {
            Some(part) => Verdict::Unreadable(format!(
                "it links object {part}, which is not older than the composite itself"
            )),
            None => Verdict::Delete,
        },
        // The parts go before the composite: without it there is no part left.
        Some(Look::Absent) => Verdict::Delete,
        Some(Look::Unreadable(reason)) => Verdict::Unreadable(reason),
        None => Verdict::Unreadable("it was not looked at yet".to_owned()),
    }
}

/// Whether a part goes with the composite that is deleted deeply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartVerdict {
    /// It goes.
    Take,
    /// It stays for good, and the composite may go: it is live or reserved
    /// itself, or another composite that still counts links it.
    Stays,
    /// It is not known whether it may go: the composite waits.
    Held(String),
}

/// Decide whether a part goes with the composites that are `going`: those that
/// this step deletes, or that are gone already. Same conditions as [`judge`],
/// which must have passed those composites.
pub fn judge_part(
    state: &State,
    links: &LinkIndex,
    part: ObjectId,
    going: impl Fn(ObjectId) -> bool,
) -> PartVerdict {
    if state.is_live(part)
        || state.is_reserved(part)
        || part >= state.next_object_id()
        || links.left_to(state, part, going).is_some()
    {
        return PartVerdict::Stays;
    }
    match links.holds_back(state, part) {
        Some(text) => PartVerdict::Held(text),
        None => PartVerdict::Take,
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
