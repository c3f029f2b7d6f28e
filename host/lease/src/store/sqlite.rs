//! SQLite: readings take no lock that stops a writer, and write nothing.

use std::path::PathBuf;

use async_trait::async_trait;
use sqlx::query::Query;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _};

use super::statements::{Dialect, Lease, Statements};
use super::{Connector, Session, StoreError, row, stored};
use crate::LeaseName;
use crate::protocol::{Request, Row};

const DIALECT: Dialect = Dialect {
    now: "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
    greatest: "max",
    id: "INTEGER",
    integer: "INTEGER",
};

/// A SQLite file.
pub(super) struct Sqlite {
    options: SqliteConnectOptions,
    lease: Lease,
}

struct SqliteSession {
    connection: SqliteConnection,
    statements: Statements,
    lease: Lease,
}

impl Sqlite {
    pub(super) fn new(path: PathBuf, lease: Lease) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            // Shorter than an attempt, so that a busy file is told from a hang.
            .busy_timeout(lease.timeout * 4 / 5)
            .disable_statement_logging();
        Self { options, lease }
    }
}

#[async_trait]
impl Connector for Sqlite {
    async fn connect(&self) -> Result<Box<dyn Session>, StoreError> {
        let connection = self.options.connect().await.map_err(classify)?;
        let mut session = SqliteSession {
            connection,
            statements: Statements::new(&self.lease.name, &DIALECT),
            lease: self.lease.clone(),
        };
        // A reading does not show that a file takes no writes.
        match session.touch().await {
            Err(StoreError::WrongRole(detail)) => Err(StoreError::WrongRole(detail)),
            Err(StoreError::Lost(error)) => Err(StoreError::Lost(error)),
            _ => Ok(Box::new(session)),
        }
    }
}

impl SqliteSession {
    fn query(&self, text: &str) -> Query<'static, sqlx::Sqlite, SqliteArguments> {
        let query = sqlx::query(AssertSqlSafe(text.to_owned()));
        match &self.lease.name {
            LeaseName::Shared => query.bind(0_i64),
            LeaseName::Named(name) => query.bind(name.clone()),
        }
    }

    async fn touch(&mut self) -> Result<(), StoreError> {
        let query = self.query(&self.statements.touch);
        query
            .execute(&mut self.connection)
            .await
            .map_err(classify)?;
        Ok(())
    }

    async fn fetch(
        &mut self,
        query: Query<'static, sqlx::Sqlite, SqliteArguments>,
    ) -> Result<Option<Row>, StoreError> {
        let found = query
            .fetch_optional(&mut self.connection)
            .await
            .map_err(classify)?;
        found.as_ref().map(decode).transpose().map_err(classify)
    }

    async fn read(&mut self) -> Result<Option<Row>, StoreError> {
        let found = self.fetch(self.query(&self.statements.read)).await?;
        found.ok_or(StoreError::Missing).map(Some)
    }
}

#[async_trait]
impl Session for SqliteSession {
    async fn perform(&mut self, request: &Request) -> Result<Option<Row>, StoreError> {
        let holder = self.lease.holder.clone();
        match request {
            Request::Read => self.read().await,
            Request::Acquire { .. } => {
                let query = self.query(&self.statements.acquire);
                let Some(acquire) = self.lease.acquire(request) else {
                    return Ok(None);
                };
                let query = query
                    .bind(acquire.holder.to_owned())
                    .bind(acquire.floor)
                    .bind(acquire.ttl_ms)
                    .bind(acquire.seen_holder.to_owned())
                    .bind(acquire.seen_epoch)
                    .bind(acquire.not_after_ms)
                    .bind(acquire.regardless)
                    .bind(acquire.unchanged);
                self.fetch(query).await
            }
            Request::Renew { epoch } => {
                let query = self.query(&self.statements.renew);
                let query = query.bind(holder).bind(stored(*epoch));
                self.fetch(query.bind(self.lease.ttl_ms)).await
            }
            Request::Release { epoch } => {
                let query = self.query(&self.statements.release);
                self.fetch(query.bind(holder).bind(stored(*epoch))).await
            }
            Request::Seed { epoch } => {
                let create = sqlx::query(AssertSqlSafe(self.statements.create.clone()));
                create
                    .execute(&mut self.connection)
                    .await
                    .map_err(classify)?;
                let seed = self.query(&self.statements.seed).bind(stored(*epoch));
                seed.execute(&mut self.connection).await.map_err(classify)?;
                self.read().await
            }
        }
    }

    async fn announced(&mut self) -> Result<(), StoreError> {
        // A file announces nothing.
        std::future::pending().await
    }
}

