//! The tables: PicoMQ's three, created only where they are missing and never
//! altered, and our own.

use crate::LogError;
use crate::store::Store;
use crate::url::Backend;

/// A column: its name, its type on SQLite, its type on PostgreSQL.
type Column = (&'static str, &'static str, &'static str);

/// A table of the metadata database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    columns: &'static [Column],
    /// A statement that adds the first row if it is not there.
    pub(crate) seed: Option<&'static str>,
}

const KEY: &str = "INTEGER PRIMARY KEY";

/// How the type of a column ends that is the key by itself.
pub(crate) const KEY_MARK: &str = " PRIMARY KEY";

/// The rows of the log.
const META_LOG: Table = Table {
    name: "meta_log",
    columns: &[
        ("idx", KEY, "BIGINT PRIMARY KEY"),
        ("payload", "BLOB NOT NULL", "BYTEA NOT NULL"),
    ],
    seed: None,
};

/// The snapshot: one row.
const META_SNAPSHOT: Table = Table {
    name: "meta_snapshot",
    columns: &[
        ("id", KEY, "BIGINT PRIMARY KEY"),
        ("applied_idx", "INTEGER NOT NULL", "BIGINT NOT NULL"),
        ("payload", "BLOB NOT NULL", "BYTEA NOT NULL"),
    ],
    seed: None,
};

/// The lease that PicoMQ nodes contend for too: one row.
const META_LEASE: Table = Table {
    name: "meta_lease",
    columns: &[
        ("id", KEY, "BIGINT PRIMARY KEY"),
        ("holder", "TEXT NOT NULL", "TEXT NOT NULL"),
        ("epoch", "INTEGER NOT NULL", "BIGINT NOT NULL"),
        ("expires_at_ms", "INTEGER NOT NULL", "BIGINT NOT NULL"),
    ],
    seed: Some(
        "INSERT INTO meta_lease (id, holder, epoch, expires_at_ms) VALUES (0, '', 0, 0) \
         ON CONFLICT (id) DO NOTHING",
    ),
};

/// Further leases, by name.
const AEDILE_LEASE: Table = Table {
    name: "aedile_lease",
    columns: &[
        (
            "name",
            "TEXT NOT NULL PRIMARY KEY",
            "TEXT NOT NULL PRIMARY KEY",
        ),
        ("holder", "TEXT NOT NULL", "TEXT NOT NULL"),
        ("epoch", "INTEGER NOT NULL", "BIGINT NOT NULL"),
        ("expires_at_ms", "INTEGER NOT NULL", "BIGINT NOT NULL"),
    ],
    seed: None,
};

