//! The baseline of an append: a client that waits until its row is applied
//! before it sends the next.
//!
//! Like PicoMQ's: whoever proposes puts a command into a queue; one task takes
//! up to 256 of them, inserts a row behind the last, reads it back, applies it,
//! publishes the state and answers. It has this database to itself and checks
//! nothing.

use std::sync::Arc;

use aedile_state::{Command, Outcome, State, codec};
use anyhow::Context as _;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{PgPool, SqlitePool};
use tokio::sync::{mpsc, oneshot, watch};

/// Commands in a row, as PicoMQ packs them.
const BATCH: usize = 256;

enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

type Proposal = (Command, oneshot::Sender<Outcome>);

/// A client that waits.
pub(crate) struct Waiting {
    queue: mpsc::Sender<Proposal>,
    task: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Waiting {
    /// Open the database, as large a pool as PicoMQ has, with every connection
    /// made; create the table; start the task.
    pub(crate) async fn open(url: &str) -> anyhow::Result<Self> {
        let create = |binary| {
            format!("CREATE TABLE meta_log (idx BIGINT PRIMARY KEY, payload {binary} NOT NULL)")
        };
        let pool = if let Some(path) = url.strip_prefix("sqlite:") {
            let options = SqliteConnectOptions::new()
                .filename(path)
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full);
            let pool = SqlitePoolOptions::new()
                .min_connections(4)
                .max_connections(4)
                .connect_with(options)
                .await?;
            let create = "CREATE TABLE meta_log (idx INTEGER PRIMARY KEY, payload BLOB NOT NULL)";
            sqlx::query(create).execute(&pool).await?;
            Pool::Sqlite(pool)
        } else {
            let pool = PgPoolOptions::new()
                .min_connections(8)
                .max_connections(8)
                .connect(url)
                .await?;
            sqlx::query(sqlx::AssertSqlSafe(create("BYTEA")))
                .execute(&pool)
                .await?;
            Pool::Postgres(pool)
        };
        let (queue, queued) = mpsc::channel(4096);
        let task = tokio::spawn(flush(pool, queued));
        Ok(Self { queue, task })
    }

    /// A handle for one proposer.
    pub(crate) fn proposer(&self) -> Proposer {
        Proposer(self.queue.clone())
    }

    /// End the task and close the pool.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        drop(self.queue);
        self.task.await?
    }
}

/// Proposes.
#[derive(Clone)]
pub(crate) struct Proposer(mpsc::Sender<Proposal>);

impl Proposer {
    /// Append a command and wait for its answer.
    pub(crate) async fn propose(&self, command: Command) -> anyhow::Result<Outcome> {
        let (reply, answer) = oneshot::channel();
        let sent = self.0.send((command, reply)).await;
        sent.ok().context("the client has ended")?;
        Ok(answer.await?)
    }
}

async fn flush(pool: Pool, mut queued: mpsc::Receiver<Proposal>) -> anyhow::Result<()> {
    let mut state = State::new();
    let views = watch::Sender::new(Arc::new(state.clone()));
    let mut index = 0_i64;
    while let Some(first) = queued.recv().await {
        let (mut commands, mut waiters) = (vec![first.0], vec![first.1]);
        while commands.len() < BATCH
            && let Ok((command, waiter)) = queued.try_recv()
        {
            commands.push(command);
            waiters.push(waiter);
        }
        index += 1;
        let payload = codec::encode_batch(&commands);
        let row = match &pool {
            Pool::Sqlite(pool) => {
                sqlx::query("INSERT INTO meta_log (idx, payload) VALUES (?1, ?2)")
                    .bind(index)
                    .bind(payload)
                    .execute(pool)
                    .await?;
                sqlx::query_scalar::<_, Vec<u8>>("SELECT payload FROM meta_log WHERE idx >= ?1")
                    .bind(index)
                    .fetch_one(pool)
                    .await?
            }
            Pool::Postgres(pool) => {
                sqlx::query("INSERT INTO meta_log (idx, payload) VALUES ($1, $2)")
                    .bind(index)
                    .bind(payload)
                    .execute(pool)
                    .await?;
                sqlx::query_scalar::<_, Vec<u8>>("SELECT payload FROM meta_log WHERE idx >= $1")
                    .bind(index)
                    .fetch_one(pool)
                    .await?
            }
        };
        let outcomes: Vec<Outcome> = codec::decode_batch(&row)?
            .iter()
            .map(|command| state.apply(command))
            .collect();
        views.send_replace(Arc::new(state.clone()));
        for (waiter, outcome) in waiters.into_iter().zip(outcomes) {
            // Whoever went away needs no answer.
            let _ = waiter.send(outcome);
        }
    }
    match pool {
        Pool::Sqlite(pool) => pool.close().await,
        Pool::Postgres(pool) => pool.close().await,
    }
    Ok(())
}
