use std::time::Duration;

use aedile_plugin::testing::{Call, Host, check_manifest};
use aedile_plugin::{
    Answer, Failure, HostError, Report, Stream, StreamId, StreamObject, TimestampMs,
};

use super::{Config, Retention};

const HOUR: i64 = 3_600_000;

fn now() -> TimestampMs {
    aedile_plugin::host::Job::now(&Host::new("retention"))
}

/// A stream with objects of ten offsets and ten bytes each, the newest now and
/// each older one an hour older.
fn stream(host: &mut Host, id: StreamId, name: &str, count: u64, opened: bool) {
    host.state.streams.insert(
        id,
        Stream {
            id,
            epoch: 3,
            start_offset: 0,
            end_offset: count * 10,
            opened,
            node: 1,
        },
    );
    for at in 0..count {
        let object = StreamObject {
            id: id * 10_000 + at,
            start_offset: at * 10,
            end_offset: at * 10 + 10,
            size: 10,
            committed: now() - (count - 1 - at) as i64 * HOUR,
        };
        let key = (id, object.start_offset, object.id);
        host.state.stream_objects.insert(key, object);
    }
    if !name.is_empty() {
        let mut entry = vec![1];
        entry.extend(id.to_be_bytes());
        entry.extend(b"\0\0\0\x0atext/plain");
        host.state.put(name, &entry);
    }
}

fn tick(host: &mut Host, config: &str) -> Report {
    host.tick::<Retention>(config).expect("a report")
}

/// The trims of one tick.
fn trims(host: &mut Host, config: &str) -> Vec<(StreamId, u64)> {
    host.take_calls();
    tick(host, config);
    let calls = host.calls.iter().map(|call| match call {
        Call::TrimStream(trims) => trims.clone(),
        other => panic!("it sent {other:?}"),
    });
    calls.flatten().collect()
}