/// History of runs.
const AEDILE_RUN: Table = Table {
    name: "aedile_run",
    columns: &[
        ("id", KEY, "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
        ("plugin", "TEXT NOT NULL", "TEXT NOT NULL"),
        ("version", "TEXT NOT NULL", "TEXT NOT NULL"),
        ("digest", "TEXT NOT NULL", "TEXT NOT NULL"),
        ("node", "TEXT NOT NULL", "TEXT NOT NULL"),
        ("epoch", "INTEGER NOT NULL", "BIGINT NOT NULL"),
        ("started_ms", "INTEGER NOT NULL", "BIGINT NOT NULL"),
        ("ended_ms", "INTEGER NOT NULL", "BIGINT NOT NULL"),
        ("outcome", "TEXT NOT NULL", "TEXT NOT NULL"),
        ("summary", "TEXT NOT NULL", "TEXT NOT NULL"),
        ("detail", "TEXT NOT NULL", "TEXT NOT NULL"),
    ],
    seed: None,
};

/// Nodes that are up, or were.
const AEDILE_NODE: Table = Table {
    name: "aedile_node",
    columns: &[
        (
            "node",
            "TEXT NOT NULL PRIMARY KEY",
            "TEXT NOT NULL PRIMARY KEY",
        ),
        ("started_ms", "INTEGER NOT NULL", "BIGINT NOT NULL"),
        ("seen_ms", "INTEGER NOT NULL", "BIGINT NOT NULL"),
        ("version", "TEXT NOT NULL", "TEXT NOT NULL"),
        ("applied_idx", "INTEGER NOT NULL", "BIGINT NOT NULL"),
        ("status", "TEXT NOT NULL", "TEXT NOT NULL"),
    ],
    seed: None,
};

/// Nodes whose state contradicts the cluster's snapshot, until cleared.
const AEDILE_DIVERGENCE: Table = Table {
    name: "aedile_divergence",
    columns: &[
        (
            "node",
            "TEXT NOT NULL PRIMARY KEY",
            "TEXT NOT NULL PRIMARY KEY",
        ),
        ("idx", "INTEGER NOT NULL", "BIGINT NOT NULL"),
        ("section", "TEXT NOT NULL", "TEXT NOT NULL"),
        ("reason", "TEXT NOT NULL", "TEXT NOT NULL"),
        ("found_ms", "INTEGER NOT NULL", "BIGINT NOT NULL"),
    ],
    seed: None,
};

/// PicoMQ's tables: what a log consists of.
const LOG_TABLES: [&Table; 3] = [&META_LOG, &META_SNAPSHOT, &META_LEASE];

/// All tables.
const TABLES: [&Table; 7] = [
    &META_LOG,
    &META_SNAPSHOT,
    &META_LEASE,
    &AEDILE_LEASE,
    &AEDILE_RUN,
    &AEDILE_NODE,
    &AEDILE_DIVERGENCE,
];

impl Table {
    /// The statement that creates it.
    pub(crate) fn ddl(&self, backend: Backend) -> String {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|column| format!("{} {}", column.0, declared(column, backend)))
            .collect();
        format!(
            "CREATE TABLE IF NOT EXISTS {} ({})",
            self.name,
            columns.join(", ")
        )
    }

    /// Compare what the database has with what is expected.
    fn check(&self, backend: Backend, found: &[(String, String)]) -> Result<(), LogError> {
        let expected: Vec<(String, String)> = self
            .columns
            .iter()
            .map(|column| (column.0.to_owned(), base(declared(column, backend))))
            .collect();
        let held: Vec<(String, String)> = found
            .iter()
            .map(|(name, kind)| (name.clone(), base(kind)))
            .collect();
        if expected == held {
            return Ok(());
        }
        Err(LogError::ForeignTable {
            table: self.name.to_owned(),
            found: show(&held),
            expected: show(&expected),
        })
    }
}

fn declared(column: &Column, backend: Backend) -> &'static str {
    match backend {
        Backend::Sqlite => column.1,
        Backend::Postgres => column.2,
    }
}

/// The type's first word in upper case, and whether the column is the key: on
/// the log's unique index rests which of two appends lands.
fn base(kind: &str) -> String {
    let kind = kind.to_ascii_uppercase();
    let key = if kind.ends_with(KEY_MARK) {
        KEY_MARK
    } else {
        ""
    };
    format!(
        "{}{key}",
        kind.split_whitespace().next().unwrap_or_default()
    )
}

fn show(columns: &[(String, String)]) -> String {
    let columns: Vec<String> = columns
        .iter()
        .map(|(name, kind)| format!("{name} {kind}"))
        .collect();
    format!("({})", columns.join(", "))
}

/// Make sure that every table is there, after a look that found each that was
/// there in its form: in a foreign database none is made. A complete schema is
/// only read, so that a role without the right to create is enough.
pub(crate) async fn ensure(
    store: &dyn Store,
    backend: Backend,
    found: &[TableState],
) -> Result<(), LogError> {
    let mut made = false;
    for (table, state) in TABLES.iter().zip(found) {
        let unseeded = table.seed.is_some() && store.leases().await?.is_empty();
        if !state.present || unseeded {
            store.create(table).await?;
            made = true;
        }
    }
    if made {
        // Another may have created one meanwhile, in another form.
        inspect(store, backend).await?;
    }
    Ok(())
}

/// One table as `aedile check` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableState {
    /// Its name.
    pub name: &'static str,
    /// Whether it is PicoMQ's, so that a log cannot be without it.
    pub of_log: bool,
    /// Whether it is there. One of another form is an error instead.
    pub present: bool,
}

/// Look at every table and create none.
pub(crate) async fn inspect(
    store: &dyn Store,
    backend: Backend,
) -> Result<Vec<TableState>, LogError> {
    let mut tables = Vec::with_capacity(TABLES.len());
    for table in TABLES {
        let found = store.columns(table).await?;
        if let Some(found) = &found {
            table.check(backend, found)?;
        }
        tables.push(TableState {
            name: table.name,
            of_log: LOG_TABLES.contains(&table),
            present: found.is_some(),
        });
    }
    Ok(tables)
}
