//! PostgreSQL: one connection that asks, and listens while it has nothing to ask.
//!
//! Behind a pooler that gives each transaction another server connection
//! (PgBouncer in transaction mode), neither a prepared statement nor a setting
//! of the session is there for the next request, and a setting that was made
//! stays for strangers. So a request is one message of plain statements: it
//! brings its own settings, is one transaction, and takes one round trip.

use std::str::FromStr as _;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgRow};
use sqlx::{Acquire as _, AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use super::literal::{Literal, filled};
use super::statements::{Dialect, Lease, Statements};
use super::{Connector, Session, StoreError, row, stored};
use crate::LeaseName;
use crate::protocol::{Request, Row};

/// Where releases are announced; the payload is the lease's name.
const CHANNEL: &str = "aedile_lease";

const DIALECT: Dialect = Dialect {
    now: "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
    greatest: "greatest",
    id: "BIGINT",
    integer: "BIGINT",
};

/// A PostgreSQL server.
pub(super) struct Postgres {
    options: PgConnectOptions,
    lease: Lease,
}

struct PostgresSession {
    listener: PgListener,
    /// What each request begins with: its transaction's settings.
    settings: String,
    statements: Statements,
    lease: Lease,
}

impl Postgres {
    pub(super) fn new(url: &str, lease: Lease) -> Result<Self, sqlx::Error> {
        let mut options = PgConnectOptions::from_str(url)?
            .disable_statement_logging()
            // A pooler may refuse it, and nothing here is a float.
            .extra_float_digits(None);
        if !url.contains("application_name") {
            options = options.application_name("aedile lease");
        }
        Ok(Self { options, lease })
    }

    /// A connection that can listen. It comes from a pool of one, which tries
    /// again for a while and then forgets why: the reason is asked for apart.
    async fn listener(&self) -> Result<PgListener, StoreError> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(self.lease.timeout / 2)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_lazy_with(self.options.clone());
        match PgListener::connect_with(&pool).await {
            Ok(listener) => Ok(listener),
            Err(sqlx::Error::PoolTimedOut) => match self.options.connect().await {
                Ok(connection) => {
                    connection.close().await.map_err(classify)?;
                    Err(StoreError::Lost("connecting took too long".to_owned()))
                }
                Err(error) => Err(classify(error)),
            },
            Err(error) => Err(classify(error)),
        }
    }
}

#[async_trait]
impl Connector for Postgres {
    async fn connect(&self) -> Result<Box<dyn Session>, StoreError> {
        let mut listener = self.listener().await?;
        listener.eager_reconnect(false);
        let limit = self.lease.timeout.as_millis();
        let settings = format!(
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; \
             SET LOCAL statement_timeout = {limit}; SET LOCAL lock_timeout = {limit}; "
        );
        let connection = listener.acquire().await.map_err(classify)?;
        let standby = "SELECT pg_is_in_recovery()";
        let standby = sqlx::raw_sql(standby).fetch_one(connection).await;
        if standby.and_then(|row| row.try_get(0)).map_err(classify)? {
            return Err(StoreError::WrongRole("the server is a standby".to_owned()));
        }
        listener.listen(CHANNEL).await.map_err(classify)?;
        let mut statements = Statements::new(&self.lease.name, &DIALECT);
        statements.read = statements.read.replace(
            " AS now_ms",
            " AS now_ms, current_setting('transaction_read_only') = 'on' AS read_only",
        );
        statements.release = format!(
            "WITH released AS ({}) SELECT *, pg_notify('{CHANNEL}', $4)::text FROM released",
            statements.release
        );
        Ok(Box::new(PostgresSession {
            listener,
            settings,
            statements,
            lease: self.lease.clone(),
        }))
    }
}

