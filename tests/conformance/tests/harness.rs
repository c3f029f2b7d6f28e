//! The checks can fail: every kind of capture, damaged, is told by its name.

use std::path::Path;

use aedile_tests_conformance::captures::{Form, captures, read};
use aedile_tests_conformance::check_all;
use aedile_tests_conformance::report::Report;

/// A file of the tree's own captures, as text.
fn own(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures")
        .join(name);
    String::from_utf8(read(&path)).expect("a capture is text")
}

/// Checks a directory of the files given.
fn checked(files: &[(&str, &[u8])]) -> Report {
    let dir = tempfile::tempdir().expect("a directory can be made");
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).expect("a file can be written");
    }
    let mut report = Report::default();
    check_all(&captures(dir.path()), &mut report);
    report
}

/// The one text changed into the other, once.
fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "the capture has no {from}");
    text.replacen(from, to, 1)
}

/// The file passes under another name, and fails after the change.
fn fails_after(name: &str, stored: &str, from: &str, to: &str, told: &str) {
    let text = own(stored);
    let sound = checked(&[(name, text.as_bytes())]);
    assert!(
        sound.failures.is_empty() && sound.checked() > 0,
        "{:?}",
        sound.failures
    );
    let damaged = checked(&[(name, changed(&text, from, to).as_bytes())]);
    let first = damaged.failures.first().expect("the damage is seen");
    assert!(first.contains(name) && first.contains(told), "{first}");
}

