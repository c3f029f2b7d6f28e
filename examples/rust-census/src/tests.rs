use aedile_plugin::testing::{Call, Host, check_manifest};
use aedile_plugin::{Answer, Failure, Report, Stream};

use super::StreamCensus;

const REPORT: &str = "aedile/kv/stream-census/report";
const PASS: &str = "aedile/kv/stream-census/pass";

/// Five streams: 3 and 4 hold the same, 5 holds nothing any more.
fn host() -> Host {
    let mut host = Host::new("stream-census");
    for (id, start_offset, end_offset) in
        [(1, 0, 10), (2, 5, 50), (3, 0, 20), (4, 80, 100), (5, 7, 7)]
    {
        host.state.streams.insert(
            id,
            Stream {
                id,
                epoch: 1,
                start_offset,
                end_offset,
                opened: id % 2 == 1,
                node: 1,
            },
        );
    }
    host
}

fn report(host: &Host) -> &str {
    std::str::from_utf8(&host.state.kv[REPORT]).expect("text")
}

#[test]
fn the_manifest_holds() {
    check_manifest::<StreamCensus>(env!("CARGO_PKG_VERSION"))
        .expect("a manifest that a host takes");
}

#[test]
fn the_largest_streams_are_named_and_a_second_tick_does_nothing() {
    let mut host = host();
    let config = r#"{"top":3,"warn-records":20}"#;
    let first = host.tick::<StreamCensus>(config).expect("a report");
    assert_eq!(first.summary, "5 streams, 3 open, 95 records");
    assert_eq!(
        report(&host),
        "streams 5\nopen 3\nrecords 95\ntop 2 45\ntop 3 20\ntop 4 20\n"
    );
    let [line] = &host.lines()[..] else {
        panic!("one line: {:?}", host.lines());
    };
    assert_eq!(line.message, "stream 2 holds 45 records, more than 20");
    host.take_calls();
    assert_eq!(host.tick::<StreamCensus>(config), Ok(Report::idle()));
    assert_eq!(host.take_calls(), []);
}

#[test]
fn a_count_in_portions_ends_as_one_at_once() {
    let (mut whole, mut portions) = (host(), host());
    whole.tick::<StreamCensus>("{}").expect("a report");
    let config = r#"{"streams-per-tick":2}"#;
    for more in [true, true, false] {
        let found = portions.tick::<StreamCensus>(config).expect("a report");
        assert_eq!(found.more, more);
        assert_eq!(portions.state.kv.contains_key(PASS), more);
    }
    assert_eq!(portions.state.kv, whole.state.kv);
}

#[test]
fn what_another_wrote_in_its_place_is_not_taken_for_a_count() {
    for text in [
        "",
        "after 1\n",
        "after -1\nstreams 1\nopen 1\nrecords 1\n",
        "after 3\nstreams x",
    ] {
        let mut host = host();
        host.state.put(PASS, text.as_bytes());
        host.tick::<StreamCensus>("{}").expect("a report");
        assert!(report(&host).starts_with("streams 5\n"), "{text:?}");
    }
}

#[test]
fn a_rejection_reaches_the_operator() {
    let mut host = host();
    host.answers.push_back(Answer::Rejected("no".to_owned()));
    let failure = host.tick::<StreamCensus>("{}").expect_err("a failure");
    assert_eq!(failure, Failure::Reject("no".to_owned()));
    assert_eq!(host.take_calls(), [Call::PutKv(vec![REPORT.to_owned()])]);
}

#[test]
fn mistakes_in_the_configuration_are_named() {
    for (config, words) in [
        (r#"{"tpo":1}"#, "tpo"),
        (r#"{"top":0}"#, "top"),
        (r#"{"streams-per-tick":100001}"#, "streams-per-tick"),
    ] {
        let error = Host::validate::<StreamCensus>(config).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
}
