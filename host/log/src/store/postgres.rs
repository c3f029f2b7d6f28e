//! PostgreSQL.

use std::fmt::Write as _;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, UnixMillis};
use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{AssertSqlSafe, Row as _};

use super::connections::{Connections, ask, send};
use super::{
    Access, Append, AppendError, Fetch, Judged, Limits, Row, Store, Tip, judge, rows, to_column,
};
use crate::records::{DivergenceRecord, LeaseRecord, NodeRecord, RUNS_KEPT, RunRecord};
use crate::schema::Table;
use crate::url::Backend;
use crate::{Fence, LogError, LogOptions, MetaUrl};

/// Now, in Unix milliseconds, read when the expression is evaluated; not when
/// the transaction began.
const NOW: &str = "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint";

/// Division by zero: raised by the check of an append whose place is not free. A
/// code of our own would take a block of PL/pgSQL, which the server compiles anew
/// for each append.
const NO_PLACE: &str = "22012";

/// Raised by the check of an append whose fence does not hold.
const FENCED_OUT: &str = "AE002";

/// A PostgreSQL server.
pub(super) struct Postgres {
    connections: Connections<sqlx::Postgres>,
    limits: Limits,
    url: String,
    append_timeout: Duration,
}

impl Postgres {
    pub(super) async fn connect(
        url: &MetaUrl,
        access: Access,
        options: &LogOptions,
        clock: &SharedClock,
    ) -> Result<Self, LogError> {
        let shown = url.to_string();
        let limits = Limits::of(options);
        let statement = options.statement_timeout.as_millis().to_string();
        let mut settings = vec![
            ("default_transaction_isolation", "read committed".to_owned()),
            ("idle_in_transaction_session_timeout", statement.clone()),
            // What this client gives up on, the server does not go on with. An
            // append has a shorter one of its own.
            ("statement_timeout", limits.snapshot.as_millis().to_string()),
        ];
        match access {
            Access::Write => settings.push(("lock_timeout", statement)),
            Access::Read => settings.push(("default_transaction_read_only", "on".to_owned())),
        }
        let connect = PgConnectOptions::from_str(&url.expose())
            .map_err(|error| LogError::Url {
                url: shown.clone(),
                reason: error.to_string(),
            })?
            .application_name("aedile")
            .options(settings);
        let connections =
            Connections::<sqlx::Postgres>::new(connect, clock, options.connect_timeout, &shown);
        // The first of them, so that a wrong address is told at once.
        connections.lend().await?.give_back();
        Ok(Self {
            connections,
            limits,
            url: shown,
            append_timeout: options.statement_timeout,
        })
    }

    fn fail(&self, what: &'static str) -> impl FnOnce(sqlx::Error) -> LogError + '_ {
        move |error| judge(error, &self.url, what).into_error(&self.url, what)
    }
}

/// Whether a table, or the type of its rows, was made by somebody else at the
/// same moment: `IF NOT EXISTS` looks before it waits, and then fails in one of
/// three ways.
fn made_meanwhile(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("23505" | "42P07" | "42710"))
}