#[test]
fn a_wrong_answer_is_seen() {
    let (from, to) = (r#""code":1,"#, r#""code":4,"#);
    fails_after("later-1.jsonl", "apply.jsonl.zst", from, to, "answer");
    fails_after("later-2.jsonl", "fuzz-a.jsonl.zst", from, to, "answer");
}

#[test]
fn another_snapshot_is_seen() {
    let (from, to) = (r#""snapshot_len":"#, r#""snapshot_len":1"#);
    fails_after(
        "later-1.jsonl",
        "apply.jsonl.zst",
        from,
        to,
        "snapshot length",
    );
    let (from, to) = (r#""roundtrip_equal":true"#, r#""roundtrip_equal":false"#);
    fails_after(
        "later-2.jsonl",
        "fuzz-a.jsonl.zst",
        from,
        to,
        "after a decode",
    );
}

#[test]
fn another_encoding_is_seen() {
    let (from, to) = (r#""slots":4"#, r#""slots":5"#);
    fails_after("later.jsonl", "codec.jsonl", from, to, "commands");
    let (from, to) = (
        r#"{"error":"UnsupportedVersion","v":1}"#,
        r#"{"error":"Corrupt"}"#,
    );
    fails_after("later.jsonl", "codec.jsonl", from, to, "class");
    let (from, to) = (
        r#""batch_hex":"","corrupt""#,
        r#""batch_hex":"0000000000","corrupt""#,
    );
    fails_after("later.jsonl", "codec.jsonl", from, to, "decodes to");
}

/// A damaged payload can be a valid one still; then its commands are stated.
#[test]
fn what_still_decodes_is_compared() {
    let line = |expect: &str| {
        format!(
            r#"{{"corrupt":"bit","batch_hex":"000100000009{}","expect":{expect}}}"#,
            "00".repeat(8)
        )
    };
    let commands = r#"[{"type":9,"name":"ExpirePreparedObjects","now_ms":0}]"#;
    for sound in [
        format!(r#"{{"ok":{commands}}}"#),
        commands.to_owned(),
        r#"{"ok":1}"#.to_owned(),
    ] {
        let report = checked(&[("later.jsonl", line(&sound).as_bytes())]);
        assert!(
            report.failures.is_empty() && report.decoded == 1,
            "{:?}",
            report.failures
        );
    }
    for wrong in [r#"{"ok":2}"#, r#"{"ok":"?"}"#, r#"{"error":"Corrupt"}"#] {
        assert_eq!(
            checked(&[("later.jsonl", line(wrong).as_bytes())])
                .failures
                .len(),
            1
        );
    }
}

#[test]
fn another_state_of_a_database_is_seen() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    for (database, stated, file, from, to) in [
        (
            "node-a.db",
            "node-a.json",
            "x.db",
            r#""next_object_id":48"#,
            r#""next_object_id":49"#,
        ),
        (
            "real-a2-destroyed.db.zst",
            "real-a2-destroyed.json.zst",
            "x.db",
            r#""slots":1"#,
            r#""slots":2"#,
        ),
        (
            "real-e1-postgres.sql.zst",
            "real-e1-postgres.json.zst",
            "x.sql",
            r#""v":0"#,
            r#""v":1"#,
        ),
        (
            "store-c.db.zst",
            "store-c.json",
            "x.db",
            r#""DeepDelete""#,
            r#""Delete""#,
        ),
        (
            "node-a.db",
            "node-a.json",
            "x.db",
            r#""next_object_id""#,
            r#""later_field""#,
        ),
    ] {
        let bytes = read(&folder.join(database));
        let text = own(stated).replace("\": ", "\":");
        let sound = checked(&[(file, &bytes), ("x.json", text.as_bytes())]);
        assert!(
            sound.failures.is_empty() && sound.databases == 1,
            "{:?}",
            sound.failures
        );
        let damaged = changed(&text, from, to);
        let damaged = checked(&[(file, &bytes), ("x.json", damaged.as_bytes())]);
        assert!(
            damaged
                .failures
                .first()
                .is_some_and(|told| told.starts_with(file)),
            "{database}"
        );
    }
}

#[test]
fn a_row_that_is_missing_is_seen() {
    let dump = own("real-e1-postgres.sql.zst");
    let cut: String = dump
        .lines()
        .filter(|line| !line.contains("VALUES (40,"))
        .fold(String::new(), |all, line| all + line + "\n");
    let stated = own("real-e1-postgres.json.zst");
    let report = checked(&[("x.sql", cut.as_bytes()), ("x.json", stated.as_bytes())]);
    assert_eq!(report.failures, ["x.sql: row 40 is missing"]);
}

#[test]
fn a_file_of_no_known_form_is_named() {
    for (name, text) in [
        ("notes.txt", "?"),
        ("alone.json", "{}"),
        ("alone.db", ""),
        ("odd.jsonl", "{\"a\":1}"),
        ("odd.tar", ""),
        ("empty.jsonl", ""),
    ] {
        let report = checked(&[(name, text.as_bytes())]);
        assert_eq!(report.failures.len(), 1, "{name}");
        assert!(
            report.failures[0].starts_with(name),
            "{:?}",
            report.failures
        );
    }
}

/// Bytes that a live object should have, missing from an archive.
#[test]
fn an_archive_without_a_live_object_is_seen() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let mut archive = tar::Builder::new(Vec::new());
    archive
        .append_data(&mut header(), "objects/elsewhere", [0_u8].as_slice())
        .unwrap();
    let archive = archive.into_inner().unwrap();
    let database = read(&folder.join("store-c.db.zst"));
    let stated = own("store-c.json");
    let report = checked(&[
        ("c.db", &database),
        ("c.json", stated.as_bytes()),
        ("c-objects.tar", &archive),
    ]);
    assert_eq!(report.failures.len(), 3, "{:?}", report.failures);
}

fn header() -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.set_cksum();
    header
}

/// Every form is among the tree's own captures, so that none is untested.
#[test]
fn the_tree_has_every_form() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let all = captures(&folder);
    let has = |wanted: fn(&Form) -> bool| all.iter().any(|capture| wanted(&capture.form));
    assert!(has(|form| matches!(form, Form::ApplySequence)));
    assert!(has(|form| matches!(form, Form::FuzzSequence)));
    assert!(has(|form| matches!(form, Form::Codec)));
    assert!(has(|form| matches!(form, Form::Sqlite { .. })));
    assert!(has(|form| matches!(form, Form::Postgres { .. })));
    assert!(has(|form| matches!(form, Form::Objects { .. })));
}
