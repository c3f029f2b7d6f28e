use std::time::Duration;

use aedile_plugin::testing::{Call, Host, check_manifest};
use aedile_plugin::{Answer, Failure, HostError, Job, Report};

use super::Expiry;

/// A host with one reservation that has lapsed at this very moment, and one
/// that lapses a millisecond later.
fn host() -> Host {
    let mut host = Host::new("expiry");
    let now = host.now();
    host.state.reserve(1, now);
    host.state.reserve(2, now + 1);
    host
}

#[test]
fn the_manifest_holds() {
    check_manifest::<Expiry>(env!("CARGO_PKG_VERSION")).expect("a manifest that a host takes");
}

#[test]
fn a_misspelt_key_is_an_error() {
    let error = Host::validate::<Expiry>(r#"{"limit":1}"#).expect_err("unknown key");
    assert!(error.contains("limit"), "{error}");
}

#[test]
fn without_anything_lapsed_nothing_is_sent() {
    let mut host = host();
    host.state.reservations.remove(&1);
    assert_eq!(host.tick::<Expiry>("{}"), Ok(Report::idle()));
    assert_eq!(host.calls, []);
    assert!(host.counters.is_empty());
}

#[test]
fn one_command_expires_what_has_lapsed_and_the_next_tick_is_idle() {
    let mut host = host();
    let report = host.tick::<Expiry>("{}").expect("a report");
    assert_eq!(report.summary, "expired 1 reservation");
    assert_eq!((report.done, report.failed, report.more), (1, 0, false));
    assert_eq!(host.take_calls(), [Call::ExpireReservations]);
    assert_eq!(host.state.reservations.keys().collect::<Vec<_>>(), [&2]);
    assert_eq!(host.counters["expired"], 1);

    assert_eq!(host.tick::<Expiry>("{}"), Ok(Report::idle()));
    host.advance(Duration::from_millis(1));
    let report = host.tick::<Expiry>("{}").expect("a report");
    assert_eq!(report.done, 1);
    assert_eq!(host.calls, [Call::ExpireReservations]);
}

#[test]
fn more_than_a_page_is_still_one_command() {
    let mut host = Host::new("expiry");
    for id in 0..5000 {
        host.state.reserve(id, 0);
    }
    let report = host.tick::<Expiry>("{}").expect("a report");
    assert_eq!(report.summary, "expired at least 2000 reservations");
    assert_eq!(host.calls, [Call::ExpireReservations]);
    assert!(host.state.reservations.is_empty());
}

#[test]
fn every_other_answer_is_told_as_it_is() {
    let tick = |answer| {
        let mut host = host();
        host.answers.push_back(answer);
        host.tick::<Expiry>("{}")
    };
    assert_eq!(tick(Answer::Redundant), Ok(Report::idle()));
    let unknown = tick(Answer::Unknown).expect("a report");
    assert_eq!((unknown.done, unknown.failed), (0, 0));
    assert!(unknown.summary.contains("unknown"));
    let rejected = tick(Answer::Rejected("no".to_owned())).expect_err("a failure");
    assert!(matches!(rejected, Failure::Retry(retry) if retry.reason.ends_with("no")));
}

#[test]
fn a_host_that_cannot_serve_is_asked_again_later() {
    let mut host = host();
    host.fail_call(0, HostError::Unavailable("down".to_owned()));
    let failure = host.tick::<Expiry>("{}").expect_err("a failure");
    assert!(matches!(failure, Failure::Retry(retry) if retry.reason == "down"));
}
