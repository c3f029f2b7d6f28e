//! SQLite.

use std::sync::Arc;

use aedile_clock::{SharedClock, UnixMillis};
use async_trait::async_trait;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, Row as _};
use std::time::Duration;

use super::{Access, Append, AppendError, Fetch, Judged, Row, Store, Tip, judge, rows, to_column};
use crate::records::{LeaseRecord, NodeRecord, RUNS_KEPT, RunRecord};
use crate::schema::Table;
use crate::url::Backend;
use crate::{LogError, LogOptions, MetaUrl};

/// As PicoMQ opens it.
const BUSY: Duration = Duration::from_secs(5);

/// Now, in Unix milliseconds, read when the statement runs.
const NOW: &str = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";

/// A SQLite file.
pub(super) struct Sqlite {
    pool: SqlitePool,
    url: String,
}

impl Sqlite {
    pub(super) async fn connect(
        url: &MetaUrl,
        access: Access,
        options: &LogOptions,
        clock: &SharedClock,
    ) -> Result<Self, LogError> {
        let shown = url.to_string();
        let unreachable = |reason: String| LogError::Unreachable {
            url: shown.clone(),
            reason,
        };
        let path = url.path().unwrap_or_else(|| std::path::Path::new(""));
        if path.is_dir() {
            return Err(unreachable("it is a directory, not a file".to_owned()));
        }
        if let Some(parent) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            && !parent.is_dir()
        {
            return Err(unreachable(format!(
                "the directory {} is not there; create it first",
                parent.display()
            )));
        }
        if access == Access::Read && !path.is_file() {
            return Err(unreachable("there is no such file".to_owned()));
        }
        let mut connect = SqliteConnectOptions::new()
            .filename(path)
            .busy_timeout(BUSY);
        connect = match access {
            Access::Write => connect
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full),
            Access::Read => connect.read_only(true),
        };
        let pool = SqlitePoolOptions::new()
            .max_connections(4)
            .acquire_timeout(options.connect_timeout);
        let opened = clock
            .timeout(
                options.connect_timeout + BUSY,
                pool.clone().connect_with(connect.clone()),
            )
            .await
            .map_err(|elapsed| unreachable(elapsed.to_string()))?;
        let pool = match opened {
            Ok(pool) => pool,
            Err(error) if access == Access::Write => {
                return Err(judge(error, &shown, "opening it").into_error(&shown, "opening it"));
            }
            // A write-ahead log in a directory that this user may not write:
            // nobody else can be writing through it either.
            Err(_) => pool
                .connect_with(connect.immutable(true))
                .await
                .map_err(|error| unreachable(error.to_string()))?,
        };
        Ok(Self { pool, url: shown })
    }

    fn fail(&self, what: &'static str) -> impl FnOnce(sqlx::Error) -> LogError + '_ {
        move |error| judge(error, &self.url, what).into_error(&self.url, what)
    }
}

/// The insert lands only right behind its predecessor, which is a row or the
/// snapshot itself, and above the snapshot. It is one autocommit statement, so
/// all of it is evaluated under the write lock.
fn append_statement(rows: usize) -> String {
    let values: Vec<String> = (0..rows)
        .map(|row| format!("SELECT ?1 + {row} AS idx, ?{} AS payload", row + 2))
        .collect();
    format!(
        "INSERT INTO meta_log (idx, payload) \
         SELECT idx, payload FROM ({}) \
         WHERE NOT EXISTS (SELECT 1 FROM meta_snapshot WHERE id = 0 AND applied_idx >= ?1) \
         AND (EXISTS (SELECT 1 FROM meta_log WHERE idx = ?1 - 1) \
              OR EXISTS (SELECT 1 FROM meta_snapshot WHERE id = 0 AND applied_idx = ?1 - 1) \
              OR (?1 = 1 AND NOT EXISTS (SELECT 1 FROM meta_snapshot WHERE id = 0)))",
        values.join(" UNION ALL ")
    )
}

