//! Input that is wrong: what is said, the exit code, and that nothing changes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use std::path::Path;

use aedile_tests_contract::databases::{Database, Kind};
use aedile_tests_contract::s3::{self, S3Server};
use aedile_tests_e2e::binary;
use aedile_tests_e2e::captured::Captured;
use aedile_tests_e2e::outside;

/// Run it; demand the exit code and that each part is said.
fn refused(code: i32, args: &[&str], parts: &[&str]) {
    refused_with(code, args, &[], parts);
}

fn refused_with(code: i32, args: &[&str], variables: &[(&str, &str)], parts: &[&str]) {
    let output = binary::run_with(args, variables);
    let text = [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .join("");
    assert_eq!(output.status.code(), Some(code), "aedile {args:?}: {text}");
    for part in parts {
        assert!(
            text.contains(part),
            "aedile {args:?} does not say {part:?}: {text}"
        );
    }
    assert!(!text.contains("panicked"), "aedile {args:?}: {text}");
}

/// A captured cluster, and both commands that open everything.
struct Place {
    captured: Captured,
}

impl Place {
    fn new() -> Self {
        Self {
            captured: Captured::unpack("node-a"),
        }
    }

    /// The looking command and the working one are refused alike, and neither
    /// changes a file.
    fn refuses(&self, code: i32, more: &[&str], parts: &[&str]) {
        self.refuses_with(code, more, &[], parts);
    }

    fn refuses_with(&self, code: i32, more: &[&str], variables: &[(&str, &str)], parts: &[&str]) {
        let before = outside::files(self.captured.dir());
        for command in [
            &["check"][..],
            &["plan"],
            &["run", "--until-idle", "--wait", "20s"],
        ] {
            refused_with(code, &[command, more].concat(), variables, parts);
            assert!(
                outside::files(self.captured.dir()) == before,
                "{command:?} {more:?} changed something"
            );
        }
    }
}

#[test]
fn a_wrong_url_says_which_forms_there_are() {
    let place = Place::new();
    let storage = place.captured.storage();
    for (url, part) in [
        ("mysql://localhost/pico", "sqlite:PATH"),
        ("sqlite::memory:", "give a file"),
        ("pico.db", "sqlite:"),
    ] {
        let at = ["--meta-url", url, "--storage", &storage];
        place.refuses(2, &at, &["--meta-url", url, part]);
    }
    let url = place.captured.meta_url();
    for (storage, part) in [
        ("-2@ftp://host/path", "file://"),
        ("70000@file:///tmp", "70000"),
    ] {
        place.refuses(
            2,
            &["--meta-url", &url, "--storage", storage],
            &["--storage", part],
        );
    }
}

#[test]
fn a_configuration_key_that_is_misspelt_is_named_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("aedile.toml");
    std::fs::write(&file, "# ours\nmeta-ulr = \"sqlite:pico.db\"\n").unwrap();
    let file = file.display().to_string();
    refused(
        2,
        &["check", "--config", &file],
        &["aedile.toml:2", "meta-ulr", "meta-url"],
    );
    refused(
        2,
        &["run", "--meta-ulr", "x"],
        &["--meta-ulr", "--meta-url"],
    );
    let at = [
        "--meta-url",
        "sqlite:pico.db",
        "--storage",
        "-2@file:///tmp",
    ];
    refused(
        2,
        &[&["run", "--ttl", "10"][..], &at].concat(),
        &["--ttl", "10s"],
    );
    refused(
        2,
        &["run", "--config", "/nowhere/aedile.toml"],
        &["/nowhere/aedile.toml"],
    );
}

#[test]
fn a_database_that_is_not_there_is_told_by_its_address() {
    let place = Place::new();
    let storage = place.captured.storage();
    // Nobody listens on the port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("postgres://pico:secret@127.0.0.1:{port}/pico");
    let at = ["--meta-url", &url, "--storage", &storage];
    place.refuses(3, &at, &["cannot be reached", &port.to_string(), "refused"]);
    for command in ["check", "plan", "run"] {
        let output = binary::run(&[&[command][..], &at].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        assert!(
            !text.contains("secret"),
            "{command} shows the password: {text}"
        );
    }
}

#[test]
fn a_sqlite_file_that_is_not_there_is_not_made_by_a_look() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("none.db");
    let url = format!("sqlite:{}", file.display());
    let storage = format!("-2@file://{}", dir.path().display());
    for command in ["check", "plan"] {
        refused(
            3,
            &[command, "--meta-url", &url, "--storage", &storage],
            &["none.db"],
        );
        assert!(!file.exists(), "{command} made the file");
    }
}

#[tokio::test]
async fn a_database_that_refuses_writes_is_told_apart() {
    let database = Database::create(Kind::Postgres).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    let url = database
        .role(&[
            "USAGE ON SCHEMA public",
            "SELECT ON ALL TABLES IN SCHEMA public",
        ])
        .await
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let storage = format!("-2@file://{}", dir.path().display());
    let at = ["--meta-url", &url, "--storage", &storage];
    for command in [&["check"][..], &["run", "--until-idle", "--wait", "20s"]] {
        refused(3, &[command, &at].concat(), &["writ"]);
    }
    let made = raw
        .texts("SELECT tablename::text FROM pg_tables WHERE tablename LIKE 'aedile%'")
        .await
        .unwrap();
    assert!(made.is_empty(), "{made:?}");
}

