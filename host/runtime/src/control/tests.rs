//! What is read of the control range, and what a record becomes.

use std::time::Duration;

use aedile_engine::Grant;
use aedile_state::{Command, State};
use serde_json::json;

use super::*;

const DIGEST: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn stored(first: char) -> ModuleRef {
    ModuleRef::Stored(StoredModule {
        digest: format!("{first}{}", &DIGEST[1..]),
        size: 7,
        signature: None,
        source: Some("file:a.wasm".to_owned()),
    })
}

fn put(state: &mut State, key: &str, value: &[u8]) {
    let put = Command::PutKvIfAbsent {
        key: key.to_owned(),
        value: value.to_vec(),
    };
    state.apply(&put).expect("accepted");
}

fn append(state: &mut State, name: &str, record: &Record) -> u64 {
    let number = history(state, name).len() as u64 + 1;
    let value = record.encode().expect("small");
    put(state, &revision_key(name, number), &value);
    number
}

fn deployed(first: char) -> Record {
    Record::new(Action::Deploy, stored(first), "1.0.0".to_owned()).by(Action::Deploy, "ann", "")
}

#[test]
fn a_record_is_read_back_as_it_was_written() {
    let mut record = deployed('a').by(Action::Import, "ann@rack-4", "a reason");
    record.at_ms = 1_800_000_000_000;
    record.of = Some(3);
    record.fenced = true;
    record.kv_prefixes = vec!["tmp/".to_owned()];
    record.schedule.cron = Some("0 4 * * *".to_owned());
    record.config.insert("keep".to_owned(), json!([1, "two"]));
    record.limits.memory = Some(1 << 20);
    record.canary = 5;
    let value = record.encode().expect("small");
    assert_eq!(Record::decode(&value), Ok(record));
    let plain: serde_json::Value = serde_json::from_slice(&value).expect("JSON");
    assert_eq!(plain["v"], 1);
    assert_eq!(plain["action"], "import");
    assert_eq!(plain["module"]["digest"].as_str().map(str::len), Some(64));
    assert_eq!(plain["schedule"], json!({"cron": "0 4 * * *"}));
    assert_eq!(plain["limits"], json!({"memory": 1 << 20}));
    let embedded = Record::new(Action::Reset, ModuleRef::Embedded, String::new());
    let value = embedded.encode().expect("small");
    assert_eq!(Record::decode(&value), Ok(embedded));
    let plain: serde_json::Value = serde_json::from_slice(&value).expect("JSON");
    assert_eq!(plain["module"], json!({"embedded": true}));
}

#[test]
fn a_later_form_and_a_damaged_value_are_told_apart_and_neither_panics() {
    let good = String::from_utf8(deployed('a').encode().expect("small")).expect("text");
    let wrong = |from: &str, to: &str| {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        Record::decode(text.as_bytes()).expect_err(to).to_string()
    };
    for (from, to, expected) in [
        (
            "\"v\":1",
            "\"v\":2",
            "it has the form 2, and this version of Aedile knows 1",
        ),
        ("\"v\":1,", "", "missing field `v`"),
        ("\"v\":1", "\"v\":\"x\"", "invalid type"),
        ("\"deploy\"", "\"burn\"", "unknown variant `burn`"),
        ("a123", "A123", "no SHA-256 in lower-case"),
        ("\"size\":7", "\"size\":-7", "invalid value"),
        ("\"size\":7,", "", "neither embedded nor a digest"),
        (
            "\"size\":7",
            "\"size\":7,\"embedded\":true",
            "neither embedded nor a digest",
        ),
        (
            "\"size\":7",
            "\"size\":7,\"mirror\":\"x\"",
            "unknown field `mirror`",
        ),
        (
            "\"limits\":{}",
            "\"limits\":{\"fuel\":1}",
            "unknown field `fuel`",
        ),
        (
            "\"schedule\":{}",
            "\"schedule\":{\"at\":1}",
            "unknown field `at`",
        ),
        ("\"config\":{}", "\"config\":[]", "invalid type"),
        ("\"removed\":false}", "\"removed\":false", "EOF"),
    ] {
        let text = wrong(from, to);
        assert!(text.contains(expected), "{to}: {text}");
    }
    for bytes in [&b""[..], b"{", b"null", b"\xff\xfe", b"[[[["] {
        assert!(Record::decode(bytes).is_err());
    }
    // What changes nothing of what a node does may be added to the form.
    let more = good.replacen("\"v\":1", "\"v\":1,\"ticket\":\"OPS-7\"", 1);
    assert_eq!(Record::decode(more.as_bytes()), Ok(deployed('a')));
}

