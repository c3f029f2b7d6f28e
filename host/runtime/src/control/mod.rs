//! The control range of the replicated key-value map: what operators want of
//! each plugin, revision by revision.
//!
//! Every node learns of a deploy by applying the log. The log has no
//! compare-and-set, so an entry is never overwritten: an operator's action is
//! one `PutKvIfAbsent` of the plugin's next revision, and who comes second is
//! told who won. Nothing is removed either: the revisions are the history.
//!
//! # Layout, below [`PREFIX`]
//! - `<name>/rev/NNNNNNNNNN`: a [`Record`] as JSON, numbered from 1 without a
//!   gap. It holds the whole setting as it is to be after the action.
//! - `<name>/run/…`: a [`RunRequest`]: an operator wants one tick now. The
//!   holder removes the key and runs the tick.
//!
//! No plugin may write there. An entry that cannot be read is named and left as
//! it is; what ran before goes on.
//!
//! Read in this order: `record` (what a revision says), `read` (the revisions of
//! a view), `settings` (from a record to what a plugin runs with), `write` (the
//! next revision), `run_now`, `schema` (a configuration against its schema).

mod read;
mod record;
mod run_now;
mod settings;
mod write;

#[cfg(test)]
mod tests;

pub use read::{Damage, Damaged, Revision, before, history, latest, names, revision};
pub use record::{Action, LimitChanges, ModuleRef, Record, Schedule, StoredModule};
pub use run_now::{RunRequest, run_now, run_requests};
pub use settings::{RecordError, check_prefix, grant_command, lacking};
pub use write::{ControlError, Written, write};

/// Where all of it is.
pub const PREFIX: &str = "aedile/plugin/";

/// What a plugin is granted unless an operator takes it back: neither changes
/// anything.
pub const HARMLESS: [&str; 2] = ["state", "metrics"];

/// The form of a value.
const VERSION: u64 = 1;

/// Largest record, in bytes: it lies in every snapshot.
const LARGEST: usize = 256 << 10;

/// Highest number of a revision: its key has ten digits.
const LAST: u64 = 9_999_999_999;

/// Whether it can be a plugin's name: 1 to 64 of `a-z`, `0-9` and `-`, beginning
/// with a letter, as manifests have it.
pub fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// The key of a revision.
pub fn revision_key(name: &str, number: u64) -> String {
    format!("{PREFIX}{name}/rev/{number:010}")
}
