use std::time::Duration;

use aedile_plugin::testing::{Call, Host, check_manifest};
use aedile_plugin::{Answer, Failure, Report};

use super::KvTtl;

const RULES: &str =
    r#"{"rules":[{"prefix":"carts/","ttl":"10s"},{"prefix":"sessions/","ttl":"1m"}]}"#;
const SEEN: &str = "aedile/kv/kv-ttl/seen/";

fn host() -> Host {
    let mut host = Host::new("kv-ttl");
    host.kv_prefixes = vec!["carts/".to_owned(), "sessions/".to_owned()];
    host
}

fn tick_with(host: &mut Host, config: &str) -> Report {
    host.tick::<KvTtl>(config).expect("a report")
}

/// Ticks after `seconds`.
fn tick_after(host: &mut Host, seconds: u64) -> Report {
    host.advance(Duration::from_secs(seconds));
    tick_with(host, RULES)
}

/// The keys that are not this plugin's own.
fn keys(host: &Host) -> Vec<&str> {
    let keys = host.state.kv.keys().map(String::as_str);
    keys.filter(|key| !key.starts_with("aedile/")).collect()
}

/// The keys that have an entry.
fn entries(host: &Host) -> Vec<&str> {
    let keys = host.state.kv.keys();
    keys.filter_map(|key| key.strip_prefix(SEEN)).collect()
}

#[test]
fn the_manifest_holds() {
    let version = if cfg!(feature = "next") {
        "0.2.0"
    } else {
        env!("CARGO_PKG_VERSION")
    };
    check_manifest::<KvTtl>(version).expect("a manifest that a host takes");
}

#[test]
fn the_next_version_asks_for_no_more_than_this_one() {
    let grants = |text: &'static str| text.lines().find(|line| line.contains("\"grants\""));
    let (this, next) = (
        include_str!("../manifest.json"),
        include_str!("../manifest-next.json"),
    );
    assert!(grants(this).is_some());
    assert_eq!(grants(this), grants(next));
}

