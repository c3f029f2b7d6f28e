//! Follows leadership and runs the plugins: guards, schedules, sources, history.
//!
//! The runtime joins the parts below it: it follows the leadership that
//! `aedile-lease` reports, loads plugins from the binary and from a directory,
//! runs their ticks in `aedile-engine` for as long as this node's term stands,
//! and is the host that those ticks talk to. It constructs no adapter: log,
//! keeper, store and engine are handed to it.
//!
//! What it must keep, and the test that tries to break it:
//!
//! 1. **Live data is never deleted.** Whether an object's bytes may go is
//!    decided by one pure function, [`guard::judge`], from a view that has
//!    caught up with the log's tail just before each chunk is sent
//!    (`what_is_protected_never_goes`, and for the wrong bucket
//!    `in_the_wrong_directory_nothing_goes_and_nothing_is_forgotten`).
//! 2. **Bytes before catalog.** A mark whose bytes must go leaves the queue only
//!    after the store confirmed, in this term, that they are gone
//!    (`a_mark_leaves_the_queue_only_after_its_bytes`).
//! 3. **A call outside the term does nothing.** Every call reads the authority
//!    again; what was sent is joined before the lease is released
//!    (`past_its_authority_a_holder_sends_nothing`).
//! 4. **One plugin's failure is its own**, and so is one object's
//!    (`one_plugin_that_always_fails_is_quarantined_and_the_others_go_on`,
//!    `one_undeletable_object_does_not_hold_up_the_others`).
//! 5. **A plan is what a pass does.** The dry run and the live run are one host
//!    over two backends
//!    (`a_pass_does_what_its_plan_says_and_the_second_appends_nothing`).
//! 6. **Idle costs nothing** (`an_idle_holder_leaves_the_log_alone`).
//!
//! Read in this order: [`guard`] (what may go), `host` (what a plugin's call
//! does), `term` (one term of leadership), [`source`] (where plugins come
//! from), [`control`] (what operators deploy through the log), `supervisor`
//! (which follows the leadership), [`mod@plan`], and `runtime`, which ties them
//! together.
//!
//! ```no_run
//! # async fn example(parts: aedile_runtime::Parts) -> Result<(), aedile_runtime::RuntimeError> {
//! use aedile_runtime::{Runtime, RuntimeOptions};
//!
//! let options = RuntimeOptions {
//!     node: "rack-4".to_owned(),
//!     plugin_dir: Some("/etc/aedile/plugins".into()),
//!     ..RuntimeOptions::default()
//! };
//! let running = Runtime::start(options, parts).await?;
//! println!("{:?}", running.status().role);
//! running.stop().await;
//! # Ok(())
//! # }
//! ```

mod backend;
pub mod control;
mod entropy;
mod error;
pub mod guard;
mod heartbeat;
mod host;
mod options;
pub mod parked;
mod pass;
pub mod plan;
mod runtime;
mod schedule;
mod shared;
pub mod source;
pub mod status;
mod stopfile;
mod supervisor;
mod term;
#[cfg(test)]
mod tests;
mod timetable;
pub mod trial;

pub use error::RuntimeError;
pub use guard::OrphanOptions;
pub use options::{Builtin, Retries, RuntimeOptions};
pub use plan::{Candidate, Plan, PlanParts, TrialError, plan, try_out};
#[cfg(feature = "bench")]
pub use runtime::bench;
pub use runtime::{Outcome, Parts, PassTotals, Runtime, RuntimeHandle};
pub use source::{PluginSettings, Problem, ScheduleSettings};
pub use status::{
    Backlog, EffectiveLimits, LastTick, OrphanStatus, PluginState, PluginStatus, Role, RolledBack,
    Status, StopFile, Wanted, WantedState,
};
pub use timetable::check_cron;
