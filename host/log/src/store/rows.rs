//! Rows as every database returns them.

use aedile_clock::UnixMillis;
use sqlx::{ColumnIndex, Decode, Row as SqlRow, Type};

use super::{Append, AppendError, Around, Fetch, Row, Tip, from_column};
use crate::LogError;
use crate::records::{DivergenceRecord, LeaseRecord, NodeRecord, RunRecord};

/// A row of a fetch: the snapshot's index, and a row of the log if there is one.
pub(super) type Fetched = (Option<i64>, Option<i64>, Option<Vec<u8>>);

pub(super) const NODES: &str =
    "SELECT node, started_ms, seen_ms, version, applied_idx, status FROM aedile_node ORDER BY node";

pub(super) const DIVERGENCES: &str =
    "SELECT node, idx, section, reason, found_ms FROM aedile_divergence ORDER BY node";

/// Both kinds of lease, in the columns of one.
pub(super) const LEASES: [&str; 2] = [
    "SELECT 'shared' AS name, holder, epoch, expires_at_ms FROM meta_lease WHERE id = 0",
    "SELECT name, holder, epoch, expires_at_ms FROM aedile_lease ORDER BY name",
];

/// A lease row in words, where a fence does not hold.
pub(super) const LEASE_TEXT: &str =
    "'holder ' || holder || ', epoch ' || epoch || ', expiry ' || expires_at_ms";

/// And where there is none.
pub(super) const NO_LEASE: &str = "nothing: it is gone";

fn index(table: &'static str, value: Option<i64>) -> Result<Option<u64>, LogError> {
    value.map(|value| from_column(table, value)).transpose()
}

pub(super) fn tip((row, snapshot): (Option<i64>, Option<i64>)) -> Result<Tip, LogError> {
    Ok(Tip {
        row: index("meta_log", row)?.unwrap_or(0),
        snapshot: index("meta_snapshot", snapshot)?,
    })
}

pub(super) fn fetch(found: Vec<Fetched>) -> Result<Fetch, LogError> {
    let mut fetch = Fetch {
        snapshot: index("meta_snapshot", found.first().and_then(|row| row.0))?,
        rows: Vec::with_capacity(found.len()),
    };
    for (_, idx, payload) in found {
        if let (Some(idx), Some(payload)) = (idx, payload) {
            fetch.rows.push((from_column("meta_log", idx)?, payload));
        }
    }
    Ok(fetch)
}

/// The rows of an append stand, with this around them. If that cannot be read, the
/// next look at the log tells what is wrong there.
pub(super) fn landed(
    (snapshot, before): (Option<i64>, Option<Vec<u8>>),
) -> Result<Append, AppendError> {
    let snapshot = index("meta_snapshot", snapshot).map_err(AppendError::Unknown)?;
    Ok(Append::Landed(Around { snapshot, before }))
}

pub(super) fn snapshot(row: Option<(i64, Vec<u8>)>) -> Result<Option<Row>, LogError> {
    row.map(|(index, payload)| Ok((from_column("meta_snapshot", index)?, payload)))
        .transpose()
}

/// Text that is not JSON is shown as it is.
fn json(text: String) -> serde_json::Value {
    serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text))
}

fn count(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

pub(super) fn node<'r, R>(row: &'r R) -> Result<NodeRecord, sqlx::Error>
where
    R: SqlRow,
    &'static str: ColumnIndex<R>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
{
    Ok(NodeRecord {
        node: row.try_get("node")?,
        started: UnixMillis(row.try_get("started_ms")?),
        seen: UnixMillis(row.try_get("seen_ms")?),
        version: row.try_get("version")?,
        applied_index: count(row.try_get("applied_idx")?),
        status: json(row.try_get("status")?),
    })
}

pub(super) fn run<'r, R>(row: &'r R) -> Result<RunRecord, sqlx::Error>
where
    R: SqlRow,
    &'static str: ColumnIndex<R>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
{
    Ok(RunRecord {
        id: row.try_get("id")?,
        plugin: row.try_get("plugin")?,
        version: row.try_get("version")?,
        digest: row.try_get("digest")?,
        node: row.try_get("node")?,
        epoch: count(row.try_get("epoch")?),
        started: UnixMillis(row.try_get("started_ms")?),
        ended: UnixMillis(row.try_get("ended_ms")?),
        outcome: row.try_get("outcome")?,
        summary: row.try_get("summary")?,
        detail: json(row.try_get("detail")?),
    })
}

pub(super) fn lease<'r, R>(row: &'r R) -> Result<LeaseRecord, sqlx::Error>
where
    R: SqlRow,
    &'static str: ColumnIndex<R>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
{
    Ok(LeaseRecord {
        name: row.try_get("name")?,
        holder: row.try_get("holder")?,
        epoch: count(row.try_get("epoch")?),
        expires: UnixMillis(row.try_get("expires_at_ms")?),
    })
}

pub(super) fn divergence<'r, R>(row: &'r R) -> Result<DivergenceRecord, sqlx::Error>
where
    R: SqlRow,
    &'static str: ColumnIndex<R>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
{
    Ok(DivergenceRecord {
        node: row.try_get("node")?,
        index: count(row.try_get("idx")?),
        section: row.try_get("section")?,
        reason: row.try_get("reason")?,
        found: UnixMillis(row.try_get("found_ms")?),
    })
}
