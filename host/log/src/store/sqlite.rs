//! SQLite.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aedile_clock::{SharedClock, UnixMillis};
use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Row as _};

use super::connections::{Connections, ask, send};
use super::{
    Access, Append, AppendError, Fetch, Judged, Limits, Row, Store, Tip, judge, rows, to_column,
};
use crate::records::{DivergenceRecord, LeaseRecord, NodeRecord, RUNS_KEPT, RunRecord};
use crate::schema::Table;
use crate::url::Backend;
use crate::{Fence, LogError, LogOptions, MetaUrl};

/// As PicoMQ opens it.
const BUSY: Duration = Duration::from_secs(5);

/// Now, in Unix milliseconds, read when the statement runs.
const NOW: &str = "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)";

/// A SQLite file.
pub(super) struct Sqlite {
    connections: Connections<sqlx::Sqlite>,
    limits: Limits,
    url: String,
    still: Option<Still>,
}

/// A file that no other process had open when it was opened. SQLite would make
/// files beside it even to read it; opened as immutable it does not, but then
/// takes no notice of a writer that comes later.
struct Still {
    path: PathBuf,
    mark: Mark,
}

/// What changes when somebody writes to a file.
#[derive(Debug, PartialEq, Eq)]
struct Mark {
    bytes: u64,
    modified: Option<SystemTime>,
    /// Whether SQLite keeps a file beside it: somebody has it open, or had.
    companions: bool,
}

impl Mark {
    fn of(path: &Path) -> io::Result<Self> {
        let file = std::fs::metadata(path)?;
        Ok(Self {
            bytes: file.len(),
            modified: file.modified().ok(),
            companions: ["-wal", "-shm", "-journal"]
                .iter()
                .any(|suffix| beside(path, suffix).exists()),
        })
    }
}

/// The file that SQLite keeps beside another.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

impl Still {
    /// The file, if it needs no other to be read.
    fn find(path: &Path) -> io::Result<Option<Self>> {
        let mark = Mark::of(path)?;
        Ok((!mark.companions).then(|| Self {
            path: path.to_owned(),
            mark,
        }))
    }
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
        let path = url.path().unwrap_or_else(|| Path::new(""));
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
        let mut connect = SqliteConnectOptions::new()
            .filename(path)
            .busy_timeout(BUSY);
        let mut still = None;
        connect = match access {
            Access::Write => connect
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full),
            Access::Read => {
                still = Still::find(path).map_err(|error| unreachable(error.to_string()))?;
                connect.read_only(true).immutable(still.is_some())
            }
        };
        let mut limits = Limits::of(options);
        for limit in [&mut limits.small, &mut limits.append, &mut limits.fetch] {
            *limit += BUSY;
        }
        let limit = options.connect_timeout + BUSY;
        let sqlite = Self {
            connections: Connections::new(connect, clock, limit, &shown),
            limits,
            url: shown.clone(),
            still,
        };
        // The first look tells whether it is a database at all.
        let looked = async {
            ask!(sqlite, sqlite.limits.small, |connection| {
                sqlx::query("SELECT 1 FROM sqlite_master LIMIT 1").fetch_optional(connection)
            })
            .map_err(sqlite.fail("opening it"))
        };
        match looked.await {
            Ok(_) => Ok(sqlite),
            Err(LogError::ReadOnly { reason, .. }) if access == Access::Read => {
                Err(unreachable(reason))
            }
            Err(error) => Err(error),
        }
    }

    fn fail(&self, what: &'static str) -> impl FnOnce(sqlx::Error) -> LogError + '_ {
        move |error| judge(error, &self.url, what).into_error(&self.url, what)
    }
}

