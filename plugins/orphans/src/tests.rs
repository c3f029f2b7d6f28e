use aedile_plugin::testing::{Call, Host, check_manifest};
use aedile_plugin::{DeleteOutcome, Failure, HostError, ObjectId, Refusal, Report, Sweep};

use super::{Config, Orphans};

fn sweep(complete: bool, ripe: &[ObjectId]) -> Sweep {
    Sweep {
        listed: 100,
        candidates: 7,
        bytes: 70,
        complete,
        ripe: ripe.to_vec(),
        held: None,
    }
}

/// A host whose sweep says this, call by call, and whose store has the orphans.
fn host(sweeps: &[Sweep]) -> Host {
    let mut host = Host::new("orphans");
    for id in sweeps.iter().flat_map(|sweep| &sweep.ripe) {
        host.store(*id, b"bytes");
    }
    host.sweeps.extend(sweeps.iter().cloned());
    host
}

#[test]
fn the_manifest_holds_and_its_schema_has_the_keys_of_the_configuration() {
    check_manifest::<Orphans>(env!("CARGO_PKG_VERSION")).expect("a manifest that a host takes");
    let manifest = <Orphans as aedile_plugin::Plugin>::MANIFEST;
    assert!(manifest.contains("\"objects-per-tick\""));
    let error = Host::validate::<Orphans>(r#"{"objects-per-tick":0}"#).expect_err("zero");
    assert_eq!(error, "objects-per-tick is 0; it must be 1 to 50000");
    let error = Host::validate::<Orphans>(r#"{"grace":"1h"}"#).expect_err("the host's");
    assert!(error.contains("grace"), "{error}");
    assert_eq!(Config::default().validate(), Ok(()));
}

#[test]
fn without_orphans_a_tick_leaves_no_trace() {
    let mut host = host(&[]);
    assert_eq!(host.tick::<Orphans>("{}"), Ok(Report::idle()));
    assert_eq!(host.calls, [Call::FindOrphans]);
    assert_eq!(host.lines(), []);
}

#[test]
fn nothing_is_asked_for_before_the_sweep_is_complete() {
    let sweeps = [
        sweep(false, &[]),
        // A host would not: but what it says before the end is not believed.
        sweep(false, &[9]),
        sweep(true, &[1, 2]),
        sweep(true, &[3]),
        sweep(true, &[]),
    ];
    let mut host = host(&sweeps);
    let report = host.tick::<Orphans>("{}").expect("a report");
    assert_eq!(
        host.calls,
        [
            Call::FindOrphans,
            Call::FindOrphans,
            Call::FindOrphans,
            Call::DeleteOrphan(vec![1, 2]),
            Call::FindOrphans,
            Call::DeleteOrphan(vec![3]),
            Call::FindOrphans,
        ]
    );
    assert_eq!(report.summary, "deleted 3 orphans");
    assert_eq!((report.done, report.failed, report.more), (3, 0, false));
    assert_eq!(host.gauges["orphans"], 7.0);
}

#[test]
fn a_sweep_that_is_held_deletes_nothing_and_says_why() {
    let held = Sweep {
        held: Some("5000 of 6000 objects".to_owned()),
        ..sweep(true, &[])
    };
    let mut host = host(&[held]);
    let report = host.tick::<Orphans>("{}").expect("a report");
    assert_eq!(host.calls, [Call::FindOrphans]);
    assert_eq!(report.summary, "nothing is deleted: 5000 of 6000 objects");
    assert!(host.lines()[0].message.contains("5000 of 6000"));
    assert!(!report.more);
}

// ravel#1734, ravel#1880: a pass that did not happen must not pass for one that
// found nothing.
#[test]
fn ravel_1880_a_sweep_that_was_cut_short_or_failed_sets_no_gauge() {
    let mut cut = host(&[sweep(false, &[])]);
    cut.stop_after = Some(3);
    let report = cut.tick::<Orphans>("{}").expect("a report");
    assert!(report.more);
    assert!(cut.gauges.is_empty());
    let mut down = host(&[]);
    down.fail_call(0, HostError::Unavailable("the listing failed".to_owned()));
    let failure = down.tick::<Orphans>("{}").expect_err("a failure");
    assert!(matches!(failure, Failure::Retry(retry) if retry.reason == "the listing failed"));
    assert!(down.gauges.is_empty());
}

#[test]
fn each_outcome_counts_once() {
    let mut host = host(&[sweep(true, &[1, 2, 3, 4, 5]), sweep(true, &[])]);
    host.stored.remove(&2);
    for (id, outcome) in [
        (
            3,
            DeleteOutcome::Refused(Refusal::Conflict("live".to_owned())),
        ),
        (4, DeleteOutcome::Denied("AccessDenied".to_owned())),
        (5, DeleteOutcome::Throttled),
    ] {
        host.delete_outcomes.insert(id, outcome);
    }
    let report = host.tick::<Orphans>("{}").expect("a report");
    assert_eq!(report.summary, "deleted 2 orphans, 1 known again, 2 left");
    assert_eq!((report.done, report.failed), (2, 2));
    let counted: Vec<_> = host
        .counters
        .iter()
        .map(|(name, by)| (name.as_str(), *by))
        .collect();
    assert_eq!(
        counted,
        [("absent", 1), ("deleted", 1), ("failed", 2), ("spared", 1)]
    );
    assert_eq!(
        host.lines()[0].message,
        "left 2; object 4: denied: AccessDenied"
    );
}

#[test]
fn a_store_in_doubt_ends_the_tick() {
    let mut host = host(&[sweep(true, &[1]), sweep(true, &[2])]);
    let doubt = Refusal::StoreSuspect("the wrong bucket".to_owned());
    host.delete_outcomes
        .insert(1, DeleteOutcome::Refused(doubt));
    let report = host.tick::<Orphans>("{}").expect("a report");
    assert_eq!(host.calls, [Call::FindOrphans, Call::DeleteOrphan(vec![1])]);
    assert_eq!((report.done, report.failed, report.more), (0, 1, false));
}

#[test]
fn a_budget_ends_the_tick_and_asks_for_another() {
    let mut host = host(&[sweep(true, &[1, 2]), sweep(true, &[3, 4]), sweep(true, &[])]);
    let config = r#"{"objects-per-tick":2}"#;
    let first = host.tick::<Orphans>(config).expect("a report");
    assert_eq!((first.done, first.more), (2, true));
    let second = host.tick::<Orphans>(config).expect("a report");
    assert_eq!((second.done, second.more), (2, true));
    let third = host.tick::<Orphans>(config).expect("a report");
    assert_eq!((third.done, third.more), (0, false));
}

#[test]
fn what_was_deleted_before_a_failure_is_reported() {
    let mut host = host(&[sweep(true, &[1]), sweep(true, &[2])]);
    host.fail_call(2, HostError::Unavailable("down".to_owned()));
    let report = host.tick::<Orphans>("{}").expect("a report");
    assert_eq!((report.done, report.more), (1, false));
    assert_eq!(host.lines()[0].message, "stopped early: down");
}