/// Several statements in one message: one round trip and one implicit
/// transaction, which the server rolls back whole if the check raises.
///
/// The insert comes first. If its place is taken, or about to be, it waits and
/// fails. Then a *separate* statement, which under READ COMMITTED sees what was
/// committed meanwhile, reads the snapshot: a condition inside the insert would
/// be judged by a view that predates a truncation. It answers with what stands
/// around the rows, so that nobody need look for that again.
///
/// A fence is read last, and locked: whoever takes the lease over waits for this
/// transaction, or this one waits for him and then reads what he wrote. A plain
/// read would let a takeover commit between it and the commit of the row.
fn append_statement(
    first: u64,
    rows: &[Arc<[u8]>],
    fence: Option<&Fence>,
    timeout_ms: u128,
) -> String {
    let bytes: usize = rows.iter().map(|row| row.len() * 2 + 32).sum();
    let mut sql = String::with_capacity(bytes + 1024);
    let _ = write!(
        sql,
        "SET LOCAL statement_timeout = {timeout_ms}; INSERT INTO meta_log (idx, payload) VALUES "
    );
    for (row, payload) in rows.iter().enumerate() {
        let comma = if row == 0 { "" } else { ", " };
        let _ = write!(
            sql,
            "{comma}({}, '\\x{}'::bytea)",
            first + row as u64,
            hex::encode(payload)
        );
    }
    let before = first - 1;
    let _ = write!(
        sql,
        "; SELECT (SELECT applied_idx FROM meta_snapshot WHERE id = 0), \
         (SELECT payload FROM meta_log WHERE idx = {before}), \
         1 / (CASE WHEN EXISTS (SELECT 1 FROM meta_snapshot WHERE id = 0 AND applied_idx >= {first}) \
           OR NOT (EXISTS (SELECT 1 FROM meta_log WHERE idx = {before}) \
           OR EXISTS (SELECT 1 FROM meta_snapshot WHERE id = 0 AND applied_idx = {before}) \
           OR ({first} = 1 AND NOT EXISTS (SELECT 1 FROM meta_snapshot WHERE id = 0))) \
         THEN 0 ELSE 1 END)"
    );
    if let Some(fence) = fence {
        let _ = write!(sql, "; DO $check$ BEGIN {} END $check$", fence_check(fence));
    }
    sql
}

/// Statements that raise unless the term of a fence stands.
fn fence_check(fence: &Fence) -> String {
    // Names are other people's text: as bytes they are nothing but that.
    let text = |text: &str| format!("convert_from('\\x{}'::bytea, 'UTF8')", hex::encode(text));
    let row = match &fence.name {
        None => "meta_lease WHERE id = 0".to_owned(),
        Some(name) => format!("aedile_lease WHERE name = {}", text(name)),
    };
    format!(
        "PERFORM 1 FROM {row} AND holder = {} AND epoch = {} AND expires_at_ms >= {NOW} FOR SHARE; \
         IF NOT FOUND THEN RAISE EXCEPTION '%', coalesce((SELECT {} FROM {row}), '{}') \
         USING ERRCODE = '{FENCED_OUT}'; END IF;",
        text(&fence.holder),
        to_column(fence.epoch),
        rows::LEASE_TEXT,
        rows::NO_LEASE,
    )
}

#[async_trait]
impl Store for Postgres {
    async fn columns(&self, table: &Table) -> Result<Option<Vec<(String, String)>>, LogError> {
        // Resolved as an unqualified name in a statement is: by the search path.
        let found: Vec<(String, String)> =
            ask!(self, self.limits.small, |connection| sqlx::query_as(
                "SELECT a.attname::text, format_type(a.atttypid, NULL) || CASE WHEN EXISTS \
             (SELECT 1 FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisunique \
             AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indnkeyatts = 1 \
             AND i.indkey[0] = a.attnum) THEN ' PRIMARY KEY' ELSE '' END FROM pg_attribute a \
             WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped \
             ORDER BY a.attnum",
            )
            .bind(table.name)
            .fetch_all(connection))
            .map_err(self.fail("its schema"))?;
        Ok(Some(found).filter(|found| !found.is_empty()))
    }

    async fn create(&self, table: &Table) -> Result<(), LogError> {
        match ask!(self, self.limits.small, |connection| sqlx::query(
            AssertSqlSafe(table.ddl(Backend::Postgres))
        )
        .execute(connection))
        {
            Ok(_) => {}
            Err(error) if made_meanwhile(&error) => {}
            Err(error) => return Err(self.fail("creating a table")(error)),
        }
        if let Some(seed) = table.seed {
            ask!(self, self.limits.small, |connection| sqlx::query(seed)
                .execute(connection))
            .map_err(self.fail("seeding a table"))?;
        }
        Ok(())
    }

