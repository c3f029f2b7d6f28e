//! The databases behind one small trait: a session carries out a request of the
//! protocol as conditional statements. A further database is one more module.

mod literal;
mod postgres;
mod sqlite;
mod statements;

use async_trait::async_trait;

use crate::protocol::{Reply, Request, Row};
use crate::url::{Database, mask};
use crate::{LeaseError, LeaseOptions};

/// Makes connections.
#[async_trait]
pub(crate) trait Connector: Send + Sync {
    /// A new connection. Whoever waits for it bounds the time.
    async fn connect(&self) -> Result<Box<dyn Session>, StoreError>;
}

/// One connection.
#[async_trait]
pub(crate) trait Session: Send {
    /// Carry out a request: the row as read or read back; `None` if its
    /// condition did not hold.
    async fn perform(&mut self, request: &Request) -> Result<Option<Row>, StoreError>;

    /// Wait until a release is announced. Dropping the wait loses nothing.
    async fn announced(&mut self) -> Result<(), StoreError>;
}

/// Why there is no row.
#[derive(Debug)]
pub(crate) enum StoreError {
    /// The row or its table does not exist.
    Missing,
    /// Another transaction was in the way and ours did not happen.
    Busy(String),
    /// The database takes no writes.
    WrongRole(String),
    /// Anything else: the connection is not to be used again.
    Lost(String),
}

impl StoreError {
    /// What the protocol is told, and whether the connection is still good.
    pub(crate) fn into_reply(self) -> (Reply, bool) {
        match self {
            Self::Missing => (Reply::Missing, true),
            Self::Busy(error) => (Reply::Busy(error), true),
            Self::WrongRole(detail) => (Reply::WrongRole(detail), true),
            Self::Lost(error) => (Reply::Failed(error), false),
        }
    }
}

/// The database that the options name.
pub(crate) fn connector(
    options: &LeaseOptions,
    holder: &str,
) -> Result<Box<dyn Connector>, LeaseError> {
    let lease = statements::Lease {
        name: options.name.clone(),
        holder: holder.to_owned(),
        ttl_ms: i64::try_from(options.ttl.as_millis()).unwrap_or(i64::MAX),
        timeout: options.attempt_limit(),
    };
    match Database::parse(&options.url)? {
        Database::Sqlite(path) => Ok(Box::new(sqlite::Sqlite::new(path, lease))),
        Database::Postgres(url) => match postgres::Postgres::new(&url, lease) {
            Ok(postgres) => Ok(Box::new(postgres)),
            Err(source) => Err(LeaseError::Driver {
                url: mask(&url),
                source,
            }),
        },
    }
}

/// An epoch as the database keeps it.
fn stored(epoch: u64) -> i64 {
    i64::try_from(epoch).unwrap_or(i64::MAX)
}

/// A row of four integers and a name, as every statement returns it.
fn row(holder: String, epoch: i64, expires_at_ms: i64, now_ms: i64) -> Row {
    Row {
        holder,
        epoch: u64::try_from(epoch).unwrap_or(0),
        expires_at_ms,
        now_ms,
    }
}