#[async_trait]
impl Store for Sqlite {
    async fn columns(&self, table: &Table) -> Result<Option<Vec<(String, String)>>, LogError> {
        let rows = sqlx::query("SELECT name, type FROM pragma_table_info(?1) ORDER BY cid")
            .bind(table.name)
            .fetch_all(&self.pool)
            .await
            .map_err(self.fail("its schema"))?;
        let columns = rows
            .iter()
            .map(|row| Ok((row.try_get("name")?, row.try_get("type")?)))
            .collect::<Result<Vec<(String, String)>, sqlx::Error>>()
            .map_err(self.fail("its schema"))?;
        Ok(Some(columns).filter(|columns| !columns.is_empty()))
    }

    async fn create(&self, table: &Table) -> Result<(), LogError> {
        sqlx::query(AssertSqlSafe(table.ddl(Backend::Sqlite)))
            .execute(&self.pool)
            .await
            .map_err(self.fail("creating a table"))?;
        if let Some(seed) = table.seed {
            sqlx::query(seed)
                .execute(&self.pool)
                .await
                .map_err(self.fail("seeding a table"))?;
        }
        Ok(())
    }

    async fn writable(&self) -> Result<(), LogError> {
        // Takes the write lock and lets it go: nothing is written.
        let mut connection = self
            .pool
            .acquire()
            .await
            .map_err(self.fail("a connection"))?;
        sqlx::raw_sql("BEGIN IMMEDIATE; ROLLBACK")
            .execute(&mut *connection)
            .await
            .map_err(self.fail("writing"))?;
        Ok(())
    }

    async fn tip(&self) -> Result<Tip, LogError> {
        let row: (Option<i64>, Option<i64>) = sqlx::query_as(
            "SELECT (SELECT MAX(idx) FROM meta_log), \
             (SELECT applied_idx FROM meta_snapshot WHERE id = 0)",
        )
        .fetch_one(&self.pool)
        .await
        .map_err(self.fail("reading the log's end"))?;
        rows::tip(row)
    }

    async fn fetch(&self, from: u64, limit: u32) -> Result<Fetch, LogError> {
        let found: Vec<rows::Fetched> = sqlx::query_as(
            "SELECT s.applied_idx, l.idx, l.payload \
             FROM (SELECT (SELECT applied_idx FROM meta_snapshot WHERE id = 0) AS applied_idx) s \
             LEFT JOIN (SELECT idx, payload FROM meta_log WHERE idx >= ?1 ORDER BY idx LIMIT ?2) l \
             ON 1 ORDER BY l.idx",
        )
        .bind(to_column(from))
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await
        .map_err(self.fail("reading the log"))?;
        rows::fetch(found)
    }

    async fn snapshot(&self) -> Result<Option<Row>, LogError> {
        let row: Option<(i64, Vec<u8>)> =
            sqlx::query_as("SELECT applied_idx, payload FROM meta_snapshot WHERE id = 0")
                .fetch_optional(&self.pool)
                .await
                .map_err(self.fail("reading the snapshot"))?;
        rows::snapshot(row)
    }

    async fn append(&self, first: u64, rows: &[Arc<[u8]>]) -> Result<Append, AppendError> {
        const WHAT: &str = "an append";
        let mut query =
            sqlx::query(AssertSqlSafe(append_statement(rows.len()))).bind(to_column(first));
        for row in rows {
            query = query.bind(row.to_vec());
        }
        match query.execute(&self.pool).await {
            Ok(done) if done.rows_affected() == rows.len() as u64 => Ok(Append::Landed),
            Ok(_) => Ok(Append::Conflict),
            Err(error) => match judge(error, &self.url, WHAT) {
                Judged::Taken => Ok(Append::Conflict),
                Judged::Refused(error) => Err(AppendError::Refused(error)),
                Judged::Unknown(error) => Err(AppendError::Unknown(error)),
            },
        }
    }