/// The insert lands only right behind its predecessor, which is a row or the
/// snapshot itself, and above the snapshot. It is one autocommit statement, so
/// all of it is evaluated under the write lock, that of a fence too. It returns,
/// for each row that it inserts, what stands around the first.
fn append_statement(rows: usize, fence: Option<&Fence>) -> String {
    let values: Vec<String> = (0..rows)
        .map(|row| format!("SELECT ?1 + {row} AS idx, ?{} AS payload", row + 2))
        .collect();
    format!(
        "INSERT INTO meta_log (idx, payload) \
         SELECT idx, payload FROM ({}) \
         WHERE NOT EXISTS (SELECT 1 FROM meta_snapshot WHERE id = 0 AND applied_idx >= ?1) \
         AND (EXISTS (SELECT 1 FROM meta_log WHERE idx = ?1 - 1) \
              OR EXISTS (SELECT 1 FROM meta_snapshot WHERE id = 0 AND applied_idx = ?1 - 1) \
              OR (?1 = 1 AND NOT EXISTS (SELECT 1 FROM meta_snapshot WHERE id = 0))){} \
         RETURNING (SELECT applied_idx FROM meta_snapshot WHERE id = 0), \
         CASE idx WHEN ?1 THEN (SELECT payload FROM meta_log WHERE idx = ?1 - 1) END",
        values.join(" UNION ALL "),
        fence
            .map(|fence| format!(" AND EXISTS ({})", fence_statement(fence, rows + 2)))
            .unwrap_or_default()
    )
}

/// Finds the lease row if the term stands. Its parameters, from `first` on: the
/// row's key, holder, epoch.
fn fence_statement(fence: &Fence, first: usize) -> String {
    format!(
        "SELECT 1 FROM {} = ?{first} AND holder = ?{} AND epoch = ?{} AND expires_at_ms >= {NOW}",
        lease_row(fence),
        first + 1,
        first + 2
    )
}

/// Where the row of a fence's lease is; its key follows.
fn lease_row(fence: &Fence) -> &'static str {
    match fence.name {
        None => "meta_lease WHERE id",
        Some(_) => "aedile_lease WHERE name",
    }
}

/// Bind the key of a fence's lease row: a number, or a name.
macro_rules! bind_key {
    ($query:expr, $fence:expr) => {
        match &$fence.name {
            None => $query.bind(0_i64),
            Some(name) => $query.bind(name.clone()),
        }
    };
}

impl Sqlite {
    /// What the lease row says, if the term of a fence is over. Once over it
    /// never stands again, so that this may be asked after the append.
    async fn fenced_out(&self, fence: &Fence) -> Result<Option<String>, LogError> {
        const WHAT: &str = "the lease of a fence";
        let stands: Option<i64> = ask!(self, self.limits.small, |connection| bind_key!(
            sqlx::query_scalar(AssertSqlSafe(fence_statement(fence, 1))),
            fence
        )
        .bind(fence.holder.clone())
        .bind(to_column(fence.epoch))
        .fetch_optional(connection))
        .map_err(self.fail(WHAT))?;
        if stands.is_some() {
            return Ok(None);
        }
        let sql = format!("SELECT {} FROM {} = ?1", rows::LEASE_TEXT, lease_row(fence));
        let says: Option<String> = ask!(self, self.limits.small, |connection| bind_key!(
            sqlx::query_scalar(AssertSqlSafe(sql.clone())),
            fence
        )
        .fetch_optional(connection))
        .map_err(self.fail(WHAT))?;
        Ok(Some(says.unwrap_or_else(|| rows::NO_LEASE.to_owned())))
    }
}

#[async_trait]
impl Store for Sqlite {
    async fn columns(&self, table: &Table) -> Result<Option<Vec<(String, String)>>, LogError> {
        let rows = ask!(self, self.limits.small, |connection| sqlx::query(
            "SELECT name, type || CASE WHEN pk > 0 THEN ' PRIMARY KEY' ELSE '' END AS type \
             FROM pragma_table_info(?1) ORDER BY cid",
        )
        .bind(table.name)
        .fetch_all(connection))
        .map_err(self.fail("its schema"))?;
        let columns = rows
            .iter()
            .map(|row| Ok((row.try_get("name")?, row.try_get("type")?)))
            .collect::<Result<Vec<(String, String)>, sqlx::Error>>()
            .map_err(self.fail("its schema"))?;
        Ok(Some(columns).filter(|columns| !columns.is_empty()))
    }

    async fn create(&self, table: &Table) -> Result<(), LogError> {
        ask!(self, self.limits.small, |connection| sqlx::query(
            AssertSqlSafe(table.ddl(Backend::Sqlite))
        )
        .execute(connection))
        .map_err(self.fail("creating a table"))?;
        if let Some(seed) = table.seed {
            ask!(self, self.limits.small, |connection| sqlx::query(seed)
                .execute(connection))
            .map_err(self.fail("seeding a table"))?;
        }
        Ok(())
    }

