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
