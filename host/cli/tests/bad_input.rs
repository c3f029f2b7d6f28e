//! Each kind of bad input: its own message that says what, where and what to
//! do; its exit code; and nothing changed.

#![allow(clippy::unwrap_used)]

mod cluster;

use std::path::Path;

use cluster::{Cluster, Ran};

fn bare(arguments: &[&str]) -> Ran {
    let directory = tempfile::tempdir().unwrap();
    cluster::run(directory.path(), arguments)
}

#[test]
fn a_wrong_url() {
    for (url, expect) in [
        ("http://host/db", "expected sqlite:PATH or postgres://"),
        ("sqlite::memory:", "cannot be shared between nodes"),
        ("sqlite:", "the path is missing"),
    ] {
        bare(&["state", "--meta-url", url])
            .exits(2)
            .says(&["--meta-url", expect]);
    }
}

#[test]
fn a_wrong_storage() {
    for (uri, expect) in [
        ("-2@gs://bucket", "unknown scheme `gs`"),
        ("x@file:///o", "no whole number"),
        ("-2@s3://b?regoin=x", "did you mean `region`?"),
    ] {
        bare(&["plan", "--meta-url=sqlite:x.db", "--storage", uri])
            .exits(2)
            .says(&["--storage", expect]);
    }
}

#[test]
fn a_misspelt_flag_or_command() {
    bare(&["run", "--take-ovr"]).exits(2).says(&["--take-over"]);
    bare(&["pln"]).exits(2).says(&["plan"]);
}

#[test]
fn a_misspelt_key() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("aedile.toml"),
        "ttl = \"10s\"\nmeta_url = \"sqlite:x.db\"\n",
    )
    .unwrap();
    cluster::run(directory.path(), &["status"])
        .exits(2)
        .says(&["aedile.toml:2: unknown key `meta_url`; did you mean `meta-url`?"]);
}

#[test]
fn a_configuration_file_that_is_not_there() {
    bare(&["status", "--config", "nowhere.toml"])
        .exits(2)
        .says(&["nowhere.toml", "cannot be read"]);
}

#[test]
fn a_database_that_is_not_there() {
    bare(&["state", "--meta-url=sqlite:/nowhere/at/all.db"])
        .exits(3)
        .says(&["/nowhere", "cannot be reached"]);
}

#[test]
fn a_database_that_refuses_connections_keeps_its_password_secret() {
    let ran = bare(&[
        "state",
        "--meta-url=postgres://pico:hunter2zz@127.0.0.1:1/pico",
    ])
    .exits(3);
    let ran = ran.says(&["cannot be reached", "pico:***@127.0.0.1:1"]);
    assert!(!ran.stderr.contains("hunter2zz"), "{ran:#?}");
}

#[test]
fn a_read_only_database() {
    let cluster = Cluster::unpack("node-a");
    let mut permissions = std::fs::metadata(cluster.database()).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(cluster.database(), permissions).unwrap();
    // Root may write it all the same, and `check` says what this user may.
    let mut append = std::fs::OpenOptions::new();
    if append.append(true).open(cluster.database()).is_ok() {
        cluster
            .run(&["check"])
            .exits(0)
            .says(&["this user may write"]);
        return;
    }
    cluster
        .run(&["check"])
        .exits(3)
        .says(&["FAIL  database", "read-only"]);
}

#[test]
fn a_foreign_table_of_the_same_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("foreign.db");
    cluster::sql(&file, "CREATE TABLE meta_log (id INTEGER, line TEXT)");
    std::fs::create_dir(directory.path().join("objects")).unwrap();
    let before = std::fs::read(&file).unwrap();
    let flags = ["--meta-url=sqlite:foreign.db", "--storage=file://objects"];
    for command in [
        &["plan"][..],
        &["check"],
        &["run"],
        &["run", "--until-idle"],
    ] {
        let arguments: Vec<&str> = command.iter().chain(&flags).copied().collect();
        cluster::run(directory.path(), &arguments).exits(4).says(&[
            "meta_log",
            "line TEXT",
            "is this the right database?",
        ]);
        assert!(
            std::fs::read(&file).unwrap() == before,
            "{command:?} changed a foreign database"
        );
    }
}