    async fn writable(&self) -> Result<(), LogError> {
        let (recovery, read_only, may): (bool, bool, bool) =
            ask!(self, self.limits.small, |connection| {
                sqlx::query_as(
            "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only')::bool, \
             coalesce(has_table_privilege(to_regclass('meta_log')::oid, 'INSERT'), true)",
        )
        .fetch_one(connection)
            })
            .map_err(self.fail("its role"))?;
        let reason = match (recovery, read_only, may) {
            (true, ..) => "it is a replica in recovery",
            (_, true, _) => "transactions are read-only by default",
            (.., false) => "the role may not insert into meta_log",
            _ => return Ok(()),
        };
        Err(LogError::ReadOnly {
            url: self.url.clone(),
            reason: reason.to_owned(),
        })
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
             LEFT JOIN (SELECT idx, payload FROM meta_log WHERE idx >= $1 ORDER BY idx LIMIT $2) l \
             ON true ORDER BY l.idx",
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
        let sql = append_statement(first, rows, fence, self.append_timeout.as_millis());
        match send!(self, self.limits.append, |connection| sqlx::raw_sql(
            AssertSqlSafe(sql)
        )
        .fetch_all(connection))
        {
            Ok(answer) => {
                let around = answer.first().map_or(Ok((None, None)), |row: &PgRow| {
                    Ok((row.try_get(0)?, row.try_get(1)?))
                });
                let around = around.map_err(self.fail(WHAT));
                rows::landed(around.map_err(AppendError::Unknown)?)
            }
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(NO_PLACE) => {
                Ok(Append::Conflict)
            }
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(FENCED_OUT) => {
                Ok(Append::FencedOut(error.message().to_owned()))
            }
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
            "INSERT INTO meta_snapshot (id, applied_idx, payload) VALUES (0, $1, $2) \
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
            "DELETE FROM meta_log WHERE idx <= $1"
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
             VALUES ($1, $2, {NOW}, $3, $4, $5) \
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
             outcome, summary, detail) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
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
            "DELETE FROM aedile_run WHERE plugin = $1 AND id <= \
             (SELECT id FROM aedile_run WHERE plugin = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)",
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
            .map(rows::node::<PgRow>)
            .collect::<Result<_, _>>()
            .map_err(self.fail("the nodes"))
    }

    async fn runs(&self, limit: u32) -> Result<Vec<RunRecord>, LogError> {
        let found = ask!(self, self.limits.small, |connection| sqlx::query(
            "SELECT * FROM aedile_run ORDER BY id DESC LIMIT $1"
        )
        .bind(i64::from(limit))
        .fetch_all(connection))
        .map_err(self.fail("the run history"))?;
        found
            .iter()
            .map(rows::run::<PgRow>)
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
                Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("42P01") => {
                    continue;
                }
                Err(error) => return Err(self.fail("the leases")(error)),
            };
            for row in &found {
                leases.push(rows::lease::<PgRow>(row).map_err(self.fail("the leases"))?);
            }
        }
        Ok(leases)
    }

    async fn note_divergence(&self, record: &DivergenceRecord) -> Result<(), LogError> {
        send!(self, self.limits.small, |connection| sqlx::query(
            AssertSqlSafe(format!(
                "INSERT INTO aedile_divergence (node, idx, section, reason, found_ms) \
                 VALUES ($1, $2, $3, $4, {NOW}) ON CONFLICT (node) DO UPDATE SET \
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
            .map(rows::divergence::<PgRow>)
            .collect::<Result<_, _>>()
            .map_err(self.fail("the divergences"))
    }

    async fn clear_divergence(&self, node: &str) -> Result<bool, LogError> {
        let done = send!(self, self.limits.small, |connection| sqlx::query(
            "DELETE FROM aedile_divergence WHERE node = $1"
        )
        .bind(node)
        .execute(connection))
        .map_err(self.fail("clearing a divergence"))?;
        Ok(done.rows_affected() > 0)
    }

    async fn close(&self) {
        self.connections.close().await;
    }
}
