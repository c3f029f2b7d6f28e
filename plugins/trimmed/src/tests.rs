use aedile_plugin::testing::{Call, Host, check_manifest};
use aedile_plugin::{Answer, Failure, HostError, ObjectId, Report, Stream, StreamId, StreamObject};

use super::{Config, Trimmed};

/// Adds a stream of `count` objects of ten offsets each, which begins at `start`.
/// Its objects have the ids from `first` on.
fn stream(host: &mut Host, id: StreamId, start: u64, count: u64, first: ObjectId, opened: bool) {
    host.state.streams.insert(
        id,
        Stream {
            id,
            epoch: 3,
            start_offset: start,
            end_offset: count * 10,
            opened,
            node: 1,
        },
    );
    for at in 0..count {
        let object = StreamObject {
            id: first + at,
            start_offset: at * 10,
            end_offset: at * 10 + 10,
            size: 5,
            committed: 0,
        };
        host.state
            .stream_objects
            .insert((id, object.start_offset, object.id), object);
    }
}

/// The objects that were asked to go, by call.
fn asked(host: &Host) -> Vec<Vec<(StreamId, Vec<ObjectId>)>> {
    host.calls
        .iter()
        .map(|call| match call {
            Call::CompactAway(asked) => asked.clone(),
            other => panic!("it sent {other:?}"),
        })
        .collect()
}

#[test]
fn the_manifest_holds_and_its_schema_has_the_keys_of_the_configuration() {
    check_manifest::<Trimmed>(env!("CARGO_PKG_VERSION")).expect("a manifest that a host takes");
    let manifest = <Trimmed as aedile_plugin::Plugin>::MANIFEST;
    for key in ["objects-per-command", "objects-per-tick"] {
        assert!(manifest.contains(&format!("\"{key}\"")), "{key}");
        let text = format!(r#"{{"{key}":0}}"#);
        let error = Host::validate::<Trimmed>(&text).expect_err("zero");
        assert!(error.starts_with(key), "{error}");
    }
    assert_eq!(Config::default().validate(), Ok(()));
}

#[test]
fn without_a_trim_nothing_is_sent() {
    let mut host = Host::new("trimmed");
    stream(&mut host, 1, 0, 5, 100, true);
    assert_eq!(host.tick::<Trimmed>("{}"), Ok(Report::idle()));
    assert_eq!(host.calls, []);
}

#[test]
fn only_what_lies_wholly_below_the_start_goes_of_open_and_closed_streams() {
    let mut host = Host::new("trimmed");
    stream(&mut host, 1, 25, 5, 100, true);
    stream(&mut host, 2, 10, 5, 200, false);
    stream(&mut host, 3, 0, 5, 300, true);
    // Everything was trimmed.
    stream(&mut host, 4, 50, 5, 400, true);
    let report = host.tick::<Trimmed>("{}").expect("a report");
    assert_eq!(
        asked(&host),
        [[
            (1, vec![100, 101]),
            (2, vec![200]),
            (4, vec![400, 401, 402, 403, 404]),
        ]]
    );
    assert_eq!(report.summary, "trimmed objects: 8 unindexed");
    assert_eq!((report.done, report.failed, report.more), (8, 0, false));
    assert_eq!(host.state.destroyed.len(), 8);
    host.take_calls();
    assert_eq!(host.tick::<Trimmed>("{}"), Ok(Report::idle()));
    assert_eq!(host.calls, []);
}

#[test]
fn a_long_object_that_begins_first_does_not_hide_those_behind_it() {
    let mut host = Host::new("trimmed");
    stream(&mut host, 1, 35, 5, 100, true);
    let long = StreamObject {
        id: 99,
        start_offset: 0,
        end_offset: 36,
        size: 5,
        committed: 0,
    };
    host.state.stream_objects.insert((1, 0, 99), long);
    host.tick::<Trimmed>("{}").expect("a report");
    assert_eq!(asked(&host), [[(1, vec![100, 101, 102])]]);
}

#[test]
fn commands_and_ticks_are_bounded_and_a_backlog_is_worked_off() {
    let mut host = Host::new("trimmed");
    stream(&mut host, 1, 25_000, 2500, 0, false);
    stream(&mut host, 2, 30, 3, 10_000, true);
    let config = r#"{"objects-per-command":400,"objects-per-tick":1500}"#;
    let mut done = Vec::new();
    loop {
        let report = host.tick::<Trimmed>(config).expect("a report");
        done.push(report.done);
        if !report.more {
            break;
        }
        assert!(done.len() < 10, "it asks for another tick for ever");
    }
    assert_eq!(done, [1500, 1003]);
    let longest = asked(&host)
        .iter()
        .flatten()
        .map(|(_, ids)| ids.len())
        .max();
    assert_eq!(longest, Some(400));
    assert!(host.state.stream_objects.is_empty());
}

#[test]
fn what_is_rejected_is_counted_and_asks_for_no_other_tick() {
    let mut host = Host::new("trimmed");
    stream(&mut host, 1, 20, 5, 100, true);
    host.answers
        .push_back(Answer::Rejected("stream 1 is at epoch 4".to_owned()));
    let report = host
        .tick::<Trimmed>(r#"{"objects-per-tick":1}"#)
        .expect("a report");
    assert_eq!((report.done, report.failed, report.more), (0, 1, false));
    assert_eq!(report.summary, "trimmed objects: 1 rejected");
    assert!(host.lines()[0].message.contains("epoch 4"));
}

#[test]
fn an_unknown_answer_is_left_to_the_next_tick_and_a_failure_is_a_retry() {
    let mut host = Host::new("trimmed");
    stream(&mut host, 1, 20, 5, 100, true);
    host.answers.push_back(Answer::Unknown);
    let report = host.tick::<Trimmed>("{}").expect("a report");
    assert_eq!(report.summary, "trimmed objects: 2 with an unknown answer");
    host.fail_call(1, HostError::Unavailable("down".to_owned()));
    let failure = host.tick::<Trimmed>("{}").expect_err("a failure");
    assert!(matches!(failure, Failure::Retry(retry) if retry.reason == "down"));
}
