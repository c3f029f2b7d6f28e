use aedile_plugin::testing::{Call, Host, check_manifest};
use aedile_plugin::{
    Answer, DeleteOutcome, Failure, HostError, ObjectId, Operation, Refusal, Report,
};

use super::{Cleaner, Config};

/// A host with marks on the objects 0 to `count` - 1, whose bytes are there.
fn host(count: ObjectId) -> Host {
    let mut host = Host::new("cleaner");
    for id in 0..count {
        host.state.mark(id, Operation::Delete);
        host.store(id, b"bytes");
    }
    host
}

/// Ticks until a tick asks for no other; the reports.
fn drain(host: &mut Host, config: &str) -> Vec<Report> {
    let mut reports = Vec::new();
    loop {
        let report = host.tick::<Cleaner>(config).expect("a report");
        let more = report.more;
        reports.push(report);
        if !more {
            return reports;
        }
        assert!(reports.len() < 100, "it asks for another tick for ever");
    }
}

fn ids(range: std::ops::Range<ObjectId>) -> Vec<ObjectId> {
    range.collect()
}

#[test]
fn the_manifest_holds_and_its_schema_has_the_keys_of_the_configuration() {
    check_manifest::<Cleaner>(env!("CARGO_PKG_VERSION")).expect("a manifest that a host takes");
    let manifest = <Cleaner as aedile_plugin::Plugin>::MANIFEST;
    for key in ["batch", "chunk", "objects-per-tick"] {
        assert!(manifest.contains(&format!("\"{key}\"")), "{key}");
        let text = format!(r#"{{"{key}":0}}"#);
        let error = Host::validate::<Cleaner>(&text).expect_err("zero");
        assert!(error.starts_with(key), "{error}");
    }
    let error = Host::validate::<Cleaner>(r#"{"chunk":1001}"#).expect_err("too many");
    assert_eq!(error, "chunk is 1001; it must be 1 to 1000");
    let error = Host::validate::<Cleaner>(r#"{"chunks":1}"#).expect_err("unknown");
    assert!(error.contains("chunks"), "{error}");
    assert_eq!(Host::validate::<Cleaner>("{}"), Ok(()));
    assert_eq!(Config::default().validate(), Ok(()));
}

#[test]
fn an_empty_queue_sends_nothing() {
    let mut host = Host::new("cleaner");
    assert_eq!(host.tick::<Cleaner>("{}"), Ok(Report::idle()));
    assert_eq!(host.calls, []);
    assert_eq!(host.lines(), []);
}

#[test]
fn each_chunk_is_cleaned_right_after_its_delete_in_queue_order() {
    let mut host = host(5);
    host.stored.remove(&3);
    let report = host
        .tick::<Cleaner>(r#"{"chunk":2,"batch":3}"#)
        .expect("a report");
    assert_eq!(
        host.calls,
        [
            Call::Delete(vec![0, 1]),
            Call::CleanDestroyed(vec![0, 1]),
            Call::Delete(vec![2]),
            Call::CleanDestroyed(vec![2]),
            Call::Delete(vec![3, 4]),
            Call::CleanDestroyed(vec![3, 4]),
        ]
    );
    assert_eq!(report.summary, "cleaned 5 (4 deleted, 1 absent)");
    assert_eq!((report.done, report.failed, report.more), (5, 0, false));
    assert!(host.state.destroyed.is_empty() && host.stored.is_empty());
}

#[test]
fn kept_data_is_cleaned_without_a_storage_call() {
    let mut host = Host::new("cleaner");
    host.state.mark(1, Operation::KeepData);
    host.store(1, b"read by a composite");
    let report = host.tick::<Cleaner>("{}").expect("a report");
    assert_eq!(host.calls, [Call::CleanDestroyed(vec![1])]);
    assert_eq!(report.summary, "cleaned 1 (1 kept)");
    assert!(host.stored.contains_key(&1));
}

#[test]
fn a_mixed_chunk_keeps_the_order_of_the_queue() {
    let mut host = Host::new("cleaner");
    for (id, operation) in [
        (9, Operation::Delete),
        (2, Operation::KeepData),
        (7, Operation::DeepDelete),
    ] {
        host.state.mark(id, operation);
        host.store(id, b"x");
    }
    host.tick::<Cleaner>("{}").expect("a report");
    assert_eq!(
        host.calls,
        [
            Call::Delete(vec![9, 7]),
            Call::CleanDestroyed(vec![9, 2, 7])
        ]
    );
}

#[test]
fn what_fails_is_left_counted_and_never_delays_the_rest() {
    let mut host = host(10_000);
    let outcomes = [
        DeleteOutcome::Throttled,
        DeleteOutcome::Retry("timed out".to_owned()),
        DeleteOutcome::Denied("AccessDenied".to_owned()),
        DeleteOutcome::Refused(Refusal::Conflict("live".to_owned())),
    ];
    for (id, outcome) in outcomes.into_iter().enumerate() {
        host.delete_outcomes.insert(id as ObjectId, outcome);
    }
    let report = host.tick::<Cleaner>("{}").expect("a report");
    assert_eq!((report.done, report.failed, report.more), (9_996, 4, false));
    assert_eq!(
        report.summary,
        "cleaned 9996 (9996 deleted), left 4 (1 throttled, 1 to retry, 1 denied, 1 refused)"
    );
    assert_eq!(host.calls[1], Call::CleanDestroyed(ids(4..1000)));
    let lines = host.lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].message, "left 4; object 0: throttled");

    // The host hides them while they are backed off: idle.
    host.take_calls();
    assert_eq!(host.tick::<Cleaner>("{}"), Ok(Report::idle()));
    assert_eq!(host.calls, []);
}

#[test]
fn failures_alone_never_ask_for_another_tick() {
    let mut host = host(30);
    for id in 0..30 {
        let outcome = DeleteOutcome::Denied("no".to_owned());
        host.delete_outcomes.insert(id, outcome);
    }
    let report = host
        .tick::<Cleaner>(r#"{"objects-per-tick":10}"#)
        .expect("a report");
    assert_eq!((report.done, report.failed, report.more), (0, 10, false));
    assert_eq!(report.summary, "left 10 (10 denied)");
    assert_eq!(host.calls, [Call::Delete(ids(0..10))]);
}

#[test]
fn a_backlog_asks_for_tick_after_tick_until_it_is_gone() {
    let mut host = host(25);
    let reports = drain(&mut host, r#"{"objects-per-tick":10,"chunk":4}"#);
    let done: Vec<_> = reports.iter().map(|report| report.done).collect();
    assert_eq!(done, [10, 10, 5]);
    assert!(host.state.destroyed.is_empty());
}

#[test]
fn a_budget_that_ends_with_the_queue_asks_for_nothing() {
    let mut host = host(10);
    let reports = drain(&mut host, r#"{"objects-per-tick":10}"#);
    assert_eq!(reports.len(), 1);
}

#[test]
fn it_stops_between_chunks_when_asked_to() {
    let mut host = host(10);
    host.stop_after = Some(2);
    let report = host.tick::<Cleaner>(r#"{"chunk":3}"#).expect("a report");
    assert_eq!((report.done, report.more), (3, true));
    assert_eq!(host.state.destroyed.len(), 7);
}

#[test]
fn a_store_in_doubt_ends_the_tick() {
    let mut host = host(10);
    let suspect = Refusal::StoreSuspect("no live object is there".to_owned());
    host.delete_outcomes
        .insert(0, DeleteOutcome::Refused(suspect));
    let report = host.tick::<Cleaner>(r#"{"chunk":1}"#).expect("a report");
    assert_eq!(host.calls, [Call::Delete(vec![0])]);
    assert_eq!((report.failed, report.more), (1, false));
    assert!(host.lines()[0].message.contains("no live object is there"));
}

#[test]
fn a_clean_is_done_unknown_or_left_as_it_is_answered() {
    let tick = |answer| {
        let mut host = host(2);
        host.answers.push_back(answer);
        let report = host.tick::<Cleaner>("{}").expect("a report");
        (report.done, report.failed, report.summary)
    };
    let cleaned = "cleaned 2 (2 deleted)".to_owned();
    assert_eq!(tick(Answer::Redundant), (2, 0, cleaned));
    let unknown = "cleaned 0 (2 deleted), 2 with an unknown answer".to_owned();
    assert_eq!(tick(Answer::Unknown), (0, 0, unknown));
    let (done, failed, summary) = tick(Answer::Rejected("no".to_owned()));
    assert_eq!((done, failed), (0, 2));
    assert_eq!(summary, "left 2 (2 clean rejected)");
}

#[test]
fn a_host_that_cannot_serve_fails_the_tick_only_if_nothing_was_done() {
    let down = || HostError::Unavailable("down".to_owned());
    let mut none_done = host(4);
    none_done.fail_call(0, down());
    let failure = none_done.tick::<Cleaner>("{}").expect_err("a failure");
    assert!(matches!(failure, Failure::Retry(retry) if retry.reason == "down"));

    // The first chunk is cleaned, then the host fails in the second.
    let mut some_done = host(4);
    some_done.fail_call(2, down());
    let report = some_done
        .tick::<Cleaner>(r#"{"chunk":2}"#)
        .expect("a report");
    assert_eq!((report.done, report.more), (2, false));
    assert_eq!(some_done.lines()[0].message, "stopped early: down");
}

#[test]
fn a_crash_after_the_delete_repeats_one_chunk_and_loses_nothing() {
    let mut host = host(6);
    // Bytes of the first chunk are gone, its clean was never sent.
    for id in 0..2 {
        host.stored.remove(&id);
    }
    let report = host.tick::<Cleaner>(r#"{"chunk":2}"#).expect("a report");
    assert_eq!(report.summary, "cleaned 6 (4 deleted, 2 absent)");
    assert!(host.state.destroyed.is_empty());
}
