//! Opening a database: the tables, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test ends with what went wrong")]

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

use aedile_log::{Log, LogError, LogErrorKind, LogOptions, Reader};
use aedile_state::State;
use aedile_tests_contract::databases::{Database, Kind, Raw};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::logs::{clock, create_stream, id, meta_url, open, propose, register};

for_each_database!(
    a_complete_schema_is_only_read,
    tables_of_picomq_are_never_altered,
    a_foreign_table_is_named_with_its_columns_and_nothing_is_made,
    a_table_without_its_key_is_foreign,
    a_reader_makes_nothing,
    an_unknown_snapshot_version_is_said,
    a_corrupt_row_is_named_by_its_index_at_the_start,
    a_log_that_begins_in_the_middle_is_said,
    an_index_that_is_none_is_said,
    clients_that_start_at_once_make_the_tables_together,
);

/// Everything that describes the tables and what stands in the lease row.
async fn picture(raw: &mut Raw) -> Vec<String> {
    let tables = match raw {
        // An index that SQLite makes by itself has no text of its own.
        Raw::Sqlite(_) => {
            "SELECT name || ': ' || coalesce(sql, 'by itself') FROM sqlite_master ORDER BY name"
        }
        Raw::Postgres(_) => {
            "SELECT c.oid || ' ' || c.relname || ' ' || c.relfilenode || ' ' || c.xmin || ' ' \
             || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull \
             FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid \
             WHERE c.relnamespace = 'public'::regnamespace AND a.attnum > 0 \
             ORDER BY c.relname, a.attnum"
        }
    };
    raw.texts(tables).await.unwrap()
}

async fn tables(raw: &mut Raw) -> BTreeSet<String> {
    let sql = match raw {
        Raw::Sqlite(_) => "SELECT name FROM sqlite_master WHERE type = 'table'",
        Raw::Postgres(_) => "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'",
    };
    raw.texts(sql).await.unwrap().into_iter().collect()
}

async fn refused(url: &str) -> LogError {
    match open(url, LogOptions::default()).await {
        Ok(_) => panic!("{url} was opened"),
        Err(error) => error,
    }
}

async fn a_complete_schema_is_only_read(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let log = open(&database.url(), LogOptions::default()).await.unwrap();
    log.close().await;
    let mut raw = database.raw().await.unwrap();
    let made = picture(&mut raw).await;
    for table in [
        "meta_log",
        "meta_snapshot",
        "meta_lease",
        "aedile_lease",
        "aedile_run",
        "aedile_node",
        "aedile_divergence",
    ] {
        assert!(tables(&mut raw).await.contains(table), "{table} is missing");
    }
    assert_eq!(
        raw.texts("SELECT id || holder || epoch || expires_at_ms FROM meta_lease")
            .await
            .unwrap(),
        ["000"],
    );
    let writes = writes(&mut raw).await;
    for _ in 0..3 {
        open(&database.url(), LogOptions::default())
            .await
            .unwrap()
            .close()
            .await;
    }
    assert_eq!(picture(&mut raw).await, made);
    assert_eq!(
        self::writes(&mut raw).await,
        writes,
        "a complete schema was written to"
    );
}

/// A figure that grows with every write of another connection.
async fn writes(raw: &mut Raw) -> i64 {
    let sql = match raw {
        Raw::Sqlite(_) => "PRAGMA data_version",
        // The transaction that wrote the only row that opening could write.
        Raw::Postgres(_) => "SELECT xmin::text::bigint FROM meta_lease",
    };
    raw.integers(sql).await.unwrap()[0]
}

