//! The three tables of a database: from a SQLite file, or from the text of a
//! PostgreSQL dump.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aedile_clock::{SharedClock, SystemClock};
use aedile_log::{LogError, Reader, View};
use sqlx::{Connection, Row};

/// What the log and snapshot tables hold.
#[derive(Debug, Default)]
pub struct Tables {
    /// The snapshot's applied index and payload.
    pub snapshot: Option<(u64, Vec<u8>)>,
    /// The log's rows in the order of their indexes.
    pub rows: Vec<(u64, Vec<u8>)>,
}

/// A copy of a SQLite database, in a directory of its own: opening one in WAL
/// mode writes beside it.
#[derive(Debug)]
pub struct Copy {
    dir: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
}

impl Copy {
    /// Writes the copy.
    pub fn of(database: &[u8]) -> Self {
        let dir = tempfile::tempdir().expect("a directory can be made");
        std::fs::write(dir.path().join("meta.db"), database).expect("a file can be written");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be built");
        Self { dir, runtime }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("meta.db")
    }

    /// What the tables hold, by plain queries.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn tables(&self) -> Result<Tables, String> {
        self.runtime
            .block_on(sqlite_tables(&self.path()))
            .map_err(|error| format!("as a SQLite database: {error}"))
    }

    /// What the log's own reader makes of it.
    ///
    /// # Errors
    /// What it says.
    pub fn view(&self) -> Result<View, LogError> {
        let url = format!("sqlite:{}", self.path().display());
        self.runtime.block_on(async {
            let clock: SharedClock = Arc::new(SystemClock);
            let reader = Reader::open(&url.parse()?, &clock).await?;
            let view = reader.view().await;
            reader.close().await;
            view
        })
    }
}

async fn sqlite_tables(path: &Path) -> Result<Tables, sqlx::Error> {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await?;
    let snapshot = sqlx::query("SELECT applied_idx, payload FROM meta_snapshot WHERE id = 0")
        .fetch_optional(&mut connection)
        .await?
        .map(|row| Ok::<_, sqlx::Error>((row.try_get::<i64, _>(0)? as u64, row.try_get(1)?)))
        .transpose()?;
    let rows = sqlx::query("SELECT idx, payload FROM meta_log ORDER BY idx")
        .fetch_all(&mut connection)
        .await?
        .iter()
        .map(|row| Ok((row.try_get::<i64, _>(0)? as u64, row.try_get(1)?)))
        .collect::<Result<_, sqlx::Error>>()?;
    connection.close().await?;
    Ok(Tables { snapshot, rows })
}

/// Reads the INSERT statements of a PostgreSQL dump.
pub fn dump(text: &str) -> Result<Tables, String> {
    let mut tables = Tables::default();
    for line in text.lines() {
        if line.starts_with("COPY ") && line.contains("meta_") {
            return Err("rows as COPY: dump with --inserts".to_owned());
        }
        let Some(insert) = line.strip_prefix("INSERT INTO ") else {
            continue;
        };
        let broken = || format!("not an INSERT as pg_dump writes it: {line:.80}");
        let (table, values) = insert.split_once(" VALUES (").ok_or_else(broken)?;
        let values = values.strip_suffix(");").ok_or_else(broken)?;
        let values: Vec<&str> = values.split(", ").collect();
        let name = table.split_whitespace().next().unwrap_or("");
        match (name.rsplit('.').next().unwrap_or(""), values.as_slice()) {
            ("meta_log", [index, payload]) => {
                let row = number(index).zip(bytea(payload)).ok_or_else(broken)?;
                tables.rows.push(row);
            }
            ("meta_snapshot", [_, index, payload]) => {
                let row = number(index).zip(bytea(payload)).ok_or_else(broken)?;
                tables.snapshot = Some(row);
            }
            ("meta_lease", _) => {}
            _ => return Err(broken()),
        }
    }
    tables.rows.sort_by_key(|&(index, _)| index);
    Ok(tables)
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

fn bytea(text: &str) -> Option<Vec<u8>> {
    hex::decode(text.strip_prefix("'\\x")?.strip_suffix('\'')?).ok()
}