#[tokio::test]
async fn a_foreign_table_is_named_with_its_columns() {
    let place = Place::new();
    let storage = place.captured.storage();
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let database = Database::create(kind).await.unwrap();
        let mut raw = database.raw().await.unwrap();
        raw.run("CREATE TABLE meta_log (name TEXT, at INTEGER)")
            .await
            .unwrap();
        raw.close().await.unwrap();
        let url = database.url();
        place.refuses(
            4,
            &["--meta-url", &url, "--storage", &storage],
            &["meta_log", "name", "idx", "right database"],
        );
        let tables = match kind {
            Kind::Sqlite => "SELECT name FROM sqlite_master WHERE type = 'table'",
            Kind::Postgres => "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'",
        };
        let mut raw = database.raw().await.unwrap();
        assert_eq!(raw.texts(tables).await.unwrap(), ["meta_log"], "{kind:?}");
    }
}

/// Put a payload behind the end of the log.
async fn append(place: &Place, payload: &[u8]) -> i64 {
    let mut raw = outside::connect(&place.captured.meta_url()).await;
    let index = raw.last().await.unwrap() + 1;
    assert!(raw.append(index, payload).await.unwrap());
    raw.close().await.unwrap();
    index
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_named_by_its_index() {
    for (payload, part) in [
        // An unknown version; an unknown command; a count that nothing follows.
        (&b"\x09\x00\x00\x00\x00"[..], "version byte 9"),
        (b"\x00\x01\x00\x00\x00\xfa", "250"),
        (b"\x00\xff\xff\xff\x7f", ""),
    ] {
        let place = Place::new();
        let index = append(&place, payload).await;
        let (url, storage) = (place.captured.meta_url(), place.captured.storage());
        place.refuses(
            4,
            &["--meta-url", &url, "--storage", &storage],
            &[&format!("row {index}"), part],
        );
    }
}

#[tokio::test]
async fn a_snapshot_of_an_unknown_version_is_named() {
    let place = Place::new();
    let mut raw = outside::connect(&place.captured.meta_url()).await;
    let index = raw.last().await.unwrap();
    assert!(raw.store_snapshot(index, &[9, 0, 0, 0]).await.unwrap());
    raw.close().await.unwrap();
    let (url, storage) = (place.captured.meta_url(), place.captured.storage());
    place.refuses(
        4,
        &["--meta-url", &url, "--storage", &storage],
        &["snapshot", &index.to_string(), "version"],
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_missing_or_denied_is_told_apart() {
    let place = Place::new();
    let url = place.captured.meta_url();
    let nowhere = format!("-2@file://{}/nowhere", place.captured.dir().display());
    place.refuses(
        5,
        &["--meta-url", &url, "--storage", &nowhere],
        &["nowhere", "--storage"],
    );

    let server = S3Server::start("records").await.unwrap();
    let credentials = server.environment();
    let missing = server.uri_of("no-such-bucket");
    let at = ["--meta-url", url.as_str(), "--storage", missing.as_str()];
    tokio::task::block_in_place(|| {
        place.refuses_with(5, &at, &credentials, &["no-such-bucket"]);
    });
    let uri = server.uri();
    let at = ["--meta-url", url.as_str(), "--storage", uri.as_str()];
    let wrong = [
        ("AWS_ACCESS_KEY_ID", s3::ACCESS_KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", "not the secret"),
    ];
    tokio::task::block_in_place(|| {
        place.refuses_with(
            5,
            &at,
            &wrong,
            &["records", "refuses access", "credentials"],
        );
    });
}

/// A file that holds these bytes.
fn file(dir: &Path, name: &str, bytes: &[u8]) -> String {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

#[test]
fn a_file_that_is_no_plugin_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let text = file(dir.path(), "text.wasm", b"hello");
    refused(
        6,
        &["plugin", "inspect", &text],
        &["text.wasm", "not a Wasm module"],
    );
    // A component that is of no world.
    let empty = file(dir.path(), "empty.wasm", b"\0asm\x0d\0\x01\0");
    refused(
        6,
        &["plugin", "inspect", &empty],
        &["empty.wasm", "aedile:"],
    );
    // A module of WASI preview 1: it imports `fd_write` of it.
    let preview1 = file(dir.path(), "preview1.wasm", &preview1());
    refused(
        6,
        &["plugin", "inspect", &preview1],
        &["preview1.wasm", "preview 1", "cargo build", "wasm32-"],
    );
    refused(
        2,
        &["plugin", "inspect", "/nowhere.wasm"],
        &["/nowhere.wasm"],
    );
}

/// `(module (type (func)) (import "wasi_snapshot_preview1" "fd_write" (func (type 0))))`
fn preview1() -> Vec<u8> {
    let (module, name) = (b"wasi_snapshot_preview1", b"fd_write");
    let mut import = vec![1, module.len() as u8];
    import.extend_from_slice(module);
    import.push(name.len() as u8);
    import.extend_from_slice(name);
    import.extend_from_slice(&[0, 0]);
    let mut bytes = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x02".to_vec();
    bytes.push(import.len() as u8);
    bytes.extend_from_slice(&import);
    bytes
}

#[test]
fn a_plugin_without_its_grants_fails_check_with_the_line_to_add() {
    let place = Place::new();
    let (url, storage) = (place.captured.meta_url(), place.captured.storage());
    let dir = tempfile::tempdir().unwrap();
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../host/cli/modules/kv_ttl.wasm");
    std::fs::copy(module, dir.path().join("kv_ttl.wasm")).unwrap();
    let plugins = dir.path().display().to_string();
    let at = [
        "check",
        "--meta-url",
        &url,
        "--storage",
        &storage,
        "--plugin-dir",
        &plugins,
    ];
    refused(6, &at, &["kv_ttl.wasm", "commands.delete-kv", "`grants`"]);
    std::fs::write(dir.path().join("kv_ttl.toml"), "grnats = []\n").unwrap();
    refused(6, &at, &["kv_ttl.toml", "grnats", "grants"]);
}