async fn tables_of_picomq_are_never_altered(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    raw.run("UPDATE meta_lease SET holder = 'node-3-17', epoch = 9, expires_at_ms = 55")
        .await
        .unwrap();
    raw.append_next(&[register()]).await.unwrap();
    let before = picture(&mut raw).await;

    let log = open(&database.url(), LogOptions::default()).await.unwrap();
    let stream = propose(&log, create_stream()).await;
    assert_eq!(id(&stream), 0);
    log.close().await;

    let after = picture(&mut raw).await;
    for line in &before {
        assert!(after.contains(line), "altered: {line}");
    }
    assert_eq!(
        raw.texts("SELECT holder || ' ' || epoch || ' ' || expires_at_ms FROM meta_lease")
            .await
            .unwrap(),
        ["node-3-17 9 55"],
    );
}

async fn a_foreign_table_is_named_with_its_columns_and_nothing_is_made(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    for table in [
        "meta_log",
        "meta_snapshot",
        "meta_lease",
        "aedile_lease",
        "aedile_run",
        "aedile_node",
        "aedile_divergence",
    ] {
        raw.run(&format!(
            "CREATE TABLE {table} (account TEXT, balance INTEGER)"
        ))
        .await
        .unwrap();
        let error = refused(&database.url()).await;
        assert_eq!(error.kind(), LogErrorKind::Content, "{error}");
        let text = error.to_string();
        for part in [table, "account", "balance", "expected"] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
        assert_eq!(tables(&mut raw).await, BTreeSet::from([table.to_owned()]));
        raw.run(&format!("DROP TABLE {table}")).await.unwrap();
    }
}

async fn a_table_without_its_key_is_foreign(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    // The unique index is what decides between two appends.
    let sql = match kind {
        Kind::Sqlite => "CREATE TABLE meta_log (idx INTEGER NOT NULL, payload BLOB NOT NULL)",
        Kind::Postgres => "CREATE TABLE meta_log (idx BIGINT NOT NULL, payload BYTEA NOT NULL)",
    };
    raw.run("DROP TABLE meta_log").await.unwrap();
    raw.run(sql).await.unwrap();
    let error = refused(&database.url()).await;
    assert!(matches!(error, LogError::ForeignTable { .. }), "{error}");
    assert!(error.to_string().contains("meta_log"), "{error}");
}

async fn a_reader_makes_nothing(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    let reader = Reader::open(&meta_url(&database.url()), &clock())
        .await
        .unwrap();
    let error = reader.view().await.unwrap_err();
    assert!(matches!(error, LogError::MissingTable { .. }), "{error}");
    assert_eq!(reader.nodes().await.unwrap(), []);
    assert_eq!(reader.runs(10).await.unwrap(), []);
    assert_eq!(reader.lease_rows().await.unwrap(), []);
    reader.close().await;
    assert_eq!(tables(&mut raw).await, BTreeSet::new());

    raw.make_tables().await.unwrap();
    raw.append_next(&[register(), create_stream()])
        .await
        .unwrap();
    let before = picture(&mut raw).await;
    let writes = writes(&mut raw).await;
    let reader = Reader::open(&meta_url(&database.url()), &clock())
        .await
        .unwrap();
    let view = reader.view().await.unwrap();
    assert_eq!((view.index, view.state.counts().streams), (1, 1));
    assert_eq!(reader.lease_rows().await.unwrap().len(), 1);
    reader.database_now().await.unwrap();
    reader.close().await;
    assert_eq!(picture(&mut raw).await, before);
    assert_eq!(self::writes(&mut raw).await, writes);
}

async fn an_unknown_snapshot_version_is_said(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    let mut payload = State::new().encode_snapshot();
    payload[0] = 7;
    raw.store_snapshot(41, &payload).await.unwrap();
    let error = refused(&database.url()).await;
    assert!(
        matches!(error, LogError::Snapshot { index: 41, .. }),
        "{error}"
    );
    assert!(
        std::error::Error::source(&error).is_some() || error.to_string().contains('7'),
        "{error}"
    );
}

