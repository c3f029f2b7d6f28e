//! A host in memory, so that a plugin's logic is tested natively.
//!
//! [`Host`] holds a small replicated state, an object store and the answers
//! that a test scripts. It keeps the rules that a plugin relies on: the view is
//! pinned for a tick, a clean is rejected for bytes that were not deleted, an
//! object whose delete failed is backed off in the ticks that follow, keys
//! outside the plugin's prefix are not writable. Every call that sends
//! something is recorded.
//!
//! Of the destructive commands only `compact-away` is modelled; the decisions of
//! the real guard (liveness, links) and its sweep for orphans are not: script
//! their answers.

mod commands;
mod host;
mod manifest;
mod model;
mod state;
#[cfg(test)]
mod tests;

pub use host::{Call, Host, Line};
pub use manifest::check_manifest;
pub use model::Model;