    async fn writable(&self) -> Result<(), LogError> {
        // Takes the write lock and lets it go: nothing is written. (`BEGIN
        // IMMEDIATE` passes on a file that is read-only.)
        let taken = ask!(self, self.limits.small, |connection| {
            sqlx::query("DELETE FROM meta_log WHERE 0").execute(connection)
        });
        match taken {
            Ok(_) => Ok(()),
            // Then making the table tells.
            Err(sqlx::Error::Database(error)) if error.message().contains("no such table") => {
                Ok(())
            }
            Err(error) => Err(self.fail("writing")(error)),
        }
    }

    async fn tip(&self) -> Result<Tip, LogError> {
        let row: (Option<i64>, Option<i64>) =
            ask!(self, self.limits.small, |connection| sqlx::query_as(
                "SELECT (SELECT MAX(idx) FROM meta_log), \
             (SELECT applied_idx FROM meta_snapshot WHERE id = 0)",
            )
            .fetch_one(connection))
            .map_err(self.fail("reading the log's end"))?;
        rows::tip(row)
    }

    async fn fetch(&self, from: u64, limit: u32) -> Result<Fetch, LogError> {
        let found: Vec<rows::Fetched> = ask!(self, self.limits.fetch, |connection| sqlx::query_as(
            "SELECT s.applied_idx, l.idx, l.payload \
             FROM (SELECT (SELECT applied_idx FROM meta_snapshot WHERE id = 0) AS applied_idx) s \
             LEFT JOIN (SELECT idx, payload FROM meta_log WHERE idx >= ?1 ORDER BY idx LIMIT ?2) l \
             ON 1 ORDER BY l.idx",
        )
        .bind(to_column(from))
        .bind(i64::from(limit))
        .fetch_all(connection))
        .map_err(self.fail("reading the log"))?;
        rows::fetch(found)
    }

    async fn snapshot(&self) -> Result<Option<Row>, LogError> {
        let row: Option<(i64, Vec<u8>)> =
            ask!(self, self.limits.snapshot, |connection| sqlx::query_as(
                "SELECT applied_idx, payload FROM meta_snapshot WHERE id = 0"
            )
            .fetch_optional(connection))
            .map_err(self.fail("reading the snapshot"))?;
        rows::snapshot(row)
    }