async fn a_corrupt_row_is_named_by_its_index_at_the_start(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    raw.append_next(&[register()]).await.unwrap();
    raw.append(2, b"\x00\x01\x00\x00\x00\xc8").await.unwrap();
    let error = refused(&database.url()).await;
    assert!(matches!(error, LogError::Row { index: 2, .. }), "{error}");
    let reader = Reader::open(&meta_url(&database.url()), &clock())
        .await
        .unwrap();
    let error = reader.view().await.unwrap_err();
    assert!(matches!(error, LogError::Row { index: 2, .. }), "{error}");
    reader.close().await;
}

async fn a_log_that_begins_in_the_middle_is_said(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    raw.append_next(&[register()]).await.unwrap();
    raw.append_next(&[create_stream()]).await.unwrap();
    raw.truncate(1).await.unwrap();
    let error = refused(&database.url()).await;
    assert!(
        matches!(
            error,
            LogError::Gap {
                expected: 1,
                found: 2
            }
        ),
        "{error}"
    );
}

async fn an_index_that_is_none_is_said(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    raw.store_snapshot(-5, &State::new().encode_snapshot())
        .await
        .unwrap();
    let error = refused(&database.url()).await;
    assert!(
        matches!(error, LogError::Index { value: -5, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_role_that_may_not_create_works_on_a_complete_schema() {
    let database = Database::create(Kind::Postgres).await.unwrap();
    open(&database.url(), LogOptions::default())
        .await
        .unwrap()
        .close()
        .await;
    let mut raw = database.raw().await.unwrap();
    raw.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        .await
        .unwrap();
    raw.run(
        "DO $$ BEGIN EXECUTE format('REVOKE TEMPORARY, CREATE ON DATABASE %I FROM PUBLIC', \
         current_database()); END $$",
    )
    .await
    .unwrap();
    let url = database
        .role(&["SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public"])
        .await
        .unwrap();
    let log = open(
        &url,
        LogOptions {
            snapshot_every: Some(1),
            ..LogOptions::default()
        },
    )
    .await
    .unwrap();
    propose(&log, register()).await;
    assert_eq!(id(&propose(&log, create_stream()).await), 0);
    log.records()
        .heartbeat(&aedile_log::NodeRecord {
            node: "n".to_owned(),
            started: aedile_clock::UnixMillis(1),
            seen: aedile_clock::UnixMillis(0),
            version: "0".to_owned(),
            applied_index: 1,
            status: Default::default(),
        })
        .await
        .unwrap();
    log.close().await;
}

#[tokio::test]
async fn a_role_or_a_database_that_may_not_write_is_told_apart() {
    let database = Database::create(Kind::Postgres).await.unwrap();
    open(&database.url(), LogOptions::default())
        .await
        .unwrap()
        .close()
        .await;
    let role = database
        .role(&["SELECT ON ALL TABLES IN SCHEMA public"])
        .await
        .unwrap();
    let error = refused(&role).await;
    assert_eq!(error.kind(), LogErrorKind::ReadOnly, "{error}");
    assert!(
        !error.to_string().contains(role.rsplit_once('@').unwrap().0),
        "{error}"
    );
    // It may read, though.
    let reader = Reader::open(&meta_url(&role), &clock()).await.unwrap();
    assert_eq!(reader.view().await.unwrap().index, 0);
    reader.close().await;

    let mut raw = database.raw().await.unwrap();
    raw.run(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', \
         current_database()); END $$",
    )
    .await
    .unwrap();
    let error = refused(&database.url()).await;
    assert_eq!(error.kind(), LogErrorKind::ReadOnly, "{error}");

    // Where nothing is there yet, a role that may not create says so, too.
    let empty = Database::create(Kind::Postgres).await.unwrap();
    let mut raw = empty.raw().await.unwrap();
    raw.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        .await
        .unwrap();
    let error = refused(&empty.role(&[]).await.unwrap()).await;
    assert_eq!(error.kind(), LogErrorKind::ReadOnly, "{error}");
}

/// Run on a thread whose file access is that of an ordinary user, whoever runs
/// the tests. Threads that it starts are the same.
fn as_ordinary_user<T: Send + 'static>(
    directory: &Path,
    body: impl AsyncFnOnce() -> T + Send + 'static,
) -> T {
    let owner = nix::unistd::Uid::from_raw(65_534);
    if nix::unistd::geteuid().is_root() {
        for entry in std::fs::read_dir(directory).unwrap() {
            std::os::unix::fs::chown(entry.unwrap().path(), Some(owner.as_raw()), None).unwrap();
        }
        std::os::unix::fs::chown(directory, Some(owner.as_raw()), None).unwrap();
    }
    std::thread::spawn(move || {
        if nix::unistd::geteuid().is_root() {
            nix::unistd::setfsuid(owner);
        }
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(body())
    })
    .join()
    .unwrap()
}

/// The files of a directory, each with a hash of its bytes.
fn files(directory: &Path) -> BTreeSet<(String, u64)> {
    std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let mut hasher = DefaultHasher::new();
            std::fs::read(entry.path()).unwrap().hash(&mut hasher);
            (entry.file_name().into_string().unwrap(), hasher.finish())
        })
        .collect()
}

fn chmod(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_file_that_may_not_be_written_is_told_apart() {
    let database = Database::create(Kind::Sqlite).await.unwrap();
    let log = open(&database.url(), LogOptions::default()).await.unwrap();
    propose(&log, register()).await;
    log.close().await;
    let (directory, path) = (database.directory().unwrap(), database.path().unwrap());
    let url = database.url();
    chmod(&path, 0o444);
    let error = as_ordinary_user(directory, async move || refused(&url).await);
    assert_eq!(error.kind(), LogErrorKind::ReadOnly, "{error}");

    let url = database.url();
    chmod(&path, 0o644);
    chmod(directory, 0o555);
    let error = as_ordinary_user(directory, async move || refused(&url).await);
    chmod(directory, 0o755);
    assert_eq!(error.kind(), LogErrorKind::ReadOnly, "{error}");
}

#[tokio::test]
async fn a_reader_of_a_file_creates_no_file_and_changes_no_byte() {
    let database = Database::create(Kind::Sqlite).await.unwrap();
    let log = open(&database.url(), LogOptions::default()).await.unwrap();
    propose(&log, register()).await;
    propose(&log, create_stream()).await;
    log.close().await;
    let directory = database.directory().unwrap();
    let before = files(directory);
    assert_eq!(
        before.len(),
        1,
        "a client that closed leaves the file alone"
    );
    let look = |url: String| {
        async move || {
            let reader = Reader::open(&meta_url(&url), &clock()).await.unwrap();
            let view = reader.view().await.unwrap();
            reader.lease_rows().await.unwrap();
            reader.close().await;
            view.state.counts().streams
        }
    };
    assert_eq!(look(database.url())().await, 1);
    assert_eq!(files(directory), before);

    // In a directory where nobody could make a file, too.
    chmod(directory, 0o555);
    let streams = as_ordinary_user(directory, look(database.url()));
    chmod(directory, 0o755);
    assert_eq!(streams, 1);
    assert_eq!(files(directory), before);
}

#[tokio::test]
async fn a_reader_sees_what_stands_only_in_the_write_ahead_log() {
    let database = Database::create(Kind::Sqlite).await.unwrap();
    let log = open(&database.url(), LogOptions::default()).await.unwrap();
    let reader = Reader::open(&meta_url(&database.url()), &clock())
        .await
        .unwrap();
    for streams in 1..=3_usize {
        propose(
            &log,
            if streams == 1 {
                register()
            } else {
                create_stream()
            },
        )
        .await;
        assert_eq!(
            reader.view().await.unwrap().state.counts().streams,
            streams - 1
        );
    }
    // A copy of both files, as a backup has it, in a directory of its own.
    let copy = tempfile::TempDir::new().unwrap();
    for name in ["meta.db", "meta.db-wal"] {
        std::fs::copy(
            database.directory().unwrap().join(name),
            copy.path().join(name),
        )
        .unwrap();
    }
    reader.close().await;
    log.close().await;
    let url = format!("sqlite:{}", copy.path().join("meta.db").display());
    let result = Reader::open(&meta_url(&url), &clock()).await;
    match result {
        // Either it reads all of it, or it says that it cannot.
        Ok(reader) => {
            assert_eq!(reader.view().await.unwrap().state.counts().streams, 2);
            reader.close().await;
        }
        Err(error) => panic!("{error}"),
    }
    chmod(copy.path(), 0o555);
    let url_of_copy = url.clone();
    let streams = as_ordinary_user(copy.path(), async move || {
        let reader = Reader::open(&meta_url(&url_of_copy), &clock()).await?;
        let view = reader.view().await;
        reader.close().await;
        view.map(|view| view.state.counts().streams)
    });
    chmod(copy.path(), 0o755);
    match streams {
        Ok(streams) => assert_eq!(streams, 2, "rows in the write-ahead log were left out"),
        Err(error) => assert!(error.to_string().contains("-wal"), "{error}"),
    }
}

#[tokio::test]
async fn a_place_without_a_database_is_told() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().display();
    for (url, part) in [
        (format!("sqlite:{path}/none/meta.db"), "none"),
        (format!("sqlite:{path}"), "directory"),
    ] {
        let error = refused(&url).await;
        assert_eq!(error.kind(), LogErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    // A reader makes no file.
    let url = format!("sqlite:{path}/meta.db");
    let error = Reader::open(&meta_url(&url), &clock()).await.unwrap_err();
    assert!(error.to_string().contains("meta.db"), "{error}");
    assert_eq!(files(directory.path()), BTreeSet::new());

    std::fs::write(
        directory.path().join("meta.db"),
        "not a database, but long enough to look at".repeat(20),
    )
    .unwrap();
    let error = refused(&url).await;
    assert!(error.to_string().contains("not a database"), "{error}");
    let reader = match Reader::open(&meta_url(&url), &clock()).await {
        Ok(reader) => reader.view().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(reader.to_string().contains("not a database"), "{reader}");
}

#[tokio::test]
async fn a_server_that_refuses_or_hangs_is_unreachable_in_time() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = LogOptions {
        connect_timeout: Duration::from_millis(300),
        ..LogOptions::default()
    };
    let url = format!("postgres://postgres:secret@127.0.0.1:{port}/db");
    let clock = clock();
    let began = clock.boot();
    // It takes the connection and says nothing.
    let error = match Log::open(&meta_url(&url), options.clone(), clock.clone()).await {
        Ok(_) => panic!("opened"),
        Err(error) => error,
    };
    assert!(matches!(error, LogError::Unreachable { .. }), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    assert!(clock.boot().since(began) < Duration::from_secs(5));
    drop(listener);
    let error = refused(&url).await;
    assert!(matches!(error, LogError::Unreachable { .. }), "{error}");

    let database = Database::create(Kind::Postgres).await.unwrap();
    let missing = format!("{}_none", database.url());
    let error = refused(&missing).await;
    assert!(error.to_string().contains("does not exist"), "{error}");
}

/// `CREATE TABLE IF NOT EXISTS` of many sessions at once fails in several ways;
/// a cluster's first nodes start at the same moment. Thirty clusters of eight.
async fn clients_that_start_at_once_make_the_tables_together(kind: Kind) {
    let rounds = match kind {
        Kind::Sqlite => 30,
        Kind::Postgres => 30,
    };
    for round in 0..rounds {
        let database = Database::create(kind).await.unwrap();
        let url = database.url();
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let url = url.clone();
            clients.spawn(async move { open(&url, LogOptions::default()).await });
        }
        for opened in clients.join_all().await {
            let log = opened.unwrap_or_else(|error| panic!("round {round}: {error}"));
            log.close().await;
        }
    }
}
