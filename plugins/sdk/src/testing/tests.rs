use serde::Deserialize;

use super::manifest::FUNCTIONS;
use super::{Call, Host, check_manifest};
use crate::{Answer, Commands, DeleteOutcome, Failure, Operation, Plugin, Put, Report};
use crate::{State, Storage};

/// A plugin whose manifest is `M`.
struct With<const M: usize>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

const GOOD: &str =
    r#"{"name":"a-1","version":"1.2.3","grants":["state"],"schedule":{"interval":"1s"}}"#;

const MANIFESTS: [&str; 7] = [
    GOOD,
    r#"{"name":"A","version":"1.2.3","grants":[],"schedule":{"interval":"1s"}}"#,
    r#"{"name":"a","version":"1.2.4","grants":[],"schedule":{"interval":"1s"}}"#,
    r#"{"name":"a","version":"1.2.3","grants":["commands"],"schedule":{"interval":"1s"}}"#,
    r#"{"name":"a","version":"1.2.3","grants":[],"schedule":{"interval":"0s"}}"#,
    r#"{"name":"a","version":"1.2.3","grants":[],"schedule":{"interval":"1s"},"author":"me"}"#,
    r#"{"name":"a","version":"1.2.3","grants":[],"schedule":{"every":"1s"}}"#,
];

impl<const M: usize> Plugin for With<M> {
    type Config = Empty;
    const MANIFEST: &'static str = MANIFESTS[M];

    fn tick(_host: &mut impl crate::Host, _config: &Empty) -> Result<Report, Failure> {
        Ok(Report::idle())
    }
}

#[test]
fn a_manifest_that_a_host_would_refuse_is_found_here() {
    assert_eq!(check_manifest::<With<0>>("1.2.3"), Ok(()));
    for (found, words) in [
        (check_manifest::<With<1>>("1.2.3"), "name `A`"),
        (check_manifest::<With<2>>("1.2.3"), "version 1.2.4"),
        (check_manifest::<With<3>>("1.2.3"), "grant `commands`"),
        (check_manifest::<With<4>>("1.2.3"), "interval"),
        (check_manifest::<With<5>>("1.2.3"), "author"),
        (check_manifest::<With<6>>("1.2.3"), "every"),
    ] {
        let error = found.expect_err(words);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn the_grants_are_the_functions_of_the_contract() {
    let mut functions = Vec::new();
    for (interface, text) in [
        ("commands", include_str!("../../wit/commands.wit")),
        ("storage", include_str!("../../wit/storage.wit")),
    ] {
        let names = text.lines().filter_map(|line| line.split_once(": func("));
        functions.extend(names.map(|(name, _)| {
            let name = name.trim().trim_start_matches('%');
            format!("{interface}.{name}")
        }));
    }
    assert_eq!(functions, FUNCTIONS);
}

#[test]
fn a_tick_reads_the_state_as_it_was_when_it_began() {
    let mut host = Host::new("a");
    host.state.put("aedile/kv/a/x", b"1");
    host.pin();
    let entries = [Put {
        key: "aedile/kv/a/y".to_owned(),
        value: b"2".to_vec(),
    }];
    assert_eq!(host.put_kv(&entries), Ok(vec![Answer::Applied]));
    assert_eq!(host.kv_get("aedile/kv/a/y"), None);
    host.pin();
    assert_eq!(host.kv_get("aedile/kv/a/y").as_deref(), Some(&b"2"[..]));
    assert_eq!(host.put_kv_if_absent(&entries), Ok(vec![Answer::Redundant]));
}

#[test]
fn pages_go_on_after_the_cursor_and_stay_below_the_prefix() {
    let mut host = Host::new("a");
    for key in ["a/1", "a/2", "a/3", "b/1"] {
        host.state.put(key, b"");
    }
    host.pin();
    assert_eq!(host.kv_keys("a/", None, 2), ["a/1", "a/2"]);
    assert_eq!(host.kv_keys("a/", Some("a/2"), 2), ["a/3"]);
    assert_eq!(host.kv_keys("a/", Some("a/3"), 2), [""; 0]);
    assert_eq!(host.kv_keys("b/", Some("a/3"), 2), ["b/1"]);
    assert_eq!(host.pages(), 4);
}

#[test]
fn keys_of_others_are_refused_unless_their_prefix_was_granted() {
    let mut host = Host::new("a");
    let mut delete = |key: &str| {
        host.delete_kv(&[key.to_owned()])
            .expect("answers")
            .remove(0)
    };
    assert!(matches!(delete("names/x"), Answer::Rejected(_)));
    assert!(matches!(delete("aedile/kv/b/x"), Answer::Rejected(_)));
    host.kv_prefixes.push("names/".to_owned());
    let answers = host.delete_kv(&["names/x".to_owned()]);
    assert_eq!(answers, Ok(vec![Answer::Redundant]));
}

#[test]
fn a_clean_waits_for_the_bytes_and_a_failed_delete_backs_off() {
    let mut host = Host::new("a");
    for id in [1, 2] {
        host.state.mark(id, Operation::Delete);
        host.store(id, b"x");
    }
    host.pin();
    let answers = host.clean_destroyed(&[1]).expect("answers");
    assert!(matches!(&answers[0], Answer::Rejected(rule) if rule.contains("not deleted")));
    host.delete_outcomes.insert(2, DeleteOutcome::Throttled);
    let outcomes = host.delete(&[1, 2]);
    assert_eq!(
        outcomes,
        Ok(vec![DeleteOutcome::Deleted, DeleteOutcome::Throttled])
    );
    assert_eq!(host.clean_destroyed(&[1]), Ok(vec![Answer::Applied]));
    host.pin();
    assert_eq!(host.destroyed(None, 10), []);
    host.backed_off.clear();
    assert_eq!(host.destroyed(None, 10).len(), 1);
    assert_eq!(host.take_calls().len(), 3);
    assert_eq!(host.calls, [] as [Call; 0]);
}