#[test]
fn the_manifest_holds_and_bad_configurations_are_named() {
    check_manifest::<Retention>(env!("CARGO_PKG_VERSION")).expect("a manifest that a host takes");
    for (config, expect) in [
        ("{}", "rules is empty"),
        (r#"{"rules":[]}"#, "rules is empty"),
        (
            r#"{"rules":[{"streams":"/a"}]}"#,
            "neither max-age nor max-bytes",
        ),
        (
            r#"{"rules":[{"streams":"a","max-bytes":1}]}"#,
            "begin with /",
        ),
        (
            r#"{"rules":[{"streams":"","max-bytes":1}]}"#,
            "begin with /",
        ),
        (
            r#"{"rules":[{"streams":"/a","max-bytes":0}]}"#,
            "max-bytes of /a is 0",
        ),
        (r#"{"rules":[{"streams":"/a","max-bytes":-1}]}"#, "-1"),
        (
            r#"{"rules":[{"streams":"/a","max-age":"59m"}]}"#,
            "at least 1h",
        ),
        (r#"{"rules":[{"streams":"/a","max-age":"7"}]}"#, "7"),
        (
            r#"{"rules":[{"streams":"/a","max-bytes":1},{"streams":"/a","max-bytes":2}]}"#,
            "two rules",
        ),
        (r#"{"rules":[{"streams":"/a","max-bites":2}]}"#, "max-bites"),
        (r#"{"delete-unnamed-after":"23h"}"#, "at least 1d"),
        (
            r#"{"delete-unnamed-after":"1d","streams-per-tick":0}"#,
            "streams-per-tick is 0",
        ),
    ] {
        let error = Host::validate::<Retention>(config).expect_err(config);
        assert!(error.contains(expect), "{config}: {error}");
    }
    let good = r#"{"rules":[{"streams":"/","max-age":"7d"},{"streams":"/a/","max-bytes":1}]}"#;
    Host::validate::<Retention>(good).expect("good");
}

#[test]
fn nothing_younger_than_the_age_goes() {
    let mut host = Host::new("retention");
    stream(&mut host, 1, "/logs/a", 10, true);
    stream(&mut host, 2, "/other", 10, true);
    stream(&mut host, 3, "/logs/closed", 10, false);
    stream(&mut host, 4, "", 10, true);
    // The objects are 9, 8, … 0 hours old.
    let config = r#"{"rules":[{"streams":"/logs/","max-age":"6h"}]}"#;
    assert_eq!(trims(&mut host, config), [(1, 40)]);
    assert_eq!(trims(&mut host, config), []);
    host.advance(Duration::from_secs(3599));
    assert_eq!(trims(&mut host, config), []);
    host.advance(Duration::from_secs(1));
    assert_eq!(trims(&mut host, config), [(1, 50)]);
    host.advance(Duration::from_secs(100 * 3600));
    assert_eq!(trims(&mut host, config), [(1, 100)]);
    assert_eq!(trims(&mut host, config), []);
}

#[test]
fn what_a_later_object_proves_to_be_old_goes_with_it() {
    let mut host = Host::new("retention");
    stream(&mut host, 1, "/a", 10, true);
    // What lies between two objects is in objects of several streams.
    host.state.stream_objects.remove(&(1, 10, 10_001));
    // A compaction gave an old range a new time: it is kept until it is old again,
    // unless a later object proves that its data is older.
    let key = (1, 50, 10_005);
    host.state
        .stream_objects
        .get_mut(&key)
        .expect("there")
        .committed = now();
    let config = r#"{"rules":[{"streams":"/","max-age":"4h"}]}"#;
    assert_eq!(trims(&mut host, config), [(1, 50)]);
}

#[test]
fn never_less_than_the_size_is_kept() {
    for (most, expect) in [
        (100, None),
        (99, None),
        (91, None),
        (90, Some(10)),
        (35, Some(60)),
        (1, Some(90)),
    ] {
        let mut host = Host::new("retention");
        stream(&mut host, 1, "/a", 10, true);
        let config = format!(r#"{{"rules":[{{"streams":"/","max-bytes":{most}}}]}}"#);
        let found = trims(&mut host, &config);
        assert_eq!(found.first().map(|(_, start)| *start), expect, "{most}");
        let kept = host.state.stream_objects.values();
        let start = host.state.streams[&1].start_offset;
        let kept: u64 = kept
            .filter(|object| object.end_offset > start)
            .map(|object| object.size)
            .sum();
        assert!(kept >= most, "{kept} of {most}");
        assert_eq!(trims(&mut host, &config), [], "once is enough");
    }
}

#[test]
fn a_large_object_is_not_jumped_over() {
    let mut host = Host::new("retention");
    stream(&mut host, 1, "/a", 4, true);
    let key = (1, 10, 10_001);
    host.state.stream_objects.get_mut(&key).expect("there").size = 1000;
    // 1030 bytes: the first may go, the second would leave only 20 of 25.
    let config = r#"{"rules":[{"streams":"/","max-bytes":25}]}"#;
    assert_eq!(trims(&mut host, config), [(1, 10)]);
}

#[test]
fn the_longest_prefix_counts_and_disputed_streams_are_left_alone() {
    let mut host = Host::new("retention");
    stream(&mut host, 1, "/logs/keep/a", 10, true);
    stream(&mut host, 2, "/logs/b", 10, true);
    stream(&mut host, 3, "/logs/c", 10, true);
    let entry = host.state.kv["/logs/c"].clone();
    host.state.put("/logs/keep/c", &entry);
    let config = r#"{"rules":[{"streams":"/logs/","max-bytes":50},{"streams":"/logs/keep/","max-bytes":1000}]}"#;
    assert_eq!(trims(&mut host, config), [(2, 50)]);
    assert!(
        host.lines()[0]
            .message
            .contains("1 streams have names under different rules")
    );
}

#[test]
fn only_a_closed_old_stream_that_nothing_names_is_deleted() {
    let mut host = Host::new("retention");
    stream(&mut host, 1, "", 5, false);
    stream(&mut host, 2, "/named", 5, false);
    stream(&mut host, 3, "", 5, true);
    // Nothing shows how old these two are.
    stream(&mut host, 4, "", 0, false);
    stream(&mut host, 5, "", 5, false);
    host.state.streams.get_mut(&5).expect("there").end_offset = 51;
    let config = r#"{"delete-unnamed-after":"1d"}"#;
    assert_eq!(tick(&mut host, config), Report::idle());
    host.advance(Duration::from_secs(24 * 3600));
    let report = tick(&mut host, config);
    assert_eq!(report.summary, "streams: 1 deleted");
    assert_eq!(host.calls, [Call::DeleteStream(vec![1])]);
    assert_eq!(
        host.state.streams.keys().copied().collect::<Vec<_>>(),
        [2, 3, 4, 5]
    );
    assert_eq!(tick(&mut host, config), Report::idle());
}

#[test]
fn a_name_that_cannot_be_read_may_be_any_streams() {
    for entry in [&b""[..], b"\x02\0\0\0\0\0\0\0\x01", b"\x01\0\0", b"{}"] {
        let mut host = Host::new("retention");
        stream(&mut host, 1, "", 5, false);
        host.state.put("/strange", entry);
        host.advance(Duration::from_secs(48 * 3600));
        assert_eq!(
            tick(&mut host, r#"{"delete-unnamed-after":"1d"}"#),
            Report::idle()
        );
        assert!(host.lines()[0].message.contains("1 names cannot be read"));
    }
}

#[test]
fn hostile_figures_do_no_harm() {
    let mut host = Host::new("retention");
    stream(&mut host, 1, "/a", 3, true);
    for (at, size, end, committed) in [
        (0, u64::MAX, u64::MAX, i64::MIN),
        (10, u64::MAX, 0, i64::MAX),
        (20, 0, 30, 0),
    ] {
        let key = (1, at, 10_000 + at / 10);
        let object = host.state.stream_objects.get_mut(&key).expect("there");
        (object.size, object.end_offset, object.committed) = (size, end, committed);
    }
    let config =
        r#"{"rules":[{"streams":"/","max-age":"1h","max-bytes":1}],"delete-unnamed-after":"1d"}"#;
    for (_, start) in trims(&mut host, config) {
        assert!(start <= 30, "never past the end of the stream");
    }
}

#[test]
fn a_backlog_is_worked_off_in_portions() {
    let mut host = Host::new("retention");
    for id in 1..=10 {
        stream(&mut host, id, &format!("/s/{id}"), 3, true);
    }
    let config = r#"{"rules":[{"streams":"/","max-bytes":10}],"streams-per-tick":4}"#;
    let mut done = Vec::new();
    loop {
        let report = tick(&mut host, config);
        done.push(report.done);
        if !report.more {
            break;
        }
        assert!(done.len() < 10, "it asks for another tick for ever");
    }
    assert_eq!(done, [4, 4, 2]);
    host.take_calls();
    assert_eq!(tick(&mut host, config), Report::idle());
    assert_eq!(host.calls, []);
}

#[test]
fn what_is_rejected_is_counted_and_a_failure_is_a_retry() {
    let config = r#"{"rules":[{"streams":"/","max-bytes":10}]}"#;
    let mut host = Host::new("retention");
    stream(&mut host, 1, "/a", 3, true);
    host.answers
        .push_back(Answer::Rejected("stream 1 is at epoch 4".to_owned()));
    let report = tick(&mut host, config);
    assert_eq!((report.done, report.failed, report.more), (0, 1, false));
    assert!(host.lines()[0].message.contains("epoch 4"));
    host.answers.push_back(Answer::Unknown);
    assert_eq!(
        tick(&mut host, config).summary,
        "streams: 1 with an unknown answer"
    );
    host.fail_call(2, HostError::Unavailable("down".to_owned()));
    let failure = host.tick::<Retention>(config).expect_err("a failure");
    assert!(matches!(failure, Failure::Retry(retry) if retry.reason == "down"));
    let _ = Config::validate;
}