impl PostgresSession {
    /// A request with its settings, its parameters filled in: the lease's key is
    /// the first.
    fn request(&self, text: &str, parameters: &[Literal<'_>]) -> String {
        let key = match &self.lease.name {
            LeaseName::Shared => Literal::Integer(0),
            LeaseName::Named(name) => Literal::Text(name),
        };
        let all: Vec<Literal<'_>> = std::iter::once(key)
            .chain(parameters.iter().copied())
            .collect();
        format!("{}{}", self.settings, filled(text, &all))
    }

    async fn fetch(&mut self, request: String) -> Result<Option<PgRow>, StoreError> {
        let connection = self.listener.acquire().await.map_err(classify)?;
        sqlx::raw_sql(AssertSqlSafe(request))
            .fetch_optional(connection)
            .await
            .map_err(classify)
    }

    async fn change(
        &mut self,
        text: &str,
        parameters: &[Literal<'_>],
    ) -> Result<Option<Row>, StoreError> {
        let found = self.fetch(self.request(text, parameters)).await?;
        found.as_ref().map(decode).transpose().map_err(classify)
    }

    async fn read(&mut self) -> Result<Option<Row>, StoreError> {
        let request = self.request(&self.statements.read, &[]);
        let found = self.fetch(request).await?;
        let found = found.ok_or(StoreError::Missing)?;
        if found.try_get("read_only").map_err(classify)? {
            return Err(read_only());
        }
        Ok(Some(decode(&found).map_err(classify)?))
    }

    async fn seed(&mut self, epoch: u64) -> Result<Option<Row>, StoreError> {
        let seed = self.request(&self.statements.seed, &[Literal::Integer(stored(epoch))]);
        // Creating needs a right that using does not, even where there is
        // nothing to create: so the row is tried first.
        match self.fetch(seed.clone()).await {
            Ok(_) => {}
            Err(StoreError::Missing) => {
                self.fetch(self.request(&self.statements.create, &[]))
                    .await?;
                self.fetch(seed).await?;
            }
            Err(other) => return Err(other),
        }
        self.read().await
    }
}

#[async_trait]
impl Session for PostgresSession {
    async fn perform(&mut self, request: &Request) -> Result<Option<Row>, StoreError> {
        let lease = self.lease.clone();
        let holder = Literal::Text(&lease.holder);
        match request {
            Request::Read => self.read().await,
            Request::Acquire { .. } => {
                let Some(acquire) = lease.acquire(request) else {
                    return Ok(None);
                };
                let text = self.statements.acquire.clone();
                let parameters = [
                    Literal::Text(acquire.holder),
                    Literal::Integer(acquire.floor),
                    Literal::Integer(acquire.ttl_ms),
                    Literal::Text(acquire.seen_holder),
                    Literal::Integer(acquire.seen_epoch),
                    Literal::Integer(acquire.not_after_ms),
                    Literal::Flag(acquire.regardless),
                    acquire.unchanged.map_or(Literal::Null, Literal::Integer),
                ];
                self.change(&text, &parameters).await
            }
            Request::Renew { epoch } => {
                let text = self.statements.renew.clone();
                let epoch = Literal::Integer(stored(*epoch));
                let ttl = Literal::Integer(lease.ttl_ms);
                self.change(&text, &[holder, epoch, ttl]).await
            }
            Request::Release { epoch } => {
                let text = self.statements.release.clone();
                let epoch = Literal::Integer(stored(*epoch));
                let name = lease.name.to_string();
                self.change(&text, &[holder, epoch, Literal::Text(&name)])
                    .await
            }
            Request::Seed { epoch } => self.seed(*epoch).await,
        }
    }

    async fn announced(&mut self) -> Result<(), StoreError> {
        let name = self.lease.name.to_string();
        loop {
            match self.listener.try_recv().await.map_err(classify)? {
                Some(announced) if announced.payload() == name => return Ok(()),
                Some(_) => {}
                None => return Err(StoreError::Lost("the connection was closed".to_owned())),
            }
        }
    }
}

fn decode(found: &PgRow) -> Result<Row, sqlx::Error> {
    Ok(row(
        found.try_get(0)?,
        found.try_get(1)?,
        found.try_get(2)?,
        found.try_get(3)?,
    ))
}

fn read_only() -> StoreError {
    StoreError::WrongRole("transactions are read-only".to_owned())
}

fn classify(error: sqlx::Error) -> StoreError {
    let text = error.to_string();
    let code = error.as_database_error().and_then(|error| error.code());
    match code.as_deref() {
        Some("42P01") => StoreError::Missing,
        Some("25006") => read_only(),
        // Serialization, deadlock, lock and statement time limits, and another
        // session that creates the same table at the same moment.
        Some("40001" | "40P01" | "55P03" | "57014" | "23505" | "42P07" | "42710") => {
            StoreError::Busy(text)
        }
        _ => StoreError::Lost(text),
    }
}