#[test]
fn a_row_that_cannot_be_read_is_named() {
    for (payload, expect) in [
        ("x'09'", "version"),
        ("x'0001000000ff'", "row 184"),
        ("x'00010000'", "row 184"),
    ] {
        let cluster = Cluster::unpack("node-a");
        let statement = format!("INSERT INTO meta_log (idx, payload) VALUES (184, {payload})");
        cluster.sql(Box::leak(statement.into_boxed_str()));
        for command in [
            &["plan"][..],
            &["check"],
            &["run", "--until-idle", "--wait", "1s"],
        ] {
            let before = std::fs::read(cluster.database()).unwrap();
            cluster.run(command).exits(4).says(&["184", expect]);
            if command[0] != "run" {
                assert!(std::fs::read(cluster.database()).unwrap() == before);
            }
        }
    }
}

#[test]
fn a_snapshot_of_an_unknown_version() {
    let cluster = Cluster::unpack("store-b");
    cluster.sql("UPDATE meta_snapshot SET payload = x'07'");
    cluster
        .run(&["plan"])
        .exits(4)
        .says(&["snapshot at index 1803", "version"]);
}

#[test]
fn a_missing_directory_and_one_that_is_none() {
    let cluster = Cluster::unpack("node-a");
    let before = std::fs::read(cluster.database()).unwrap();
    let meta = cluster.meta();
    for (storage, expect) in [
        ("--storage=file://nowhere", "does not exist"),
        ("--storage=file://node-a.db", "is not a directory"),
    ] {
        for command in ["plan", "check", "run"] {
            cluster::run(cluster.path(), &[command, &meta, storage])
                .exits(5)
                .says(&[expect]);
        }
    }
    assert!(
        std::fs::read(cluster.database()).unwrap() == before,
        "the database was changed"
    );
}

#[test]
fn the_wrong_bucket() {
    let cluster = Cluster::unpack("store-b");
    let wrong = cluster.path().join("wrong");
    std::fs::create_dir(&wrong).unwrap();
    std::fs::write(wrong.join("something"), b"else").unwrap();
    let meta = cluster.meta();
    let state = || {
        cluster::run(cluster.path(), &["state", "--json", &meta])
            .exits(0)
            .json()
    };
    let before = state();
    let storage = "--storage=file://wrong";
    cluster::run(cluster.path(), &["check", &meta, storage])
        .exits(5)
        .says(&["wrong bucket", "correct --storage"]);
    cluster::run(cluster.path(), &["plan", &meta, storage]).exits(5);
    cluster::run(cluster.path(), &["run", "--until-idle", &meta, storage]).exits(5);
    let after = state();
    assert_eq!(
        after["destroyed_delete"], before["destroyed_delete"],
        "the catalog forgot bytes that exist elsewhere"
    );
}

#[test]
fn a_file_that_is_no_plugin() {
    let directory = tempfile::tempdir().unwrap();
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(directory.path().join(name), bytes).unwrap();
    write("text.wasm", b"hello");
    write("bare.wasm", &wat::parse_str("(module)").unwrap());
    write(
        "preview1.wasm",
        &wat::parse_str(
            r#"(module (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32))))"#,
        )
        .unwrap(),
    );
    write(
        "other.wasm",
        &wat::parse_str(r#"(component (import "a:b/c" (instance)))"#).unwrap(),
    );
    for (file, expect) in [
        ("text.wasm", "not a Wasm module or component"),
        ("bare.wasm", "aedile:maintenance/plugin"),
        (
            "preview1.wasm",
            "cargo build --release --target wasm32-unknown-unknown",
        ),
        ("other.wasm", "a:b/c"),
    ] {
        cluster::run(directory.path(), &["plugin", "inspect", file])
            .exits(6)
            .says(&[file, "is refused", expect]);
    }
    cluster::run(directory.path(), &["plugin", "inspect", "gone.wasm"])
        .exits(2)
        .says(&["gone.wasm"]);
}

#[test]
fn an_import_that_is_not_granted() {
    let cluster = Cluster::unpack("node-a");
    let plugins = cluster.path().join("plugins");
    std::fs::create_dir(&plugins).unwrap();
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("modules/kv_ttl.wasm");
    std::fs::copy(module, plugins.join("kv_ttl.wasm")).unwrap();
    cluster
        .run(&["check", "--plugin-dir", "plugins"])
        .exits(6)
        .says(&["kv_ttl.wasm", "which is not granted; add \"commands."]);
    std::fs::write(plugins.join("kv_ttl.toml"), "grant = []").unwrap();
    cluster
        .run(&["check", "--plugin-dir", "plugins"])
        .exits(6)
        .says(&["kv_ttl.toml", "did you mean `grants`?"]);
}
