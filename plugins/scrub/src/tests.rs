use std::time::Duration;

use aedile_plugin::testing::{Call, Host, check_manifest};
use aedile_plugin::{Failure, Level, Report};

use super::{Config, Scrub};

/// A catalog of `count` objects of ten bytes, all of which are stored.
fn world(count: u64) -> Host {
    let mut host = Host::new("scrub");
    for id in 1..=count {
        host.state.commit(id, 10, 0);
        host.store(id, &[0; 10]);
    }
    host
}

fn tick(host: &mut Host, config: &str) -> Report {
    host.tick::<Scrub>(config).expect("a report")
}

fn errors(host: &Host) -> Vec<String> {
    let lines = host.lines();
    let errors = lines.iter().filter(|line| line.level == Level::Error);
    errors.map(|line| line.message.clone()).collect()
}

#[test]
fn the_manifest_holds_and_its_schema_has_the_keys_of_the_configuration() {
    check_manifest::<Scrub>(env!("CARGO_PKG_VERSION")).expect("a manifest that a host takes");
    for (config, key) in [
        (r#"{"objects-per-tick":0}"#, "objects-per-tick"),
        (r#"{"objects-per-tick":20001}"#, "objects-per-tick"),
        (r#"{"pass-interval":"59s"}"#, "pass-interval"),
        (r#"{"pass-interval":"often"}"#, "often"),
        (r#"{"delete":true}"#, "delete"),
    ] {
        let error = Host::validate::<Scrub>(config).expect_err(config);
        assert!(error.contains(key), "{error}");
        assert!(
            key == "delete"
                || key == "often"
                || <Scrub as aedile_plugin::Plugin>::MANIFEST.contains(key)
        );
    }
    assert_eq!(Config::default().validate(), Ok(()));
}

#[test]
fn a_pass_goes_through_the_catalog_in_portions_and_then_rests() {
    let mut host = world(25);
    let config = r#"{"objects-per-tick":10,"pass-interval":"1h"}"#;
    for done in [10, 10, 5] {
        assert_eq!(tick(&mut host, config).done, done);
    }
    assert_eq!(host.counters["checked"], 25);
    assert_eq!(host.gauges["missing"], 0.0);
    host.take_calls();
    assert_eq!(tick(&mut host, config), Report::idle());
    assert_eq!(host.calls, [], "between passes nothing is written");
    host.advance(Duration::from_secs(3600));
    assert_eq!(tick(&mut host, config).done, 10);
}

#[test]
fn another_holder_goes_on_where_the_last_stopped() {
    let mut host = world(25);
    let config = r#"{"objects-per-tick":10}"#;
    tick(&mut host, config);
    let mut next = world(25);
    next.state.kv = host.state.kv.clone();
    next.stored.remove(&3);
    assert_eq!(
        tick(&mut next, config).done,
        10,
        "the first ten are not looked up again"
    );
    let report = tick(&mut next, config);
    assert_eq!(
        report.summary,
        "25 objects compared: 0 missing, 0 of another size"
    );
}

#[test]
fn what_is_missing_or_of_another_size_is_reported_once_it_is_certain() {
    let mut host = world(25);
    host.stored.remove(&7);
    host.store(9, &[0; 9]);
    let first = tick(&mut host, "{}");
    assert!(first.more && first.failed == 0, "{first:?}");
    assert_eq!(errors(&host), Vec::<String>::new());
    let second = tick(&mut host, "{}");
    assert_eq!((second.failed, second.more), (2, false));
    let line = "live objects are damaged: 7 (10 bytes) is missing, 9 has 9 bytes, not 10";
    assert_eq!(second.summary, line);
    assert_eq!(errors(&host), [line]);
    assert_eq!(
        (host.gauges["missing"], host.gauges["wrong_size"]),
        (1.0, 1.0)
    );
    host.take_calls();
    assert_eq!(tick(&mut host, "{}"), Report::idle());
    assert_eq!(host.calls, []);
    // The bytes come back: the next pass finds that out.
    host.store(7, &[0; 10]);
    host.store(9, &[0; 10]);
    host.advance(Duration::from_secs(8 * 24 * 3600));
    let healed = tick(&mut host, "{}");
    assert!(
        healed.summary.starts_with("2 findings are settled"),
        "{healed:?}"
    );
    assert!(!host.state.kv.keys().any(|key| key.contains("/found/")));
}

#[test]
fn an_object_that_left_the_catalog_meanwhile_is_no_loss() {
    let mut host = world(25);
    host.stored.remove(&7);
    assert!(tick(&mut host, "{}").more);
    // It was on its way out: the next view does not have it any more.
    host.state.objects.remove(&7);
    let report = tick(&mut host, "{}");
    assert_eq!((report.failed, report.summary.as_str()), (0, ""));
    assert_eq!(errors(&host), Vec::<String>::new());
    assert!(!host.state.kv.keys().any(|key| key.contains("/found/")));
}

#[test]
fn of_a_composite_only_the_existence_is_compared() {
    let mut host = world(25);
    host.state.objects.get_mut(&5).expect("there").composite = true;
    host.state.objects.get_mut(&5).expect("there").size = 1 << 40;
    assert!(!tick(&mut host, "{}").more);
    host.store(5, &[]);
    host.advance(Duration::from_secs(8 * 24 * 3600));
    assert!(tick(&mut host, "{}").more, "an empty one links nothing");
}

#[test]
fn the_wrong_storage_is_named_and_nothing_is_noted() {
    let mut host = world(30);
    host.stored.clear();
    for _ in 0..2 {
        let failure = host.tick::<Scrub>("{}").expect_err("the wrong storage");
        assert!(matches!(failure, Failure::Reject(text) if text.contains("none of 30 objects")));
    }
    assert_eq!(host.calls, []);
}

#[test]
fn notes_that_are_damaged_cost_a_pass_and_nothing_else() {
    for damage in [&b""[..], b"{", b"\xff\xfe", b"{\"began\":1e300}", b"[]"] {
        let mut host = world(25);
        host.state.put("aedile/kv/scrub/pass", damage);
        host.state.put("aedile/kv/scrub/found/none", damage);
        host.state
            .put("aedile/kv/scrub/found/00000000000000000003", damage);
        assert_eq!(tick(&mut host, "{}").done, 25);
        assert!(!host.state.kv.keys().any(|key| key.contains("/found/")));
    }
    // A pass that claims to have ended in the far future.
    let mut host = world(25);
    let pass = br#"{"began":9000000000000000000,"after":null,"ended":true,"checked":1}"#;
    host.state.put("aedile/kv/scrub/pass", pass);
    assert_eq!(tick(&mut host, "{}").done, 25);
}

#[test]
fn findings_are_bounded() {
    let mut host = world(1500);
    for id in 2..=1500 {
        host.stored.remove(&id);
    }
    let config = r#"{"objects-per-tick":20000}"#;
    tick(&mut host, config);
    let kept = || |key: &&String| key.contains("/found/");
    assert_eq!(host.state.kv.keys().filter(kept()).count(), 1000);
    assert!(errors(&host)[0].starts_with("499 more objects"));
    host.store(2, &[0; 10]);
    let report = tick(&mut host, config);
    assert_eq!(report.failed, 999);
    assert!(
        report.summary.contains("and 989 more"),
        "{}",
        report.summary
    );
}

#[test]
fn it_stops_when_it_is_told_to_and_goes_on() {
    let mut host = world(25);
    host.stop_after = Some(0);
    let report = tick(&mut host, "{}");
    assert_eq!(report.done, 0);
    assert!(matches!(&host.take_calls()[..], [Call::PutKv(keys)] if keys.len() == 1));
    host.stop_after = None;
    assert_eq!(tick(&mut host, "{}").done, 25);
}