fn decode(found: &SqliteRow) -> Result<Row, sqlx::Error> {
    Ok(row(
        found.try_get(0)?,
        found.try_get(1)?,
        found.try_get(2)?,
        found.try_get(3)?,
    ))
}

/// Result codes, the extended ones reduced to their primary part.
fn classify(error: sqlx::Error) -> StoreError {
    let text = error.to_string();
    let code = error
        .as_database_error()
        .and_then(|error| error.code())
        .and_then(|code| code.parse::<i32>().ok())
        .map(|code| code & 0xff);
    match code {
        Some(5 | 6) => StoreError::Busy(text),
        Some(8) => StoreError::WrongRole("the file takes no writes".to_owned()),
        Some(1) if text.contains("no such table") => StoreError::Missing,
        _ => StoreError::Lost(text),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use crate::protocol::Claim;

    fn file(directory: &TempDir, holder: &str) -> Sqlite {
        let lease = Lease {
            name: LeaseName::Shared,
            holder: holder.to_owned(),
            ttl_ms: 10_000,
            timeout: Duration::from_secs(2),
        };
        Sqlite::new(directory.path().join("meta.db"), lease)
    }

    fn acquire(seen: &Row, claim: Claim, floor: u64, not_after_ms: i64) -> Request {
        Request::Acquire {
            seen: seen.clone(),
            claim,
            floor,
            not_after_ms,
        }
    }

    #[tokio::test]
    async fn an_acquisition_needs_the_row_as_it_was_seen_and_its_own_time() {
        let directory = TempDir::new().expect("a directory");
        let mut session = file(&directory, "me").connect().await.expect("a session");
        assert!(matches!(
            session.perform(&Request::Read).await,
            Err(StoreError::Missing)
        ));
        let seed = Request::Seed { epoch: 4 };
        let free = session
            .perform(&seed)
            .await
            .expect("seeded")
            .expect("a row");
        assert_eq!((free.epoch, free.expires_at_ms), (4, 0));
        let (now, soon) = (free.now_ms, free.now_ms + 60_000);

        let mut ask = async |request: Request| session.perform(&request).await.expect("an answer");
        let late = acquire(&free, Claim::Lapsed, 0, now - 1);
        assert_eq!(ask(late).await, None, "its time is over");
        let mut other = free.clone();
        other.epoch = 3;
        let stale = acquire(&other, Claim::Lapsed, 0, soon);
        assert_eq!(ask(stale).await, None, "another epoch");
        other = free.clone();
        other.holder = "x".to_owned();
        let stale = acquire(&other, Claim::Lapsed, 0, soon);
        assert_eq!(ask(stale).await, None, "another holder");

        let won = ask(acquire(&free, Claim::Lapsed, 7, soon)).await;
        let won = won.expect("it is free");
        assert_eq!(
            (won.holder.as_str(), won.epoch),
            ("me", 8),
            "above the floor"
        );
        assert_eq!(won.expires_at_ms - won.now_ms, 10_000);

        let held = acquire(&won, Claim::Lapsed, 0, soon);
        assert_eq!(ask(held).await, None, "it has not lapsed");
        let mut renewed = won.clone();
        renewed.expires_at_ms -= 1;
        let changed = acquire(&renewed, Claim::Unchanged, 0, soon);
        assert_eq!(ask(changed).await, None, "it was renewed meanwhile");
        let unchanged = ask(acquire(&won, Claim::Unchanged, 0, soon)).await;
        assert_eq!(unchanged.expect("unchanged").epoch, 9);

        assert_eq!(ask(Request::Renew { epoch: 8 }).await, None);
        assert_eq!(ask(Request::Release { epoch: 8 }).await, None);
        let released = ask(Request::Release { epoch: 9 }).await.expect("ours");
        assert_eq!((released.epoch, released.expires_at_ms), (9, 0));
        let late = ask(Request::Renew { epoch: 9 }).await;
        assert_eq!(
            late, None,
            "a renewal does not bring back what was released"
        );
    }

    #[tokio::test]
    async fn a_file_that_takes_no_writes_has_the_wrong_role() {
        let directory = TempDir::new().expect("a directory");
        let mut made = file(&directory, "me").connect().await.expect("a session");
        made.perform(&Request::Seed { epoch: 0 })
            .await
            .expect("seeded");
        let mut sqlite = file(&directory, "me");
        sqlite.options = sqlite.options.read_only(true);
        let refused = sqlite.connect().await.err().expect("refused");
        assert!(matches!(refused, StoreError::WrongRole(_)), "{refused:?}");
    }
}
