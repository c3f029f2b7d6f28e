use aedile_plugin::testing::{Call, Host, check_manifest};
use aedile_plugin::{Answer, Failure, Report};

use super::{KeyCount, note};

const NAME: &str = "{{name}}";

fn host() -> Host {
    let mut host = Host::new(NAME);
    for key in ["/orders", "/payments", "other"] {
        host.state.put(key, b"");
    }
    host
}

#[test]
fn the_manifest_holds() {
    check_manifest::<KeyCount>(env!("CARGO_PKG_VERSION")).expect("a manifest that a host takes");
}

#[test]
fn a_change_is_noted_once() {
    let mut host = host();
    let report = host.tick::<KeyCount>("{}").expect("a report");
    assert_eq!(report.summary, "2 keys begin with /");
    assert_eq!(host.gauges["keys"], 2.0);
    assert_eq!(host.take_calls(), [Call::PutKv(vec![note(NAME)])]);

    let report = host.tick::<KeyCount>("{}").expect("a report");
    assert_eq!(report, Report::idle());
    assert_eq!(host.take_calls(), []);

    host.state.put("/returns", b"");
    host.tick::<KeyCount>("{}").expect("a report");
    assert_eq!(host.state.kv[&note(NAME)], b"3");
}

#[test]
fn what_the_host_rejects_reaches_the_operator() {
    let mut host = host();
    host.answers.push_back(Answer::Rejected("no".to_owned()));
    let failure = host.tick::<KeyCount>("{}").expect_err("rejected");
    assert_eq!(failure, Failure::Reject("no".to_owned()));
}

#[test]
fn mistakes_in_the_configuration_are_named() {
    for (config, words) in [
        (r#"{"prefx":"/"}"#, "prefx"),
        (r#"{"prefix":""}"#, "must not be empty"),
    ] {
        let error = Host::validate::<KeyCount>(config).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
}
