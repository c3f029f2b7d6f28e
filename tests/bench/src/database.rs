//! A metadata database that holds a snapshot and no row.

use std::path::Path;

use aedile_log::MetaUrl;
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};

/// Index of the snapshot.
const INDEX: i64 = 1;

/// Make one, as PicoMQ makes them.
pub(crate) async fn with_snapshot(path: &Path, payload: &[u8]) -> anyhow::Result<MetaUrl> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal);
    let mut connection = SqliteConnection::connect_with(&options).await?;
    for statement in [
        "CREATE TABLE meta_log (idx INTEGER PRIMARY KEY, payload BLOB NOT NULL)",
        "CREATE TABLE meta_snapshot (id INTEGER PRIMARY KEY, applied_idx INTEGER NOT NULL, \
         payload BLOB NOT NULL)",
        "CREATE TABLE meta_lease (id INTEGER PRIMARY KEY, holder TEXT NOT NULL, \
         epoch INTEGER NOT NULL, expires_at_ms INTEGER NOT NULL)",
        "INSERT INTO meta_lease VALUES (0, '', 0, 0)",
    ] {
        sqlx::query(statement).execute(&mut connection).await?;
    }
    sqlx::query("INSERT INTO meta_snapshot VALUES (0, ?1, ?2)")
        .bind(INDEX)
        .bind(payload)
        .execute(&mut connection)
        .await?;
    connection.close().await?;
    Ok(MetaUrl::sqlite(path))
}
