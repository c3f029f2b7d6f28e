//! What may go: the host's own rules, which no plugin and no grant can relax.
//!
//! [`judge`] is the decision. What it needs besides the view is kept here for
//! one term: the links of the composites, what was deleted, what is set aside,
//! and whether the store has been seen to be the right one.

mod aside;
mod deep;
mod delete;
mod guards;
mod judge;
#[cfg(test)]
mod judge_tests;
mod keys;
mod learn;
#[cfg(test)]
mod ledger_tests;
mod links;
#[cfg(test)]
mod links_tests;
mod orphan;
mod orphan_notes;
mod orphan_sweep;
#[cfg(test)]
mod orphan_tests;
mod sample;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use judge::{CleanVerdict, judge_clean, operation_name};
pub use judge::{Conflict, PartVerdict, Verdict, judge, judge_part};
pub use links::{LinkIndex, Look};
pub use orphan::{Known, OrphanOptions, known};

pub(crate) use aside::{Aside, Tries, Why};
pub(crate) use guards::{Deletion, Guards, Item, Refusal, item};
pub(crate) use keys::KeyRule;
pub(crate) use orphan_notes::is_note;
pub(crate) use orphan_sweep::{Orphan, Orphans, Portion};
pub(crate) use sample::{Found, StoreTrust, Trust};
