//! The plugins that ship, against a host in memory.

use std::path::Path;
use std::time::Duration;

use aedile_engine::wit::{Level, Mark, Operation};
use aedile_engine::{Grants, Kind, Plugin, TickEnd};
use aedile_tests_engine::{Double, Trial, engine};

async fn shipped(name: &str) -> Plugin {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../host/cli/modules")
        .join(format!("{name}.wasm"));
    let bytes = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; `make plugins` builds it", path.display()));
    // No more than it asks for itself.
    let inspection = engine().inspect(&bytes).expect("it is a plugin");
    assert_eq!(inspection.kind, Kind::Core);
    let grants: Grants = inspection.manifest.grants.iter().copied().collect();
    engine().load(bytes, &grants).await.expect("it loads")
}

async fn ready(name: &str) -> Trial {
    let plugin = shipped(name).await;
    let mut trial = Trial::with(plugin);
    trial.limits.memory = 64 << 20;
    trial.limits.cpu = Duration::from_secs(5);
    let checked = trial.plugin().validate_config("{}", &trial.limits).await;
    assert_eq!(checked, Ok(Ok(())));
    trial
}

#[tokio::test]
async fn expiry_expires_once_and_proposes_nothing_when_idle() {
    let trial = ready("expiry").await;
    assert_eq!(trial.plugin().manifest().name, "expiry");
    let host = Double {
        lapsed: 3,
        ..Double::default()
    };
    let tick = trial.run(host).await;
    match &tick.end {
        TickEnd::Done(report) => assert_eq!(report.done, 3, "{report:?}"),
        end => panic!("{end:?}"),
    }
    assert_eq!(tick.usage.commands, 1);
    let tick = trial.run(Double::from(tick.host)).await;
    assert_eq!(tick.usage.commands, 0);
    assert_eq!(Double::from(tick.host).calls, 1);
}

#[tokio::test]
async fn cleaner_drains_the_queue_bytes_before_catalog() {
    let trial = ready("cleaner").await;
    // The double fails a clean whose bytes are still there.
    let mut host = Double::default();
    for seq in 0..12_345 {
        let operation = if seq % 10 == 0 {
            Operation::KeepData
        } else {
            Operation::Delete
        };
        host.marks.push(Mark {
            seq,
            id: seq + 100,
            operation,
        });
    }
    let mut done = 0;
    for _ in 0..10 {
        let tick = trial.run(host).await;
        host = Double::from(tick.host);
        match tick.end {
            TickEnd::More(report) => done += report.done,
            TickEnd::Done(report) => {
                done += report.done;
                break;
            }
            end => panic!("{end:?}"),
        }
    }
    assert_eq!((done, host.marks.len()), (12_345, 0));
    assert_eq!(host.deleted.len(), 12_345 - 1_235);
    let warned = host
        .log
        .iter()
        .any(|(level, _)| matches!(level, Level::Warn | Level::Error));
    assert!(!warned, "{:?}", host.log);
}

#[tokio::test]
async fn a_wrong_configuration_is_refused_with_its_key() {
    let trial = ready("cleaner").await;
    let answer = trial
        .plugin()
        .validate_config(r#"{"chunk":0}"#, &trial.limits)
        .await;
    let text = answer.expect("it answers").expect_err("it refuses");
    assert!(text.contains("chunk"), "{text}");
}