#[test]
fn bad_configurations_are_refused_by_name() {
    let rule = |prefix: &str, ttl: &str| format!(r#"{{"prefix":"{prefix}","ttl":"{ttl}"}}"#);
    let rules = |rules: &[String]| format!(r#"{{"rules":[{}]}}"#, rules.join(","));
    for (config, words) in [
        ("{}".to_owned(), "rules"),
        (rules(&[]), "rules is empty"),
        (r#"{"rule":[]}"#.to_owned(), "rule"),
        (r#"{"rules":[{"prefix":"a/"}]}"#.to_owned(), "ttl"),
        (
            r#"{"rules":[{"prefix":"a/","tll":"1s"}]}"#.to_owned(),
            "tll",
        ),
        (rules(&[rule("a/", "soon")]), "soon"),
        (rules(&[rule("a/", "0s")]), "zero"),
        (rules(&[rule("", "1s")]), "empty"),
        (rules(&[rule("aedile/kv/", "1s")]), "Aedile's own"),
        (rules(&[rule("aed", "1s")]), "Aedile's own"),
        (
            rules(&[rule("a/b", "1s"), rule("b/", "1s"), rule("a/", "1s")]),
            "a/b falls under a/",
        ),
        (
            rules(&[rule("a/", "1s"), rule("a/", "2s")]),
            "a/ falls under a/",
        ),
        (
            RULES.replace("}]}", r#"}],"keys-per-tick":0}"#),
            "keys-per-tick",
        ),
        (
            RULES.replace("}]}", r#"}],"changes-per-tick":1}"#),
            "changes-per-tick",
        ),
    ] {
        let error = Host::validate::<KvTtl>(&config).expect_err(&config);
        assert!(error.contains(words), "{config}: {error}");
    }
    assert_eq!(Host::validate::<KvTtl>(RULES), Ok(()));
}

#[test]
fn a_key_goes_when_its_time_is_up_and_not_before() {
    let mut host = host();
    host.state.put("sessions/1", b"x");
    host.state.put("carts/1", b"x");
    host.state.put("names/1", b"x");
    tick_after(&mut host, 0);
    assert_eq!(entries(&host), ["carts/1", "sessions/1"]);
    assert_eq!(host.state.kv[&format!("{SEEN}carts/1")].len(), 10);

    tick_after(&mut host, 9);
    assert_eq!(keys(&host).len(), 3);
    let report = tick_after(&mut host, 1);
    assert_eq!((report.done, report.failed, report.more), (1, 0, false));
    assert!(
        report.summary.starts_with("deleted 1 key"),
        "{}",
        report.summary
    );
    assert_eq!(keys(&host), ["names/1", "sessions/1"]);
    assert_eq!(entries(&host), ["sessions/1"]);

    tick_after(&mut host, 50);
    assert_eq!(keys(&host), ["names/1"]);
    assert_eq!(entries(&host), [""; 0]);
    assert_eq!(host.counters["deleted"], 2);
}

#[test]
fn a_tick_with_nothing_new_sends_nothing() {
    let mut host = host();
    host.state.put("sessions/1", b"x");
    tick_after(&mut host, 0);
    host.take_calls();
    for _ in 0..30 {
        assert_eq!(tick_after(&mut host, 1), Report::idle());
    }
    assert_eq!(host.calls, []);
}

#[test]
fn noting_a_key_is_not_worth_a_run_record() {
    let mut host = host();
    host.state.put("sessions/1", b"x");
    assert_eq!(tick_after(&mut host, 0), Report::idle());
    assert_eq!(host.calls, [Call::PutKv(vec![format!("{SEEN}sessions/1")])]);
}

#[test]
fn a_key_deleted_and_written_again_is_a_new_one() {
    let mut host = host();
    host.state.put("carts/1", b"x");
    tick_after(&mut host, 0);
    // Gone at one tick, back at the next, with the same value.
    host.state.kv.remove("carts/1");
    tick_after(&mut host, 9);
    assert_eq!(entries(&host), [""; 0]);
    host.state.put("carts/1", b"x");
    tick_after(&mut host, 1);
    tick_after(&mut host, 9);
    assert_eq!(keys(&host), ["carts/1"]);
    tick_after(&mut host, 1);
    assert_eq!(keys(&host), [""; 0]);
}

#[test]
fn another_value_is_a_new_life_even_between_two_ticks() {
    let mut host = host();
    host.state.put("carts/1", b"x");
    tick_after(&mut host, 0);
    host.advance(Duration::from_secs(9));
    host.state.kv.remove("carts/1");
    host.state.put("carts/1", b"y");
    tick_after(&mut host, 0);
    tick_after(&mut host, 9);
    assert_eq!(keys(&host), ["carts/1"]);
    tick_after(&mut host, 1);
    assert_eq!(keys(&host), [""; 0]);
}

#[test]
fn the_entry_goes_before_the_key() {
    let mut host = host();
    host.state.put("carts/1", b"x");
    host.state.put("carts/2", b"x");
    tick_after(&mut host, 0);
    host.take_calls();
    tick_after(&mut host, 10);
    let sent = [
        format!("{SEEN}carts/1"),
        format!("{SEEN}carts/2"),
        "carts/1".to_owned(),
        "carts/2".to_owned(),
    ];
    assert_eq!(host.calls, [Call::DeleteKv(sent.to_vec())]);
}

#[test]
fn without_the_grant_for_the_prefix_the_operator_is_told() {
    let mut host = host();
    host.kv_prefixes.clear();
    host.state.put("carts/1", b"x");
    tick_after(&mut host, 0);
    host.advance(Duration::from_secs(10));
    let failure = host.tick::<KvTtl>(RULES).expect_err("a failure");
    assert!(matches!(failure, Failure::Reject(text) if text.contains("carts/1")));
    assert_eq!(keys(&host), ["carts/1"]);
}

#[test]
fn one_prefix_without_a_grant_does_not_hold_up_the_other() {
    let mut host = host();
    host.kv_prefixes = vec!["carts/".to_owned()];
    host.state.put("carts/1", b"x");
    host.state.put("sessions/1", b"x");
    tick_after(&mut host, 0);
    let report = tick_after(&mut host, 60);
    assert_eq!((report.done, report.failed, report.more), (1, 1, false));
    assert_eq!(keys(&host), ["sessions/1"]);
    assert!(host.lines()[0].message.contains("sessions/1"));
}

#[test]
fn an_unknown_answer_is_neither_done_nor_failed() {
    let mut host = host();
    host.state.put("carts/1", b"x");
    tick_after(&mut host, 0);
    host.answers.push_back(Answer::Unknown);
    let report = tick_after(&mut host, 10);
    assert_eq!((report.done, report.failed), (0, 0));
    assert_eq!(tick_after(&mut host, 0).done, 1);
}

#[test]
fn a_rule_that_is_gone_leaves_no_entries_behind() {
    let mut host = host();
    host.state.put("carts/1", b"x");
    host.state.put("sessions/1", b"x");
    tick_after(&mut host, 0);
    let one = r#"{"rules":[{"prefix":"sessions/","ttl":"1m"}]}"#;
    tick_with(&mut host, one);
    assert_eq!(entries(&host), ["sessions/1"]);
    assert_eq!(keys(&host), ["carts/1", "sessions/1"]);
}

#[test]
fn a_damaged_entry_is_written_afresh() {
    let mut host = host();
    host.state.put("carts/1", b"x");
    host.state.put(&format!("{SEEN}carts/1"), b"?");
    tick_after(&mut host, 0);
    assert_eq!(host.state.kv[&format!("{SEEN}carts/1")].len(), 10);
    tick_after(&mut host, 10);
    assert_eq!(keys(&host), [""; 0]);
}

#[test]
fn a_clock_that_went_back_deletes_nothing_early() {
    let mut host = host();
    host.state.put("carts/1", b"x");
    tick_after(&mut host, 3600);
    let entry = host.state.kv[&format!("{SEEN}carts/1")].clone();
    let mut earlier = self::host();
    earlier.state.put("carts/1", b"x");
    earlier.state.put(&format!("{SEEN}carts/1"), &entry);
    assert_eq!(tick_after(&mut earlier, 0), Report::idle());
    assert_eq!(keys(&earlier), ["carts/1"]);
}

#[test]
fn a_key_too_long_to_be_timed_is_left_alone() {
    let mut host = host();
    let key = format!("carts/{}", "x".repeat(1018));
    host.state.put(&key, b"x");
    for _ in 0..3 {
        assert_eq!(tick_after(&mut host, 10), Report::idle());
    }
    assert_eq!(host.calls, []);
}

#[test]
fn many_keys_take_several_ticks_and_each_is_seen() {
    let mut host = host();
    for n in 0..25 {
        host.state.put(&format!("carts/{n:02}"), b"x");
        host.state.put(&format!("sessions/{n:02}"), b"x");
    }
    let config = RULES.replace("}]}", r#"}],"keys-per-tick":7}"#);
    for _ in 0..8 {
        tick_with(&mut host, &config);
    }
    assert_eq!(entries(&host).len(), 50);
    host.advance(Duration::from_secs(10));
    for _ in 0..9 {
        tick_with(&mut host, &config);
    }
    assert_eq!(keys(&host).len(), 25);
    assert!(keys(&host).iter().all(|key| key.starts_with("sessions/")));
    // A pass that ends takes its cursor along.
    host.advance(Duration::from_secs(60));
    for _ in 0..9 {
        tick_with(&mut host, &config);
    }
    assert!(host.state.kv.is_empty(), "{:?}", host.state.kv.keys());
}

#[test]
fn a_tick_proposes_no_more_than_it_may_and_asks_for_another() {
    let mut host = host();
    for n in 0..30 {
        host.state.put(&format!("carts/{n:02}"), b"x");
    }
    let config = RULES.replace("}]}", r#"}],"changes-per-tick":10}"#);
    let mut ticks = 1;
    while tick_with(&mut host, &config).more {
        ticks += 1;
        assert!(ticks < 20, "it asks for another tick for ever");
    }
    assert_eq!(entries(&host).len(), 30);
    for call in host.take_calls() {
        let Call::PutKv(keys) = call else {
            panic!("{call:?}")
        };
        assert!(keys.len() <= 10, "{}", keys.len());
    }
    host.advance(Duration::from_secs(10));
    while tick_with(&mut host, &config).more {}
    assert!(host.state.kv.is_empty());
}

#[cfg(feature = "next")]
#[test]
fn the_next_version_says_what_is_left() {
    let mut host = host();
    host.state.put("carts/1", b"x");
    host.state.put("sessions/1", b"x");
    host.state.put("sessions/2", b"x");
    tick_after(&mut host, 0);
    let report = tick_after(&mut host, 10);
    assert_eq!(
        report.summary,
        "deleted 1 key; 2 keys left, the oldest 10s old"
    );
    assert_eq!(
        (host.gauges["keys"], host.gauges["oldest_seconds"]),
        (2.0, 10.0)
    );
}

#[cfg(not(feature = "next"))]
#[test]
fn this_version_says_what_it_deleted() {
    let mut host = host();
    host.state.put("carts/1", b"x");
    tick_after(&mut host, 0);
    assert_eq!(tick_after(&mut host, 10).summary, "deleted 1 key");
    assert!(host.gauges.is_empty());
}
