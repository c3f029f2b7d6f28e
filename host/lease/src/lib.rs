//! The lease row: election, renewal, fencing epoch, release.
//!
//! A [`Keeper`] contends for one row in a SQL database and tells its owner, by a
//! watch channel, where the node stands ([`Leadership`]). While it holds the
//! lease the owner has a [`Term`], whose epoch fences what it writes, and an
//! [`Authority`], which says at every moment whether it may act. It knows
//! nothing of the metadata log or of plugins.
//!
//! What always holds:
//!
//! 1. An authority ends a margin before its lease can lapse, counted from the
//!    *sending* of the last request that was answered. Every reading of it reads
//!    the boot-time clock; a thread of its own shows the end when the keeper's is
//!    blocked (`keeper::tests`).
//! 2. Epochs grow with every acquisition, also one's own, and do not repeat when
//!    the row is deleted by hand (`protocol::tests`).
//! 3. The lease is released after its owner said that the ticks have ended, or
//!    not at all (`protocol::tests`).
//! 4. A statement that arrives late changes no later term: each carries the
//!    epoch it is about, and an acquisition also the last instant, by the
//!    database's clock, at which it may happen.
//! 5. The database's clock decides what has lapsed. A node's own clocks measure
//!    only how long something took.
//! 6. A follower's reading writes nothing and takes no lock.
//!
//! To read in this order: [`protocol`] (every decision), `store` (the
//! statements), `driver` (carries out the decisions), `board` and `authority`
//! (what the owner sees), `keeper` (the handle and its threads).
//!
//! ```no_run
//! # async fn example() -> Result<(), aedile_lease::LeaseError> {
//! use std::sync::Arc;
//! use aedile_clock::SystemClock;
//! use aedile_lease::{Keeper, LeaseOptions};
//!
//! let options = LeaseOptions::new("postgres://aedile@db/meta", "node-a");
//! let keeper = Keeper::start(options, Arc::new(SystemClock))?;
//! let mut leadership = keeper.leadership();
//! keeper.set_eligible(Ok(()));
//! while leadership.changed().await.is_ok() {
//!     let now = leadership.borrow_and_update().clone();
//!     if let Some((term, authority)) = now.holding() {
//!         while authority.holds() { /* work, one bounded step at a time */ }
//!         keeper.release(term).await;
//!     }
//! }
//! # Ok(()) }
//! ```

mod authority;
mod board;
mod driver;
mod error;
mod holder;
mod keeper;
mod leadership;
mod options;
pub mod protocol;
mod store;
mod url;

pub use authority::Authority;
pub use error::LeaseError;
pub use holder::is_native;
pub use keeper::Keeper;
pub use leadership::{Leadership, Seen, Term};
pub use options::{LeaseName, LeaseOptions};
