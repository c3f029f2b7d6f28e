//! What can go wrong with the log, and what the caller is to do about it.

use std::time::Duration;

use aedile_state::DecodeError;

/// An error of the log client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The URL does not name a database that this client knows.
    #[error("metadata URL {url:?}: {reason}")]
    Url {
        /// The URL, without its password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The database does not answer.
    #[error("the metadata database {url} cannot be reached: {reason}")]
    Unreachable {
        /// The URL, without its password.
        url: String,
        /// The database's or the network's own words.
        reason: String,
    },
    /// The database, the file or the role does not allow writing.
    #[error(
        "the metadata database {url} is read-only for this node: {reason}; \
         connect to the primary with a role that may write"
    )]
    ReadOnly {
        /// The URL, without its password.
        url: String,
        /// The database's own words.
        reason: String,
    },
    /// The file is no SQLite database.
    #[error("{url} is no SQLite database: {reason}")]
    NotADatabase {
        /// The URL.
        url: String,
        /// The database's own words.
        reason: String,
    },
    /// A table of one of our names has another form.
    #[error(
        "table {table} is not what it is in a PicoMQ or Aedile database: found {found}, \
         expected {expected}; is this the right database?"
    )]
    ForeignTable {
        /// The table.
        table: String,
        /// Its columns.
        found: String,
        /// The columns that it should have.
        expected: String,
    },
    /// A table is missing and was not to be created.
    #[error(
        "table {table} is missing: this is no metadata database, or no node has started on it yet"
    )]
    MissingTable {
        /// The table.
        table: String,
    },
    /// A row of the log cannot be decoded.
    #[error("row {index} of the log cannot be read: {source}")]
    Row {
        /// Its index.
        index: u64,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The snapshot cannot be decoded.
    #[error("the snapshot at index {index} cannot be read: {source}")]
    Snapshot {
        /// The index that it covers.
        index: u64,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// An index in the database is negative, or too great to be one.
    #[error("table {table} holds {value} where an index of the log should stand")]
    Index {
        /// The table.
        table: &'static str,
        /// What stands there.
        value: i64,
    },
    /// Rows are missing, and no snapshot covers them.
    #[error(
        "the log has a gap: row {expected} is missing, row {found} is there, and no snapshot covers it"
    )]
    Gap {
        /// The first missing index.
        expected: u64,
        /// The next index that is there.
        found: u64,
    },
    /// A proposal was given up: nothing of it stands in the log.
    #[error("nothing was appended to the log: {reason}")]
    NotAppended {
        /// The last obstacle.
        reason: String,
    },
    /// The client has stopped for good; its health says why.
    #[error("the log client has stopped: {0}")]
    Stopped(String),
    /// This node has diverged from the cluster and waits for the operator.
    #[error("{0}")]
    Diverged(String),
    /// The client was closed.
    #[error("the log client is closed")]
    Closed,
    /// An answer did not come in time.
    #[error("{what} took longer than {} ms", limit.as_millis())]
    Timeout {
        /// What was awaited.
        what: &'static str,
        /// How long it was awaited.
        limit: Duration,
    },
    /// A batch is larger than the log takes.
    #[error("a proposal of {count} commands is more than the {limit} that one takes")]
    TooMany {
        /// How many there were.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The database refused a statement.
    #[error("the metadata database {url} refused {what}: {reason}")]
    Database {
        /// The URL, without its password.
        url: String,
        /// What was asked of it.
        what: &'static str,
        /// Its own words.
        reason: String,
    },
}

/// What the caller is to do about a [`LogError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogErrorKind {
    /// Mend the configuration.
    Configuration,
    /// Wait, or mend network and database; trying again may help.
    Unavailable,
    /// Connect with a role, or to a server, that may write.
    ReadOnly,
    /// Look at what the database holds: trying again does not help.
    Content,
    /// The client has ended; make a new one.
    Ended,
}

impl LogError {
    /// What the caller is to do.
    pub fn kind(&self) -> LogErrorKind {
        match self {
            Self::Url { .. } | Self::TooMany { .. } => LogErrorKind::Configuration,
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::NotAppended { .. }
            | Self::Database { .. } => LogErrorKind::Unavailable,
            Self::ReadOnly { .. } => LogErrorKind::ReadOnly,
            Self::NotADatabase { .. }
            | Self::ForeignTable { .. }
            | Self::MissingTable { .. }
            | Self::Row { .. }
            | Self::Snapshot { .. }
            | Self::Index { .. }
            | Self::Diverged(_)
            | Self::Gap { .. } => LogErrorKind::Content,
            Self::Stopped(_) | Self::Closed => LogErrorKind::Ended,
        }
    }
}
