//! A plain connection, as a node of another make has it: each statement its
//! own transaction, in the forms that PicoMQ uses.

use std::str::FromStr;

use aedile_state::{Command, Outcome, State, codec};
use sqlx::error::UnexpectedNullError;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, SqliteConnection};

/// A plain connection.
#[derive(Debug)]
pub enum Raw {
    /// To a SQLite file, which is made if it is missing.
    Sqlite(SqliteConnection),
    /// To a PostgreSQL database.
    Postgres(PgConnection),
}

/// Run one body on whichever connection it is.
macro_rules! either {
    ($raw:expr, $connection:ident => $body:expr) => {
        match $raw {
            Raw::Sqlite($connection) => $body,
            Raw::Postgres($connection) => $body,
        }
    };
}

/// Refuse a NULL. Asked for a plain value, SQLite's driver hands it out as 0 or
/// as an empty text, where PostgreSQL's fails.
fn whole<T>(column: Vec<Option<T>>) -> Result<Vec<T>, sqlx::Error> {
    column
        .into_iter()
        .map(|value| value.ok_or_else(|| sqlx::Error::Decode(UnexpectedNullError.into())))
        .collect()
}

/// PicoMQ's tables and its seeded lease row.
const SQLITE_TABLES: &str = "\
    CREATE TABLE IF NOT EXISTS meta_log (idx INTEGER PRIMARY KEY, payload BLOB NOT NULL); \
    CREATE TABLE IF NOT EXISTS meta_snapshot (id INTEGER PRIMARY KEY, \
      applied_idx INTEGER NOT NULL, payload BLOB NOT NULL); \
    CREATE TABLE IF NOT EXISTS meta_lease (id INTEGER PRIMARY KEY, holder TEXT NOT NULL, \
      epoch INTEGER NOT NULL, expires_at_ms INTEGER NOT NULL); \
    INSERT INTO meta_lease (id, holder, epoch, expires_at_ms) VALUES (0, '', 0, 0) \
      ON CONFLICT (id) DO NOTHING";
const POSTGRES_TABLES: &str = "\
    CREATE TABLE IF NOT EXISTS meta_log (idx BIGINT PRIMARY KEY, payload BYTEA NOT NULL); \
    CREATE TABLE IF NOT EXISTS meta_snapshot (id BIGINT PRIMARY KEY, \
      applied_idx BIGINT NOT NULL, payload BYTEA NOT NULL); \
    CREATE TABLE IF NOT EXISTS meta_lease (id BIGINT PRIMARY KEY, holder TEXT NOT NULL, \
      epoch BIGINT NOT NULL, expires_at_ms BIGINT NOT NULL); \
    INSERT INTO meta_lease (id, holder, epoch, expires_at_ms) VALUES (0, '', 0, 0) \
      ON CONFLICT (id) DO NOTHING";