#[test]
fn only_what_aedile_spells_so_is_a_revision() {
    let mut state = State::default();
    assert_eq!(append(&mut state, "kv-ttl", &deployed('a')), 1);
    assert_eq!(append(&mut state, "kv-ttl", &deployed('b')), 2);
    assert_eq!(append(&mut state, "kv", &deployed('c')), 1);
    let value = deployed('d').encode().expect("small");
    for key in [
        "aedile/plugin/kv-ttl/rev/3",
        "aedile/plugin/kv-ttl/rev/9999999999x",
        "aedile/plugin/kv-ttl/rev/0000000000",
        "aedile/plugin/kv-ttl/rev/0000000001/0000000007",
        "aedile/plugin/Kv/rev/0000000001",
        "aedile/plugin/../rev/0000000001",
        "aedile/plugin//rev/0000000001",
        "aedile/plugin/zz",
        "aedile/plugin/only-run/run/1",
        "aedile/plugins/kv/rev/0000000001",
        "aedile/modules/x",
    ] {
        put(&mut state, key, &value);
    }
    assert_eq!(names(&state), ["kv", "kv-ttl"]);
    let newest = latest(&state, "kv-ttl").expect("there").expect("reads");
    assert_eq!((newest.number, newest.record), (2, deployed('b')));
    assert_eq!(latest(&state, "expiry"), None);
    assert_eq!(revision(&state, "kv-ttl", 3), None);
    let all = history(&state, "kv-ttl");
    assert_eq!(all.iter().filter(|read| read.is_ok()).count(), 2);
    let damaged: Vec<String> = all
        .into_iter()
        .filter_map(Result::err)
        .map(|damaged| damaged.to_string())
        .collect();
    assert!(
        damaged
            .iter()
            .all(|text| text.contains("no key of Aedile's")),
        "{damaged:?}"
    );
    assert_eq!(damaged.len(), 4);
}

#[test]
fn a_newest_revision_that_cannot_be_read_is_named_and_does_not_hide_the_older() {
    let mut state = State::default();
    append(&mut state, "kv-ttl", &deployed('a'));
    put(&mut state, &revision_key("kv-ttl", 2), b"{\"v\":9}");
    let damaged = latest(&state, "kv-ttl").expect("there").expect_err("newer");
    assert_eq!(damaged.number, Some(2));
    assert_eq!(damaged.damage, Damage::Version(9));
    assert!(revision(&state, "kv-ttl", 1).expect("there").is_ok());
}

#[test]
fn who_and_why_and_when_are_no_setting_and_all_else_is() {
    let one = deployed('a');
    let mut other = one.clone().by(Action::Set, "bob", "because");
    other.at_ms = 9;
    other.of = Some(4);
    other.grants.reverse();
    assert!(one.same_setting(&other));
    type Change = fn(&mut Record);
    let changes: [Change; 13] = [
        |record| record.module = stored('b'),
        |record| record.version = "2.0.0".to_owned(),
        |record| record.enabled = false,
        |record| record.fenced = true,
        |record| record.grants.push("storage.head".to_owned()),
        |record| record.kv_prefixes.push("tmp/".to_owned()),
        |record| record.schedule.on_demand = true,
        |record| {
            record.config.insert("a".to_owned(), json!(1));
        },
        |record| record.limits.commands = Some(1),
        |record| record.lease = Some("x".to_owned()),
        |record| record.canary = 1,
        |record| record.removed = true,
        |record| record.module = ModuleRef::Embedded,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut changed = one.clone();
        change(&mut changed);
        assert!(!one.same_setting(&changed), "change {number}");
    }
}

