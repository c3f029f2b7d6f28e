//! What the author of a plugin uses, from the command line.

#![allow(clippy::unwrap_used)]

mod cluster;

use std::path::Path;

use cluster::Cluster;

fn files(folder: &Path) -> Vec<String> {
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    found
}

#[test]
fn a_new_project_is_whole_and_says_what_comes_next() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    cluster::run(root, &["plugin", "new", "night-watch"])
        .exits(0)
        .says(&[
            "cd night-watch",
            "cargo test",
            "cargo build --release --target wasm32-unknown-unknown",
            "aedile plugin test target/wasm32-unknown-unknown/release/night_watch.wasm",
            "aedile plugin deploy target/wasm32-unknown-unknown/release/night_watch.wasm",
        ]);
    let project = root.join("night-watch");
    assert_eq!(
        files(&project),
        [
            ".gitignore",
            "Cargo.lock",
            "Cargo.toml",
            "README.md",
            "manifest.json",
            "night-watch.toml",
            "src",
            "vendor"
        ]
    );
    let manifest = std::fs::read_to_string(project.join("manifest.json")).unwrap();
    assert!(manifest.contains(r#""name": "night-watch""#), "{manifest}");
    assert!(project.join("vendor/aedile-plugin/wit/world.wit").is_file());
}

#[test]
fn nothing_is_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    std::fs::create_dir(root.join("mine")).unwrap();
    std::fs::write(root.join("mine/README.md"), "mine").unwrap();
    cluster::run(root, &["plugin", "new", "watch", "--dir", "mine"])
        .exits(2)
        .says(&["mine: the folder is not empty", "--dir"]);
    assert_eq!(files(&root.join("mine")), ["README.md"]);
    std::fs::write(root.join("file"), "").unwrap();
    cluster::run(root, &["plugin", "new", "watch", "--dir", "file"])
        .exits(2)
        .says(&["file: a project cannot be written there"]);
    std::fs::create_dir(root.join("empty")).unwrap();
    let ran = cluster::run(root, &["plugin", "new", "watch", "--dir=empty", "--json"]);
    let told = ran.exits(0).json();
    assert_eq!(told["folder"], "empty");
    assert!(root.join("empty/src/lib.rs").is_file());
}

#[test]
fn a_wrong_name_and_an_unknown_language_write_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for (arguments, expect) in [
        (&["plugin", "new", "Night"][..], "begins with a letter"),
        (&["plugin", "new", "../night"], "begins with a letter"),
        (
            &["plugin", "new", "cleaner"],
            "a built-in plugin has this name",
        ),
        (
            &["plugin", "new", "night", "--lang", "cobol"],
            "no template for `cobol`",
        ),
        (
            &["plugin", "new", "night", "--lang=go"],
            "Go is not supported yet",
        ),
    ] {
        cluster::run(directory.path(), arguments)
            .exits(2)
            .says(&[expect]);
    }
    assert_eq!(files(directory.path()), [""; 0]);
}

fn fitting(module: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("modules");
    path.join(module).display().to_string()
}

#[test]
fn an_exported_state_is_tried_as_the_database_is() {
    let cluster = Cluster::unpack("store-b");
    let before = cluster.bytes();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.state").display().to_string();
    let export = ["state", "export", &file, &cluster.meta()];
    cluster::run(folder.path(), &export)
        .exits(0)
        .says(&["the state at log index"]);
    cluster::run(folder.path(), &export)
        .exits(2)
        .says(&["the file is there already"]);
    // The cleaner as it ships bears every attack, on what PicoMQ wrote.
    let objects = cluster.objects().display().to_string();
    let database = cluster.database().display().to_string();
    let try_on = |state: &str| {
        let state = format!("--state={state}");
        let arguments = [
            "plugin",
            "test",
            "cleaner",
            &state,
            "--json",
            "--attacks=40",
        ];
        let storage = ["--storage", &objects];
        let ran = cluster::run(folder.path(), &[&arguments[..], &storage].concat());
        ran.exits(0).json()
    };
    let mut trials = [try_on(&file), try_on(&database)];
    for trial in &mut trials {
        trial["now"] = 0.into();
    }
    assert_eq!(trials[0], trials[1]);
    assert_eq!(trials[0]["passed"], true);
    assert!(!trials[0]["deletes"].as_array().unwrap().is_empty());
    assert_eq!(trials[0]["divergences"].as_array().unwrap().len(), 0);
    assert!(trials[0]["tried"].as_u64().unwrap() > 3);
    assert_eq!(cluster.bytes(), before, "nothing was written");
}

