//! PostgreSQL: one connection that asks, and listens while it has nothing to ask.

use std::str::FromStr as _;

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgListener, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::{
    Acquire as _, AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _,
};

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
    statements: Statements,
    lease: Lease,
}

impl Postgres {
    pub(super) fn new(url: &str, lease: Lease) -> Result<Self, sqlx::Error> {
        let mut options = PgConnectOptions::from_str(url)?.disable_statement_logging();
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
        let setup = format!(
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED; \
             SET statement_timeout = {limit}; SET lock_timeout = {limit}; \
             SET idle_in_transaction_session_timeout = {limit}"
        );
        let connection = listener.acquire().await.map_err(classify)?;
        connection
            .execute(AssertSqlSafe(setup))
            .await
            .map_err(classify)?;
        let standby: bool = sqlx::query_scalar("SELECT pg_is_in_recovery()")
            .fetch_one(&mut *connection)
            .await
            .map_err(classify)?;
        if standby {
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
            statements,
            lease: self.lease.clone(),
        }))
    }
}

impl PostgresSession {
    fn query(&self, text: &str) -> Query<'static, sqlx::Postgres, PgArguments> {
        let query = sqlx::query(AssertSqlSafe(text.to_owned()));
        match &self.lease.name {
            LeaseName::Shared => query.bind(0_i64),
            LeaseName::Named(name) => query.bind(name.clone()),
        }
    }

    async fn fetch(
        &mut self,
        query: Query<'static, sqlx::Postgres, PgArguments>,
    ) -> Result<Option<PgRow>, StoreError> {
        let connection = self.listener.acquire().await.map_err(classify)?;
        query.fetch_optional(connection).await.map_err(classify)
    }

    async fn change(
        &mut self,
        query: Query<'static, sqlx::Postgres, PgArguments>,
    ) -> Result<Option<Row>, StoreError> {
        let found = self.fetch(query).await?;
        found.as_ref().map(decode).transpose().map_err(classify)
    }

    async fn read(&mut self) -> Result<Option<Row>, StoreError> {
        let found = self.fetch(self.query(&self.statements.read)).await?;
        let found = found.ok_or(StoreError::Missing)?;
        if found.try_get("read_only").map_err(classify)? {
            return Err(read_only());
        }
        Ok(Some(decode(&found).map_err(classify)?))
    }

    async fn seed(&mut self, epoch: u64) -> Result<Option<Row>, StoreError> {
        let create = self.statements.create.clone();
        let seed = self.query(&self.statements.seed).bind(stored(epoch));
        let connection = self.listener.acquire().await.map_err(classify)?;
        // Creating needs a right that using does not, even where there is
        // nothing to create: so the row is tried first.
        if let Err(error) = seed.execute(&mut *connection).await {
            match classify(error) {
                StoreError::Missing => {}
                other => return Err(other),
            }
            connection
                .execute(AssertSqlSafe(create))
                .await
                .map_err(classify)?;
            let seed = self.query(&self.statements.seed).bind(stored(epoch));
            self.change(seed).await?;
        }
        self.read().await
    }
}

#[async_trait]
impl Session for PostgresSession {
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
                self.change(query).await
            }
            Request::Renew { epoch } => {
                let query = self.query(&self.statements.renew);
                let query = query.bind(holder).bind(stored(*epoch));
                self.change(query.bind(self.lease.ttl_ms)).await
            }
            Request::Release { epoch } => {
                let query = self.query(&self.statements.release);
                let query = query.bind(holder).bind(stored(*epoch));
                self.change(query.bind(self.lease.name.to_string())).await
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
        Some("40001" | "40P01" | "55P03" | "57014" | "23505" | "42P07") => StoreError::Busy(text),
        _ => StoreError::Lost(text),
    }
}