#[test]
fn a_record_becomes_what_the_plugin_runs_with() {
    let mut record = deployed('a');
    record.fenced = true;
    record.grants.push("commands.put-kv".to_owned());
    record.kv_prefixes.push("tmp/".to_owned());
    record.schedule.interval_ms = Some(30_000);
    record.schedule.jitter_ms = Some(500);
    record.config.insert("keep".to_owned(), json!(7));
    record.limits.memory = Some(32 << 20);
    record.limits.cpu_ms = Some(1_000);
    let settings = record.settings().expect("in range");
    assert!(settings.enabled && settings.fenced);
    assert_eq!(settings.grants, ["state", "metrics", "commands.put-kv"]);
    assert_eq!(settings.kv_prefixes, ["tmp/"]);
    assert_eq!(settings.schedule.interval, Some(Duration::from_secs(30)));
    assert_eq!(settings.schedule.jitter, Some(Duration::from_millis(500)));
    assert_eq!(settings.config, json!({"keep": 7}));
    assert_eq!(settings.limits.memory, 32 << 20);
    assert_eq!(settings.limits.cpu, Duration::from_secs(1));
    record.removed = true;
    assert!(!record.settings().expect("in range").enabled);

    type Change = fn(&mut Record);
    let mistakes: [(Change, &str); 6] = [
        (
            |record| record.grants.push("network".to_owned()),
            "`grants`: `network` is no grant",
        ),
        (
            |record| record.kv_prefixes.push("aedile/plugin/".to_owned()),
            "control range",
        ),
        (|record| record.lease = Some("other".to_owned()), "`lease`"),
        (
            |record| record.limits.memory = Some(1),
            "`limits`: memory is 1 bytes",
        ),
        (
            |record| record.limits.wall_ms = Some(u64::MAX),
            "`limits`: wall",
        ),
        (
            |record| {
                record.schedule.interval_ms = Some(1);
                record.schedule.on_demand = true;
            },
            "one of the three",
        ),
    ];
    for (change, expected) in mistakes {
        let mut record = deployed('a');
        change(&mut record);
        let error = record.settings().expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// claudette 580: an update that asks for more rights ran without a new consent.
#[test]
fn what_a_newer_module_asks_for_besides_is_lacking_until_it_is_granted() {
    let mut record = deployed('a');
    let wanted: Vec<Grant> = ["state", "commands.put-kv", "commands.trim-stream"]
        .map(|text| text.parse().expect("a grant"))
        .to_vec();
    let missing = lacking(&wanted, &record);
    assert_eq!(
        grant_command("kv-ttl", &missing),
        "aedile plugin grant kv-ttl commands.put-kv commands.trim-stream"
    );
    // No spelling grants several: each is named, or it is not given.
    for text in ["*", "commands.*", "commands", "all", ""] {
        record.grants.push(text.to_owned());
        assert_eq!(lacking(&wanted, &record), missing);
        assert!(record.settings().is_err(), "`{text}` is no grant");
        record.grants.pop();
    }
    record.grants.push("commands.put-kv".to_owned());
    record.grants.push("commands.trim-stream".to_owned());
    assert_eq!(lacking(&wanted, &record), []);
}

#[test]
fn a_rollback_goes_to_what_ran_before_and_never_back_and_forth() {
    let mut state = State::default();
    let name = "kv-ttl";
    append(&mut state, name, &deployed('a'));
    assert_eq!(before(&state, name, 1), None);
    append(&mut state, name, &deployed('b'));
    let target = before(&state, name, 2).expect("the first");
    assert_eq!(target.number, 1);
    let third = deployed('b').back_to(&target);
    assert_eq!((third.of, third.action), (Some(1), Action::Rollback));
    append(&mut state, name, &third);
    // Not to the version that was just left, and there is none before the first.
    assert_eq!(before(&state, name, 3), None);
    append(&mut state, name, &deployed('c'));
    assert_eq!(before(&state, name, 4).map(|found| found.number), Some(3));
    // Disabled in between: the same setting otherwise, so it goes further.
    let mut rests = deployed('c');
    rests.enabled = false;
    append(&mut state, name, &rests);
    assert_eq!(before(&state, name, 5).map(|found| found.number), Some(3));
    // A canary never ran by itself, nor did what was removed.
    let mut canary = deployed('d');
    canary.canary = 5;
    let sixth = append(&mut state, name, &canary);
    let mut promoted = canary.promoted();
    promoted.of = Some(sixth);
    let seventh = append(&mut state, name, &promoted);
    assert_eq!(
        before(&state, name, seventh).map(|found| found.number),
        Some(5)
    );
}

#[test]
fn a_rollback_gives_no_grant_back_and_starts_nothing() {
    let mut first = deployed('a');
    first.grants.push("commands.put-kv".to_owned());
    first.kv_prefixes = vec!["tmp/".to_owned(), "old/".to_owned()];
    first.canary = 3;
    let earlier = Revision {
        number: 1,
        record: first,
    };
    let mut now = deployed('b');
    now.enabled = false;
    now.grants = vec!["state".to_owned(), "storage.head".to_owned()];
    now.kv_prefixes = vec!["tmp/".to_owned()];
    let back = now.back_to(&earlier);
    assert_eq!(back.module, stored('a'));
    assert_eq!(back.grants, ["state"]);
    assert_eq!(back.kv_prefixes, ["tmp/"]);
    assert!(!back.enabled && !back.removed && back.canary == 0);
}

#[test]
fn requests_to_run_are_read_with_their_plugin() {
    let mut state = State::default();
    for (name, nonce) in [("kv-ttl", 2), ("kv-ttl", 1), ("expiry", 3)] {
        state
            .apply(&run_now(name, "ann", 5, nonce))
            .expect("accepted");
    }
    put(&mut state, "aedile/plugin/cleaner/run/zz", b"?");
    append(&mut state, "cleaner", &deployed('a'));
    let asked: Vec<(String, String)> = run_requests(&state)
        .into_iter()
        .map(|request| (request.plugin, request.who))
        .collect();
    let of = |plugin: &str, who: &str| (plugin.to_owned(), who.to_owned());
    assert_eq!(
        asked,
        [
            of("cleaner", ""),
            of("expiry", "ann"),
            of("kv-ttl", "ann"),
            of("kv-ttl", "ann")
        ]
    );
}

#[test]
fn a_record_is_bounded() {
    let mut record = deployed('a');
    record
        .config
        .insert("a".to_owned(), json!("x".repeat(LARGEST)));
    assert!(record.encode().is_err_and(|found| found > LARGEST));
}
