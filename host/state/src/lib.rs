//! The state machine of PicoMQ's metadata log: commands, their encoding,
//! [`State::apply`], the snapshot, and queries over the state.
//!
//! It is pure: no clock, no I/O, no randomness, no dependency that has any.
//! It does not know where rows come from (`aedile-log` does) nor what is done
//! about what it holds (plugins do).
//!
//! What always holds, and the tests that try to break it:
//!
//! 1. The same commands give the same answers and the same snapshot bytes as
//!    in PicoMQ: `all_captures_conform` in `tests/conformance`.
//! 2. A command that is rejected leaves the state as it was:
//!    `a_rejected_command_changes_nothing`.
//! 3. Equal states give equal snapshot bytes, and a decoded snapshot encodes
//!    to the same bytes: `a_snapshot_survives_a_decode`.
//! 4. [`Changes::None`] is answered exactly when the state is as before:
//!    `changes_tell_whether_the_state_changed`; so the twin of an expire or a
//!    clean is known as one: `a_twin_changes_nothing`.
//! 5. No payload makes a decoder panic, or allocate for more than the payload
//!    holds: `random_bytes_never_panic`, `declared_lengths_are_not_trusted`.
//! 6. Every index beside the snapshot's own lists agrees with them:
//!    `derived_indexes_agree`.
//! 7. A clone costs the same whatever the state holds, and never changes with
//!    the original: `a_clone_shares_and_stays`.
//! 8. A state never contradicts one that it came from: `no_state_contradicts_its_past`.
//!
//! In reading order: `command` and `codec` (what a row holds), `outcome` (what
//! is answered), `records` and `state` (what is known), `apply` (the rules, a
//! file per family), `snapshot`, `succession`, `query`.
//!
//! ```
//! use aedile_state::{Changes, Command, NodeId, State, StreamId, Value, codec};
//!
//! let row = codec::encode_batch(&[
//!     Command::RegisterNode {
//!         node: NodeId(1),
//!         node_epoch: 10,
//!         http_address: "http://n1:4437".to_owned(),
//!         slots: 1,
//!     },
//!     Command::CreateStream { node: NodeId(1), node_epoch: 10 },
//! ]);
//!
//! let mut state = State::new();
//! let mut last = None;
//! for command in codec::decode_batch(&row)? {
//!     last = Some(state.apply(&command));
//! }
//! let created = last.expect("two commands").expect("a registered node may create");
//! assert_eq!(created.value, Value::Id(0));
//! assert_eq!(created.changes, Changes::All);
//! assert!(state.stream(StreamId(0)).is_some());
//!
//! let restored = State::decode_snapshot(&state.encode_snapshot())?;
//! assert_eq!(restored, state);
//! # Ok::<(), aedile_state::DecodeError>(())
//! ```

mod apply;
pub mod codec;
mod command;
mod ids;
mod outcome;
mod query;
mod records;
mod snapshot;
mod state;
mod succession;
#[cfg(test)]
mod tests;

pub use codec::DecodeError;
pub use command::{
    Command, CommitRange, CommitRequest, CommitStreamObject, CompactRequest, Operation,
};
pub use ids::{NOOP, NodeId, ObjectId, StreamId};
pub use outcome::{Applied, Changes, Outcome, Rejection, Value};
pub use query::Counts;
pub use records::{
    Node, ObjectKind, ObjectRef, Range, Ranges, Stream, StreamState, bucket, is_composite,
};
pub(crate) use state::NEVER_OPENED;
pub use state::State;
