//! What the client asks of a database. Everything that differs between
//! databases is behind [`Store`].

mod connections;
mod fault;
mod postgres;
mod rows;
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, UnixMillis};
use async_trait::async_trait;

use crate::records::{DivergenceRecord, LeaseRecord, NodeRecord, RunRecord};
use crate::schema::Table;
use crate::url::Backend;
use crate::{Fence, LogError, LogOptions, MetaUrl};

pub(crate) use fault::{Judged, judge};

/// Whether a connection may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It may create tables and append.
    Write,
    /// It never writes, not even where the role could.
    Read,
}

/// How long statements may take, as this client waits for them.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// One that touches a few rows.
    small: Duration,
    /// An append: longer than the database's own limit for it, so that its word
    /// is heard.
    append: Duration,
    /// Some rows of the log.
    fetch: Duration,
    /// A whole snapshot.
    snapshot: Duration,
}

impl Limits {
    fn of(options: &LogOptions) -> Self {
        let statement = options.statement_timeout;
        Self {
            small: statement * 2,
            append: statement + statement / 2,
            fetch: statement * 5,
            snapshot: statement * 60,
        }
    }
}

/// Where log and snapshot end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tip {
    /// Index of the last row; 0 if there is none.
    pub(crate) row: u64,
    /// Index of the snapshot; none if there is no snapshot.
    pub(crate) snapshot: Option<u64>,
}

impl Tip {
    /// The last index that is taken.
    pub(crate) fn last(self) -> u64 {
        self.row.max(self.snapshot.unwrap_or(0))
    }
}

/// A row of the log.
pub(crate) type Row = (u64, Vec<u8>);

/// What one statement read, at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fetch {
    /// Index of the snapshot.
    pub(crate) snapshot: Option<u64>,
    /// Rows from the asked index on, that one included, ascending.
    pub(crate) rows: Vec<Row>,
}

/// What the transaction of an append saw around its rows: with them, what a look
/// from the row before them on would have brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Around {
    /// Index of the snapshot.
    pub(crate) snapshot: Option<u64>,
    /// The bytes of the row before them; none if it is not there any more.
    pub(crate) before: Option<Vec<u8>>,
}

/// What became of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Append {
    /// All rows stand in the log.
    Landed(Around),
    /// None does: the index is taken, or lies at or below the snapshot, or its
    /// predecessor is not there.
    Conflict,
    /// None does, and there was a place: the term of the fence is over. What the
    /// lease row says.
    FencedOut(String),
}

/// An append that gave no answer.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// The database refused it: no row stands in the log.
    Refused(LogError),
    /// The reply was lost: the rows may stand in the log.
    Unknown(LogError),
}

impl From<LogError> for AppendError {
    /// There was no connection: nothing was sent.
    fn from(error: LogError) -> Self {
        Self::Refused(error)
    }
}

/// A database that holds a log.
#[async_trait]
pub(crate) trait Store: Send + Sync {
    /// The columns of a table as the database describes them; none if there is
    /// no such table.
    async fn columns(&self, table: &Table) -> Result<Option<Vec<(String, String)>>, LogError>;

    /// Create a table, and its first row where it has one.
    async fn create(&self, table: &Table) -> Result<(), LogError>;

    /// Whether the database would take a write of this role.
    async fn writable(&self) -> Result<(), LogError>;

    /// Where the log ends.
    async fn tip(&self) -> Result<Tip, LogError>;

    /// The snapshot's index and the rows from `from` on, at most `limit`, in
    /// one statement.
    async fn fetch(&self, from: u64, limit: u32) -> Result<Fetch, LogError>;

    /// The snapshot.
    async fn snapshot(&self) -> Result<Option<Row>, LogError>;

    /// Add consecutive rows, the first at `first`: all of them, or none; with a
    /// fence, only while its term stands.
    async fn append(
        &self,
        first: u64,
        rows: &[Arc<[u8]>],
        fence: Option<&Fence>,
    ) -> Result<Append, AppendError>;

    /// Store a snapshot if it is newer than what is there, then remove the
    /// rows up to `truncate`. Tells whether it was stored.
    async fn store_snapshot(
        &self,
        index: u64,
        payload: Vec<u8>,
        truncate: u64,
    ) -> Result<bool, LogError>;

    /// The database's clock.
    async fn now(&self) -> Result<UnixMillis, LogError>;

    /// Write a node's row.
    async fn heartbeat(&self, record: &NodeRecord) -> Result<(), LogError>;

    /// Add a run and drop the oldest of its plugin.
    async fn add_run(&self, record: &RunRecord) -> Result<(), LogError>;

    /// All nodes.
    async fn nodes(&self) -> Result<Vec<NodeRecord>, LogError>;

    /// The newest runs, newest first.
    async fn runs(&self, limit: u32) -> Result<Vec<RunRecord>, LogError>;

    /// All leases.
    async fn leases(&self) -> Result<Vec<LeaseRecord>, LogError>;

    /// Remember that a node has diverged.
    async fn note_divergence(&self, record: &DivergenceRecord) -> Result<(), LogError>;

    /// Every node that has diverged.
    async fn divergences(&self) -> Result<Vec<DivergenceRecord>, LogError>;

    /// Forget that a node has diverged. Tells whether it had.
    async fn clear_divergence(&self, node: &str) -> Result<bool, LogError>;

    /// Whether what it reads may have been overtaken, so that it must be opened
    /// anew: a file that nobody had open when it was, and that has changed.
    fn overtaken(&self) -> bool {
        false
    }

    /// Close every connection.
    async fn close(&self);
}

/// Connect to the database that a URL names.
pub(crate) async fn connect(
    url: &MetaUrl,
    access: Access,
    options: &LogOptions,
    clock: &SharedClock,
) -> Result<Arc<dyn Store>, LogError> {
    Ok(match url.backend() {
        Backend::Sqlite => Arc::new(sqlite::Sqlite::connect(url, access, options, clock).await?),
        Backend::Postgres => {
            Arc::new(postgres::Postgres::connect(url, access, options, clock).await?)
        }
    })
}

/// An index as the database stores it.
pub(crate) fn to_column(index: u64) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

/// An index as the database stored it.
pub(crate) fn from_column(table: &'static str, value: i64) -> Result<u64, LogError> {
    u64::try_from(value).map_err(|_| LogError::Index { table, value })
}
