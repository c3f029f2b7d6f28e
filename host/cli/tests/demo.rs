//! The demo holds, and its verdict notices what should not be.

#![allow(clippy::unwrap_used)]

mod cluster;

use std::path::{Path, PathBuf};

use serde_json::Value;

fn check<'a>(verdict: &'a Value, name: &str) -> &'a Value {
    let checks = verdict["checks"].as_array().unwrap();
    checks
        .iter()
        .find(|check| check["name"] == name)
        .unwrap_or_else(|| panic!("{name} is not in {verdict:#}"))
}

/// The objects of the ledger with this fate, as it last stands.
fn with_fate(demo: &Path, fate: &str) -> Vec<u64> {
    let ledger = std::fs::read_to_string(demo.join("ledger.jsonl")).unwrap();
    let mut last = std::collections::BTreeMap::new();
    for line in ledger.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["what"] == "object" {
            last.insert(
                line["id"].as_u64().unwrap(),
                line["fate"].as_str().unwrap().to_owned(),
            );
        }
    }
    last.into_iter()
        .filter(|(_, now)| now == fate)
        .map(|(id, _)| id)
        .collect()
}

fn object(demo: &Path, id: u64) -> PathBuf {
    demo.join("objects").join(aedile_storage::object_key(id))
}

/// Judge again after a change, then undo it.
fn judged(demo: &Path, file: &Path, change: impl FnOnce(&Path)) -> Value {
    let before = std::fs::read(file).ok();
    change(file);
    let verdict = cluster::run(demo, &["demo-verdict", demo.to_str().unwrap()])
        .exits(8)
        .json();
    match before {
        Some(bytes) => std::fs::write(file, bytes).unwrap(),
        None => std::fs::remove_file(file).unwrap(),
    }
    verdict
}

#[test]
fn the_demo_holds_and_its_verdict_notices() {
    let directory = tempfile::tempdir().unwrap();
    let ran = cluster::run(directory.path(), &["demo", "--json", "--dir", "demo"]);
    let verdict = ran.json();
    // How long a takeover took is the machine's as well: a disk that stalls for
    // seconds breaks that bound, and no other.
    let broken: Vec<&str> = verdict["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["held"] != true)
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    assert!(
        broken
            .iter()
            .all(|name| name.starts_with("takeover-after-")),
        "{verdict:#}\n{}",
        ran.stderr
    );
    ran.exits(if broken.is_empty() { 0 } else { 8 });
    for (name, value) in [
        ("live-objects-lost", 0),
        ("destroyed-bytes-left", 0),
        ("reservations-left", 0),
        ("not-applied-once", 0),
        ("swaps", 1),
        ("restarts", 0),
    ] {
        assert_eq!(check(&verdict, name)["value"], value, "{verdict:#}");
    }
    assert!(
        check(&verdict, "killed-in-mid-drain")["value"]
            .as_i64()
            .unwrap()
            > 0
    );

    let demo = directory.path().join("demo");
    let judge = |args: &[&str]| cluster::run(&demo, args);
    judge(&["demo-verdict", demo.to_str().unwrap()]).exits(0);

    let live = object(&demo, with_fate(&demo, "live")[3]);
    let lost = judged(&demo, &live, |file| std::fs::remove_file(file).unwrap());
    assert_eq!(check(&lost, "live-objects-lost")["value"], 1);
    let changed = judged(&demo, &live, |file| {
        let mut bytes = std::fs::read(file).unwrap();
        bytes[0] ^= 1;
        std::fs::write(file, bytes).unwrap();
    });
    assert_eq!(check(&changed, "live-objects-lost")["held"], false);

    let conflict = object(&demo, with_fate(&demo, "conflict")[0]);
    let lost = judged(&demo, &conflict, |file| std::fs::remove_file(file).unwrap());
    assert_eq!(check(&lost, "live-objects-lost")["value"], 1);

    let destroyed = object(&demo, with_fate(&demo, "destroyed")[0]);
    let left = judged(&demo, &destroyed, |file| {
        // Its directories went with it.
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, b"back").unwrap();
    });
    assert_eq!(check(&left, "destroyed-bytes-left")["value"], 1);

    let abandoned = object(&demo, with_fate(&demo, "abandoned")[0]);
    let lost = judged(&demo, &abandoned, |file| {
        std::fs::remove_file(file).unwrap()
    });
    assert_eq!(check(&lost, "other-bytes-lost")["value"], 1);

    let wal = demo.join("objects/notes.txt");
    let lost = judged(&demo, &wal, |file| std::fs::remove_file(file).unwrap());
    assert_eq!(check(&lost, "foreign-files-lost")["value"], 1);

    // A takeover that took too long, a node that began twice.
    let observed = demo.join("observed.jsonl");
    let late = judged(&demo, &observed, |file| {
        let text = std::fs::read_to_string(file).unwrap();
        let lines: Vec<String> = text.lines().map(|line| later(line, 60_000)).collect();
        std::fs::write(file, lines.join("\n") + "\n").unwrap();
    });
    assert_eq!(check(&late, "takeover-after-crash")["held"], false);
    let twice = judged(&demo, &observed, |file| {
        let text = std::fs::read_to_string(file).unwrap();
        let node = text
            .lines()
            .find(|line| line.contains("\"what\":\"node\""))
            .unwrap();
        let mut again: Value = serde_json::from_str(node).unwrap();
        again["started"] = (again["started"].as_i64().unwrap() + 1).into();
        std::fs::write(file, format!("{text}{again}\n")).unwrap();
    });
    assert_eq!(check(&twice, "restarts")["value"], 1);
}

/// A row of the lease whose holder acquired it this much later.
fn later(line: &str, by_ms: i64) -> String {
    let mut line: Value = serde_json::from_str(line).unwrap();
    let row = line["what"] == "lease" && line["expires"].as_i64().unwrap() > 0;
    if row && line["epoch"].as_u64().unwrap() > 1 {
        line["expires"] = (line["expires"].as_i64().unwrap() + by_ms).into();
    }
    line.to_string()
}

#[test]
fn a_directory_that_is_not_empty_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("mine"), b"mine").unwrap();
    cluster::run(directory.path(), &["demo", "--dir", "."])
        .exits(2)
        .says(&["is not empty"]);
    assert_eq!(
        std::fs::read(directory.path().join("mine")).unwrap(),
        b"mine"
    );
}
