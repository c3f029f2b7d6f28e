//! Client of the PicoMQ metadata log: an ordered log of commands in a SQL
//! database, with a snapshot below it.
//!
//! A [`Log`] has one applier and one appender. The *tailer* reads rows, applies
//! them in order and publishes immutable [`View`]s; the *proposer* packs the
//! commands of all callers into rows and sends them, one transaction at a time.
//! A [`Reader`] looks and writes nothing. The client knows nothing of leases or
//! plugins.
//!
//! What holds, on SQLite and PostgreSQL, beside PicoMQ's own nodes:
//!
//! 1. **No hole.** A row lands only right behind its predecessor, which is a row
//!    or the snapshot itself.
//! 2. **Nothing at or below a snapshot.** That is decided inside the database,
//!    in the transaction of the append, also when snapshot and truncation commit
//!    while it runs.
//! 3. **An acknowledged command is in the log**, or in a snapshot that covers it.
//!    After a lost reply the same bytes go to the same index until that is taken;
//!    then the bytes tell whose it is.
//! 4. **One applier, nothing skipped.** A row that cannot be decoded stops the
//!    client and is named; so does a log that went back.
//! 5. **An idle client writes nothing.**
//! 6. **Others' snapshots are this node's state.** Each that covers an index that
//!    this node passes is compared with it, byte for byte; a difference stops the
//!    client, also after a restart, until the operator clears it.
//! 7. **A fenced command lands only while its term stands** ([`Fence`]).
//!
//! The contract suites in `tests/contract` try to break each on every database.
//!
//! Read in this order: [`View`] and [`Answer`] (`view`), the statements
//! (`store/sqlite`, `store/postgres`), `applier`, `selfcheck`, `tailer`, `pending`,
//! `proposer`, `log`.

mod ahead;
mod applier;
mod error;
mod fence;
mod log;
#[cfg(test)]
mod lossy_tests;
mod options;
mod pending;
mod proposer;
mod reader;
mod records;
mod schema;
mod selfcheck;
mod snapshots;
mod store;
mod tailer;
mod url;
mod view;

pub use error::{LogError, LogErrorKind};
pub use fence::Fence;
pub use log::Log;
pub use options::LogOptions;
pub use reader::{Reader, check_writable, clear_divergence};
pub use records::{DivergenceRecord, LeaseRecord, NodeRecord, RUNS_KEPT, Records, RunRecord};
pub use schema::TableState;
pub use url::{Backend, MetaUrl};
pub use view::{Answer, LogHealth, View};