    async fn append(
        &self,
        first: u64,
        rows: &[Arc<[u8]>],
        fence: Option<&Fence>,
    ) -> Result<Append, AppendError> {
        const WHAT: &str = "an append";
        let mut query = sqlx::query_as(AssertSqlSafe(append_statement(rows.len(), fence)))
            .bind(to_column(first));
        for row in rows {
            query = query.bind(row.to_vec());
        }
        if let Some(fence) = fence {
            query = bind_key!(query, fence)
                .bind(fence.holder.clone())
                .bind(to_column(fence.epoch));
        }
        match send!(self, self.limits.append, |connection| query
            .fetch_all(connection))
        {
            Ok(landed) if landed.len() == rows.len() => {
                rows::landed(landed.into_iter().next().unwrap_or_default())
            }
            Ok(_) => match fence {
                Some(fence) => Ok(match self.fenced_out(fence).await? {
                    Some(says) => Append::FencedOut(says),
                    None => Append::Conflict,
                }),
                None => Ok(Append::Conflict),
            },
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
        let stored = send!(self, self.limits.snapshot, |connection| sqlx::query(
            "INSERT INTO meta_snapshot (id, applied_idx, payload) VALUES (0, ?1, ?2) \
             ON CONFLICT (id) DO UPDATE SET applied_idx = excluded.applied_idx, \
             payload = excluded.payload WHERE excluded.applied_idx > meta_snapshot.applied_idx",
        )
        .bind(to_column(index))
        .bind(payload)
        .execute(connection))
        .map_err(self.fail("storing a snapshot"))?;
        if stored.rows_affected() == 0 {
            return Ok(false);
        }
        send!(self, self.limits.snapshot, |connection| sqlx::query(
            "DELETE FROM meta_log WHERE idx <= ?1"
        )
        .bind(to_column(truncate))
        .execute(connection))
        .map_err(self.fail("truncating the log"))?;
        Ok(true)
    }

    async fn now(&self) -> Result<UnixMillis, LogError> {
        let now: i64 = ask!(self, self.limits.small, |connection| sqlx::query_scalar(
            AssertSqlSafe(format!("SELECT {NOW}"))
        )
        .fetch_one(connection))
        .map_err(self.fail("the time"))?;
        Ok(UnixMillis(now))
    }

    async fn heartbeat(&self, record: &NodeRecord) -> Result<(), LogError> {
        send!(self, self.limits.small, |connection| sqlx::query(
            AssertSqlSafe(format!(
                "INSERT INTO aedile_node (node, started_ms, seen_ms, version, applied_idx, status) \
             VALUES (?1, ?2, {NOW}, ?3, ?4, ?5) \
             ON CONFLICT (node) DO UPDATE SET started_ms = excluded.started_ms, \
             seen_ms = excluded.seen_ms, version = excluded.version, \
             applied_idx = excluded.applied_idx, status = excluded.status"
            ))
        )
        .bind(&record.node)
        .bind(record.started.0)
        .bind(&record.version)
        .bind(to_column(record.applied_index))
        .bind(record.status.to_string())
        .execute(connection))
        .map_err(self.fail("a heartbeat"))?;
        Ok(())
    }

    async fn add_run(&self, record: &RunRecord) -> Result<(), LogError> {
        send!(self, self.limits.small, |connection| sqlx::query(
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
        .execute(connection))
        .map_err(self.fail("a run record"))?;
        send!(self, self.limits.small, |connection| sqlx::query(
            "DELETE FROM aedile_run WHERE plugin = ?1 AND id <= \
             (SELECT id FROM aedile_run WHERE plugin = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )
        .bind(&record.plugin)
        .bind(i64::from(RUNS_KEPT))
        .execute(connection))
        .map_err(self.fail("the run history"))?;
        Ok(())
    }

    async fn nodes(&self) -> Result<Vec<NodeRecord>, LogError> {
        let found = ask!(self, self.limits.small, |connection| sqlx::query(
            rows::NODES
        )
        .fetch_all(connection))
        .map_err(self.fail("the nodes"))?;
        found
            .iter()
            .map(rows::node::<SqliteRow>)
            .collect::<Result<_, _>>()
            .map_err(self.fail("the nodes"))
    }

    async fn runs(&self, limit: u32) -> Result<Vec<RunRecord>, LogError> {
        let found = ask!(self, self.limits.small, |connection| sqlx::query(
            "SELECT * FROM aedile_run ORDER BY id DESC LIMIT ?1"
        )
        .bind(i64::from(limit))
        .fetch_all(connection))
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
            let found = match ask!(self, self.limits.small, |connection| sqlx::query(statement)
                .fetch_all(connection))
            {
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

    async fn note_divergence(&self, record: &DivergenceRecord) -> Result<(), LogError> {
        send!(self, self.limits.small, |connection| sqlx::query(
            AssertSqlSafe(format!(
                "INSERT INTO aedile_divergence (node, idx, section, reason, found_ms) \
                 VALUES (?1, ?2, ?3, ?4, {NOW}) ON CONFLICT (node) DO UPDATE SET \
                 idx = excluded.idx, section = excluded.section, reason = excluded.reason, \
                 found_ms = excluded.found_ms"
            ))
        )
        .bind(&record.node)
        .bind(to_column(record.index))
        .bind(&record.section)
        .bind(&record.reason)
        .execute(connection))
        .map_err(self.fail("remembering a divergence"))?;
        Ok(())
    }

    async fn divergences(&self) -> Result<Vec<DivergenceRecord>, LogError> {
        let found = ask!(self, self.limits.small, |connection| sqlx::query(
            rows::DIVERGENCES
        )
        .fetch_all(connection))
        .map_err(self.fail("the divergences"))?;
        found
            .iter()
            .map(rows::divergence::<SqliteRow>)
            .collect::<Result<_, _>>()
            .map_err(self.fail("the divergences"))
    }

    async fn clear_divergence(&self, node: &str) -> Result<bool, LogError> {
        let done = send!(self, self.limits.small, |connection| sqlx::query(
            "DELETE FROM aedile_divergence WHERE node = ?1"
        )
        .bind(node)
        .execute(connection))
        .map_err(self.fail("clearing a divergence"))?;
        Ok(done.rows_affected() > 0)
    }

    fn overtaken(&self) -> bool {
        self.still
            .as_ref()
            .is_some_and(|still| Mark::of(&still.path).is_ok_and(|mark| mark != still.mark))
    }

    async fn close(&self) {
        self.connections.close().await;
    }
}