#[test]
fn expectations_are_a_part_of_what_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let expect = |text: &str| {
        std::fs::write(root.join("expect.json"), text).unwrap();
        let arguments = ["plugin", "test", "expiry", "--expect", "expect.json"];
        cluster::run(root, &arguments)
    };
    expect(r#"{"ticks": [{"outcome": "done"}], "deletes": []}"#)
        .exits(0)
        .says(&["the same end after each", "nothing was written"]);
    expect(r#"{"deletes": [{"id": 7}]}"#)
        .exits(6)
        .says(&["not as expected: deletes: 1 expected, 0 found"]);
    expect("[]")
        .exits(2)
        .says(&["--expect", "must be an object"]);
    expect("{").exits(2).says(&["it is no JSON"]);
}

#[test]
fn a_state_that_is_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::write(root.join("a.txt"), "hello").unwrap();
    std::fs::write(root.join("newer.state"), "{\"aedile-state\":2}\n").unwrap();
    for (state, expect) in [
        (
            "a.txt",
            "no state that `aedile state export` wrote, and no SQLite database",
        ),
        ("newer.state", "form 2, and this version reads form 1"),
        ("missing.state", "cannot be read"),
        ("http://host/db", "expected sqlite:PATH or postgres://"),
    ] {
        cluster::run(root, &["plugin", "test", "expiry", "--state", state])
            .exits(2)
            .says(&["--state", expect]);
    }
    cluster::run(root, &["plugin", "test", "expiry", "--at", "soon"])
        .exits(2)
        .says(&["--at", "write 2026-12-31T23:59:59Z"]);
    cluster::run(root, &["plugin", "test", "cleaner"])
        .exits(2)
        .says(&["`storage` is not set"]);
}

#[test]
fn a_module_is_checked_without_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let module = fitting("kv_ttl.wasm");
    cluster::run(root, &["plugin", "check", &module])
        .exits(6)
        .says(&["FAIL", "it refuses its configuration", "rules"]);
    let rules = "grants = [\"state\", \"metrics\", \"commands.put-kv\", \"commands.delete-kv\"]\n\
                 [config]\nrules = [{ prefix = \"tmp/\", ttl = \"1h\" }]\n";
    std::fs::write(root.join("kv.toml"), rules).unwrap();
    let ran = cluster::run(
        root,
        &["plugin", "check", &module, "--settings=kv.toml", "--json"],
    );
    let told = ran.exits(0).json();
    assert_eq!(
        (&told["ok"], &told["name"]),
        (&true.into(), &"kv-ttl".into())
    );
    std::fs::write(
        root.join("kv.toml"),
        format!("{rules}[limits]\nmemory = \"64KiB\"\n"),
    )
    .unwrap();
    cluster::run(root, &["plugin", "check", &module, "--settings=kv.toml"])
        .exits(6)
        .says(&["FAIL memory"]);
    std::fs::write(root.join("bad.wasm"), "(module)").unwrap();
    cluster::run(root, &["plugin", "check", "bad.wasm"])
        .exits(6)
        .says(&["bad.wasm is refused"]);
}

#[test]
fn a_module_is_measured_beside_its_limits() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["plugin", "bench", "expiry", "--runs=5"];
    cluster::run(folder.path(), &arguments).exits(0).says(&[
        "fuel",
        "memory",
        "host-call-bytes",
        "64.0 MiB",
    ]);
    let json = [&arguments[..], &["--json"]].concat();
    let fuel = || cluster::run(folder.path(), &json).exits(0).json()["fuel"].clone();
    assert_eq!(fuel(), fuel());
    assert!(fuel().as_u64().unwrap() > 100);
}