impl Raw {
    /// Connect by a URL of `--meta-url`'s form.
    ///
    /// # Errors
    /// It cannot be had.
    pub async fn connect(url: &str) -> Result<Self, sqlx::Error> {
        if url.starts_with("sqlite:") {
            let options = SqliteConnectOptions::from_str(url)?
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal);
            return Ok(Self::Sqlite(options.connect().await?));
        }
        // A pooler refuses what it does not know.
        let options = PgConnectOptions::from_str(url)?.extra_float_digits(None);
        Ok(Self::Postgres(options.connect().await?))
    }

    /// Make PicoMQ's tables, as its node does when it starts.
    ///
    /// # Errors
    /// Those of the database; as for all that follow.
    pub async fn make_tables(&mut self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(_) => self.run(SQLITE_TABLES).await,
            Self::Postgres(_) => self.run(POSTGRES_TABLES).await,
        }
    }

    /// Run statements as they are.
    pub async fn run(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        either!(self, connection => {
            sqlx::raw_sql(sql).execute(connection).await?;
            Ok(())
        })
    }

    /// The first column of every row, as integers; a NULL is an error.
    pub async fn integers(&mut self, sql: &str) -> Result<Vec<i64>, sqlx::Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        whole(either!(self, connection => sqlx::query_scalar(sql).fetch_all(connection).await)?)
    }

    /// The first column of every row, as texts; a NULL is an error.
    pub async fn texts(&mut self, sql: &str) -> Result<Vec<String>, sqlx::Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        whole(either!(self, connection => sqlx::query_scalar(sql).fetch_all(connection).await)?)
    }

    /// PicoMQ's append: a plain insert. False if the index is taken.
    pub async fn append(&mut self, index: i64, payload: &[u8]) -> Result<bool, sqlx::Error> {
        const SQL: &str = "INSERT INTO meta_log (idx, payload) VALUES ($1, $2)";
        let done = either!(self, connection => sqlx::query(SQL)
            .bind(index)
            .bind(payload)
            .execute(connection)
            .await
            .map(drop));
        match done {
            Ok(()) => Ok(true),
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Append commands right behind the end; where they stand.
    pub async fn append_next(&mut self, commands: &[Command]) -> Result<i64, sqlx::Error> {
        let payload = codec::encode_batch(commands);
        loop {
            let index = self.last().await? + 1;
            if self.append(index, &payload).await? {
                return Ok(index);
            }
        }
    }

    /// The last index that is taken.
    pub async fn last(&mut self) -> Result<i64, sqlx::Error> {
        let found = self
            .integers(
                "SELECT coalesce(max(i), 0) FROM (SELECT max(idx) AS i FROM meta_log \
                 UNION ALL SELECT max(applied_idx) FROM meta_snapshot) AS ends",
            )
            .await?;
        Ok(found.first().copied().unwrap_or(0))
    }

    /// Index of the snapshot; 0 if there is none.
    pub async fn snapshot_index(&mut self) -> Result<i64, sqlx::Error> {
        let found = self
            .integers("SELECT applied_idx FROM meta_snapshot WHERE id = 0")
            .await?;
        Ok(found.first().copied().unwrap_or(0))
    }

    /// PicoMQ's snapshot: stored if it is newer. Whether it was.
    pub async fn store_snapshot(
        &mut self,
        index: i64,
        payload: &[u8],
    ) -> Result<bool, sqlx::Error> {
        const SQL: &str = "INSERT INTO meta_snapshot (id, applied_idx, payload) VALUES (0, $1, $2) \
             ON CONFLICT (id) DO UPDATE SET applied_idx = excluded.applied_idx, \
             payload = excluded.payload WHERE meta_snapshot.applied_idx < excluded.applied_idx";
        either!(self, connection => {
            let done = sqlx::query(SQL).bind(index).bind(payload).execute(connection).await?;
            Ok(done.rows_affected() > 0)
        })
    }

    /// PicoMQ's truncation: every row up to the index.
    pub async fn truncate(&mut self, index: i64) -> Result<(), sqlx::Error> {
        self.run(&format!("DELETE FROM meta_log WHERE idx <= {index}"))
            .await
    }

    /// The rows behind an index, whatever the snapshot.
    pub async fn rows_after(&mut self, index: i64) -> Result<Vec<(i64, Vec<u8>)>, sqlx::Error> {
        const SQL: &str = "SELECT idx, payload FROM meta_log WHERE idx > $1 ORDER BY idx";
        either!(self, connection => sqlx::query_as(SQL).bind(index).fetch_all(connection).await)
    }

    /// The snapshot and the rows behind it, read in one statement.
    pub async fn read(&mut self) -> Result<Replay, sqlx::Error> {
        const SQL: &str = "SELECT applied_idx, payload, 0 FROM meta_snapshot WHERE id = 0 \
             UNION ALL SELECT idx, payload, 1 FROM meta_log \
             WHERE idx > coalesce((SELECT applied_idx FROM meta_snapshot WHERE id = 0), 0) \
             ORDER BY 3, 1";
        let found: Vec<(i64, Vec<u8>, i32)> =
            either!(self, connection => sqlx::query_as(SQL).fetch_all(connection).await?);
        let mut replay = Replay::default();
        for (index, payload, kind) in found {
            match kind {
                0 => replay.snapshot = Some((index, payload)),
                _ => replay.rows.push((index, payload)),
            }
        }
        Ok(replay)
    }

    /// Close it.
    pub async fn close(self) -> Result<(), sqlx::Error> {
        either!(self, connection => connection.close().await)
    }
}

/// What the commands of each row answered, by the row's index.
pub type Answers = Vec<(i64, Vec<(Command, Outcome)>)>;

/// What a database holds at one instant.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// The snapshot and its index.
    pub snapshot: Option<(i64, Vec<u8>)>,
    /// The rows behind it.
    pub rows: Vec<(i64, Vec<u8>)>,
}

impl Replay {
    /// The last index.
    pub fn last(&self) -> i64 {
        let snapshot = self.snapshot.as_ref().map_or(0, |(index, _)| *index);
        self.rows.last().map_or(snapshot, |(index, _)| *index)
    }

    /// The first index that is missing, if rows behind it are there.
    pub fn hole(&self) -> Option<i64> {
        let first = self.snapshot.as_ref().map_or(0, |(index, _)| *index) + 1;
        self.rows
            .iter()
            .zip(first..)
            .find(|((found, _), expected)| found != expected)
            .map(|(_, expected)| expected)
    }

    /// The state that a new node makes of it, and what each row's commands
    /// answered: with nothing of the client under test.
    ///
    /// # Panics
    /// A row or the snapshot cannot be decoded, or a row is missing.
    pub fn state(&self) -> (State, Answers) {
        assert_eq!(self.hole(), None, "a row is missing");
        let mut state = match &self.snapshot {
            Some((_, payload)) => State::decode_snapshot(payload).expect("a snapshot"),
            None => State::new(),
        };
        let mut answers = Vec::with_capacity(self.rows.len());
        for (index, payload) in &self.rows {
            let commands = codec::decode_batch(payload).expect("a row");
            let outcomes = commands
                .into_iter()
                .map(|command| {
                    let outcome = state.apply(&command);
                    (command, outcome)
                })
                .collect();
            answers.push((*index, outcomes));
        }
        (state, answers)
    }
}

#[cfg(test)]
mod tests {
    use crate::databases::{Database, Kind};

    crate::for_each_database!(a_null_is_an_error);

    async fn a_null_is_an_error(kind: Kind) {
        let database = Database::create(kind).await.expect("a database");
        let mut raw = database.raw().await.expect("a connection");
        raw.make_tables().await.expect("tables");
        raw.integers("SELECT min(idx) FROM meta_log")
            .await
            .expect_err("no row, no least index");
        raw.texts("SELECT min(holder) FROM meta_lease WHERE id = 1")
            .await
            .expect_err("no row, no holder");
    }
}
