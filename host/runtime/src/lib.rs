//! Follows leadership and runs the plugins: guards, schedules, sources, history.
//!
//! The runtime joins the parts below it: it follows the leadership that
//! `aedile-lease` reports, loads plugins from the binary and from a directory,
//! runs their ticks in `aedile-engine` for as long as this node's term stands,
//! and is the host that those ticks talk to. It constructs no adapter: log,
//! keeper, store and engine are handed to it.
//!
//! What it must keep:
//!
//! 1. **Live data is never deleted.** Whether an object's bytes may go is
//!    decided by one pure function, [`guard::judge`], from a view that has
//!    caught up with the log's tail just before each chunk is sent.
//! 2. **Bytes before catalog.** A mark whose bytes must go leaves the queue only
//!    after the store confirmed, in this term, that they are gone.
//! 3. **A call outside the term does nothing.** Every call reads the authority
//!    again; what was sent is joined before the lease is released.
//! 4. **One plugin's failure is its own.** Backoff, quarantine and the limits
//!    are counted per plugin, and an object that cannot be deleted is set aside.
//! 5. **A plan is what a pass does.** The dry run and the live run are one host
//!    over two backends.
//!
//! Read in this order: [`guard`] (what may go), [`host`] (what a plugin's call
//! does), [`term`] (one term of leadership), [`source`] (where plugins come
//! from), [`plan`], and `runtime`, which ties them together.

mod backend;
mod entropy;
mod error;
pub mod guard;
mod heartbeat;
mod host;
mod options;
mod pass;
pub mod plan;
mod runtime;
mod schedule;
mod shared;
pub mod source;
pub mod status;
mod supervisor;
mod term;
#[cfg(test)]
mod tests;

pub use error::RuntimeError;
pub use options::{Builtin, RuntimeOptions};
pub use plan::{Plan, PlanParts, plan};
pub use runtime::{Outcome, Parts, PassTotals, Runtime, RuntimeHandle};
pub use source::{PluginSettings, Problem, ScheduleSettings};
pub use status::{Backlog, LastTick, PluginState, PluginStatus, Role, Status};
