//! A few connections of one client, each lent to one statement at a time.
//!
//! The driver's own pool asks each connection whether it is alive before and
//! after every use: two more round trips a statement, and one that hangs holds
//! its place for ever. Here a connection whose statement failed on the way, ran
//! out of time or was abandoned is simply dropped.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aedile_clock::{Elapsed, SharedClock};
use sqlx::{Connection, Database};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::LogError;

/// Connections at most: one for the tailer, one for the proposer, two for the
/// rest.
const CONNECTIONS: usize = 4;

/// How long a connection may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

/// How soon a busy file is asked again.
const BUSY_AGAIN: Duration = Duration::from_millis(10);

type OptionsOf<D> = <<D as Database>::Connection as Connection>::Options;

/// The connections.
pub(super) struct Connections<D: Database> {
    options: OptionsOf<D>,
    idle: Mutex<Vec<D::Connection>>,
    permits: Semaphore,
    clock: SharedClock,
    /// How long to wait for a connection.
    limit: Duration,
    url: String,
}

/// A connection that one statement has. Dropped before it is settled, it is
/// closed.
pub(super) struct Lent<'a, D: Database> {
    connection: D::Connection,
    /// Whether it was used before and may have died since.
    pub(super) used: bool,
    home: &'a Connections<D>,
    _permit: SemaphorePermit<'a>,
}

impl<D: Database> Connections<D> {
    pub(super) fn new(
        options: OptionsOf<D>,
        clock: &SharedClock,
        limit: Duration,
        url: &str,
    ) -> Self {
        Self {
            options,
            idle: Mutex::default(),
            permits: Semaphore::new(CONNECTIONS),
            clock: clock.clone(),
            limit,
            url: url.to_owned(),
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<D::Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lend one, connecting if none is idle. An error means that nothing was
    /// sent.
    pub(super) async fn lend(&self) -> Result<Lent<'_, D>, LogError> {
        let permit = match self.clock.timeout(self.limit, self.permits.acquire()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(LogError::Closed),
            Err(elapsed) => {
                return Err(self.unreachable(&format!("every connection is busy: {elapsed}")));
            }
        };
        let idle = self.idle().pop();
        let used = idle.is_some();
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(Lent {
            connection,
            used,
            home: self,
            _permit: permit,
        })
    }

    /// A new connection. While another client makes a new SQLite file one with a
    /// write-ahead log, SQLite answers at once that it is busy, whatever its busy
    /// timeout; the file is asked again.
    async fn connect(&self) -> Result<D::Connection, LogError> {
        let mut busy = None;
        let connect = async {
            loop {
                match D::Connection::connect_with(&self.options).await {
                    Err(sqlx::Error::Database(error)) if super::fault::is_busy(&*error) => {
                        busy = Some(error);
                        self.clock.sleep(BUSY_AGAIN).await;
                    }
                    other => break other,
                }
            }
        };
        match (self.clock.timeout(self.limit, connect).await, busy) {
            (Ok(Ok(connection)), _) => Ok(connection),
            (Ok(Err(error)), _) => Err(self.no_connection(error)),
            (Err(_), Some(busy)) => Err(self.no_connection(sqlx::Error::Database(busy))),
            (Err(elapsed), None) => Err(self.unreachable(&elapsed.to_string())),
        }
    }

    fn unreachable(&self, reason: &str) -> LogError {
        LogError::Unreachable {
            url: self.url.clone(),
            reason: reason.to_owned(),
        }
    }

    fn no_connection(&self, error: sqlx::Error) -> LogError {
        match error {
            // The database's words, without the driver's frame.
            sqlx::Error::Database(error) => super::fault::judge_connect(&*error, &self.url),
            other => self.unreachable(&other.to_string()),
        }
    }

    /// Run a statement for at most so long.
    pub(super) async fn bound<T>(
        &self,
        limit: Duration,
        statement: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, sqlx::Error> {
        match self.clock.timeout(limit, statement).await {
            Ok(answer) => answer,
            Err(elapsed) => Err(silent(elapsed)),
        }
    }

    /// Close what is idle; what is lent closes when it comes back.
    pub(super) async fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle());
        for connection in idle {
            match self.clock.timeout(GOODBYE, connection.close()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a connection did not close well"),
                Err(elapsed) => tracing::debug!(%elapsed, "a connection did not close"),
            }
        }
    }
}

/// A statement that gave no answer: whether it had an effect is not known.
fn silent(elapsed: Elapsed) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(
        std::io::ErrorKind::TimedOut,
        elapsed.to_string(),
    ))
}

impl<D: Database> Lent<'_, D> {
    /// Nothing was asked of it.
    pub(super) fn give_back(self) {
        self.home.idle().push(self.connection);
    }

    /// The statement has ended: keep the connection if it is good.
    pub(super) fn settle<T>(self, answer: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        let good = match &answer {
            Ok(_) => true,
            Err(sqlx::Error::Database(error)) => !super::fault::ends_connection(&**error),
            Err(sqlx::Error::RowNotFound | sqlx::Error::ColumnDecode { .. }) => true,
            Err(_) => false,
        };
        if good && !self.home.permits.is_closed() {
            self.home.idle().push(self.connection);
        } else if !good {
            // What broke one has likely broken those that lie idle.
            self.home.idle().clear();
        }
        answer
    }
}

impl<D: Database> Deref for Lent<'_, D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        &self.connection
    }
}

impl<D: Database> DerefMut for Lent<'_, D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        &mut self.connection
    }
}

/// Send a statement once, on a lent connection.
macro_rules! send {
    ($store:expr, $limit:expr, |$connection:ident| $statement:expr) => {{
        let mut lent = $store.connections.lend().await?;
        let $connection = &mut *lent;
        let answer = $store.connections.bound($limit, $statement).await;
        lent.settle(answer)
    }};
}

/// Ask something that may be asked twice: if a connection had died while it lay
/// idle, a new one is asked.
macro_rules! ask {
    ($store:expr, $limit:expr, |$connection:ident| $statement:expr) => {
        loop {
            let mut lent = $store.connections.lend().await?;
            let used = lent.used;
            let $connection = &mut *lent;
            let answer = $store.connections.bound($limit, $statement).await;
            match lent.settle(answer) {
                Err(sqlx::Error::Io(error))
                    if used && error.kind() != std::io::ErrorKind::TimedOut => {}
                other => break other,
            }
        }
    };
}

pub(super) use {ask, send};
