//! What may go: the host's own rules, which no plugin and no grant can relax.
//!
//! [`judge`] is the decision. What it needs besides the view is kept here for
//! one term: the links of the composites, what was deleted, what is set aside,
//! and whether the store has been seen to be the right one.

mod aside;
mod delete;
mod guards;
mod judge;
#[cfg(test)]
mod judge_tests;
mod keys;
mod links;
mod sample;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use judge::{COMPOSITE, CleanVerdict, DEEP_DELETE, judge_clean, operation_name};
pub use judge::{Conflict, Verdict, judge};
pub use links::LinkIndex;

pub(crate) use aside::{Aside, Tries, Why};
pub(crate) use guards::{Deletion, Guards, Item, Refusal, item};
pub(crate) use keys::KeyRule;
pub(crate) use sample::{Found, StoreTrust, Trust};