    async fn store_snapshot(
        &self,
        index: u64,
        payload: Vec<u8>,
        truncate: u64,
    ) -> Result<bool, LogError> {
        let stored = sqlx::query(
            "INSERT INTO meta_snapshot (id, applied_idx, payload) VALUES (0, ?1, ?2) \
             ON CONFLICT (id) DO UPDATE SET applied_idx = excluded.applied_idx, \
             payload = excluded.payload WHERE excluded.applied_idx > meta_snapshot.applied_idx",
        )
        .bind(to_column(index))
        .bind(payload)
        .execute(&self.pool)
        .await
        .map_err(self.fail("storing a snapshot"))?;
        if stored.rows_affected() == 0 {
            return Ok(false);
        }
        sqlx::query("DELETE FROM meta_log WHERE idx <= ?1")
            .bind(to_column(truncate))
            .execute(&self.pool)
            .await
            .map_err(self.fail("truncating the log"))?;
        Ok(true)
    }

    async fn now(&self) -> Result<UnixMillis, LogError> {
        let now: i64 = sqlx::query_scalar(AssertSqlSafe(format!("SELECT {NOW}")))
            .fetch_one(&self.pool)
            .await
            .map_err(self.fail("the time"))?;
        Ok(UnixMillis(now))
    }

    async fn heartbeat(&self, record: &NodeRecord) -> Result<(), LogError> {
        sqlx::query(AssertSqlSafe(format!(
            "INSERT INTO aedile_node (node, started_ms, seen_ms, version, applied_idx, status) \
             VALUES (?1, ?2, {NOW}, ?3, ?4, ?5) \
             ON CONFLICT (node) DO UPDATE SET started_ms = excluded.started_ms, \
             seen_ms = excluded.seen_ms, version = excluded.version, \
             applied_idx = excluded.applied_idx, status = excluded.status"
        )))
        .bind(&record.node)
        .bind(record.started.0)
        .bind(&record.version)
        .bind(to_column(record.applied_index))
        .bind(record.status.to_string())
        .execute(&self.pool)
        .await
        .map_err(self.fail("a heartbeat"))?;
        Ok(())
    }

    async fn add_run(&self, record: &RunRecord) -> Result<(), LogError> {
        sqlx::query(
            "INSERT INTO aedile_run (plugin, version, digest, node, epoch, started_ms, ended_ms, \
             outcome, summary, detail) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )
        .bind(&record.plugin)
        .bind(&record.version)
        .bind(&record.digest)
        .bind(&record.node)
        .bind(to_column(record.epoch))
        .bind(record.started.0)
        .bind(record.ended.0)
        .bind(&record.outcome)
        .bind(&record.summary)
        .bind(record.detail.to_string())
        .execute(&self.pool)
        .await
        .map_err(self.fail("a run record"))?;
        sqlx::query(
            "DELETE FROM aedile_run WHERE plugin = ?1 AND id <= \
             (SELECT id FROM aedile_run WHERE plugin = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )
        .bind(&record.plugin)
        .bind(i64::from(RUNS_KEPT))
        .execute(&self.pool)
        .await
        .map_err(self.fail("the run history"))?;
        Ok(())
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, LogError> {
        let found = sqlx::query(rows::NODES)
            .fetch_all(&self.pool)
            .await
            .map_err(self.fail("the nodes"))?;
        found
            .iter()
            .map(rows::node::<SqliteRow>)
            .collect::<Result<_, _>>()
            .map_err(self.fail("the nodes"))
    }

    async fn runs(&self, limit: u32) -> Result<Vec<RunRecord>, LogError> {
        let found = sqlx::query("SELECT * FROM aedile_run ORDER BY id DESC LIMIT ?1")
            .bind(i64::from(limit))
            .fetch_all(&self.pool)
            .await
            .map_err(self.fail("the run history"))?;
        found
            .iter()
            .map(rows::run::<SqliteRow>)
            .collect::<Result<_, _>>()
            .map_err(self.fail("the run history"))
    }

    async fn leases(&self) -> Result<Vec<LeaseRecord>, LogError> {
        let mut leases = Vec::new();
        for statement in rows::LEASES {
            let found = match sqlx::query(statement).fetch_all(&self.pool).await {
                Ok(found) => found,
                // The table may not be there yet.
                Err(sqlx::Error::Database(_)) => continue,
                Err(error) => return Err(self.fail("the leases")(error)),
            };
            for row in &found {
                leases.push(rows::lease::<SqliteRow>(row).map_err(self.fail("the leases"))?);
            }
        }
        Ok(leases)
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}
