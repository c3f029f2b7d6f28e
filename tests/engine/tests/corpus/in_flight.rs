//! A host call is under way when something happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aedile_engine::wit::HostError;
use aedile_engine::{Fatal, LimitName, TickEnd};
use aedile_tests_engine::{Behaviour, Double, Trial, first};
use tokio::sync::Notify;

fn host(behaviour: Behaviour) -> Double {
    Double {
        behaviour,
        ..Double::default()
    }
}

#[tokio::test]
async fn expire_once() {
    let tick = Trial::of("expire_once")
        .await
        .run(host(Behaviour::Answer))
        .await;
    assert!(matches!(tick.end, TickEnd::Done(_)), "{tick:?}");
    assert_eq!(tick.usage.commands, 1);
    assert_eq!(Double::from(tick.host).calls, 1);
}

/// A call that never ends is given the grace period, then dropped.
#[tokio::test]
async fn a_call_past_the_wall_limit_ends_the_tick() {
    let mut trial = Trial::of("expire_once").await;
    trial.limits.wall = Duration::from_millis(300);
    trial.limits.grace = Duration::from_millis(200);
    let dropped = Arc::new(AtomicBool::new(false));
    let tick = trial.run(host(Behaviour::Hang(dropped.clone()))).await;
    assert!(
        matches!(
            tick.end,
            TickEnd::Limit {
                which: LimitName::Wall,
                ..
            }
        ),
        "{tick:?}"
    );
    assert!(tick.usage.wall >= Duration::from_millis(500), "{tick:?}");
    assert!(
        tick.usage.cpu < Duration::from_millis(300),
        "waiting is free: {tick:?}"
    );
    assert!(dropped.load(Ordering::SeqCst), "nothing of it runs on");
    assert!(tick.host.is_some());
}

/// A call that ends within the grace period is awaited; its answer does not
/// reach the plugin, which is not run again.
#[tokio::test]
async fn a_call_that_outlives_the_term_is_awaited() {
    let mut trial = Trial::of("expire_once").await;
    let lease = Arc::new(AtomicBool::new(true));
    let holds = lease.clone();
    trial.control.authority = Arc::new(move || holds.load(Ordering::SeqCst));
    let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let ended = Arc::new(AtomicBool::new(false));
    let behaviour = Behaviour::Wait {
        began: began.clone(),
        go: go.clone(),
        ended: ended.clone(),
    };
    let tick = trial.run(host(behaviour));
    let elsewhere = async {
        began.notified().await;
        lease.store(false, Ordering::SeqCst);
        go.notify_one();
    };
    let (tick, ()) = tokio::join!(tick, elsewhere);
    assert_eq!(tick.end, TickEnd::LeaseLost);
    assert!(ended.load(Ordering::SeqCst), "it came to its end");
    assert!(Double::from(tick.host).log.is_empty(), "the plugin ran on");
}

/// A call that ignores the end of the term does not keep the tick for ever.
#[tokio::test]
async fn a_call_that_ignores_the_end_of_the_term_is_dropped() {
    let mut trial = Trial::of("expire_once").await;
    // Asked before the call, and then only by the watch.
    trial.control.authority = first(2);
    trial.limits.grace = Duration::from_millis(100);
    let dropped = Arc::new(AtomicBool::new(false));
    let tick = trial.run(host(Behaviour::Hang(dropped.clone()))).await;
    assert_eq!(tick.end, TickEnd::LeaseLost);
    assert!(dropped.load(Ordering::SeqCst));
    assert!(tick.usage.wall < Duration::from_secs(5), "{tick:?}");
}

/// Without authority the host is not even asked.
#[tokio::test]
async fn no_call_is_made_after_the_term() {
    let mut trial = Trial::of("expire_once").await;
    trial.control.authority = first(0);
    let tick = trial.run(host(Behaviour::Answer)).await;
    assert_eq!(tick.end, TickEnd::LeaseLost);
    assert_eq!(Double::from(tick.host).calls, 0);
}

/// A caller that goes away leaves nothing running.
#[tokio::test]
async fn a_tick_that_nobody_awaits_ends() {
    let mut trial = Trial::of("expire_once").await;
    trial.limits.grace = Duration::ZERO;
    let dropped = Arc::new(AtomicBool::new(false));
    {
        let tick = trial.run(host(Behaviour::Hang(dropped.clone())));
        tokio::pin!(tick);
        tokio::select! {
            biased;
            _ = &mut tick => panic!("it hangs"),
            () = tokio::task::yield_now() => {}
        }
        assert!(!dropped.load(Ordering::SeqCst), "it still hangs");
    }
    assert!(dropped.load(Ordering::SeqCst), "the call is dropped");
}

#[tokio::test]
async fn a_host_that_panics_ends_only_the_tick() {
    let tick = Trial::of("expire_once")
        .await
        .run(host(Behaviour::Panic))
        .await;
    assert_eq!(
        tick.end,
        TickEnd::HostError("it panicked: the double was told to panic".to_owned())
    );
    assert!(tick.host.is_none());
}

#[tokio::test]
async fn a_host_that_fails_is_not_the_plugins_fault() {
    let trial = Trial::of("expire_once").await;
    let failed = Behaviour::Fail(Fatal::Failed("no\nview".to_owned()));
    let tick = trial.run(host(failed)).await;
    assert_eq!(tick.end, TickEnd::HostError("no\\nview".to_owned()));
    let tick = trial.run(host(Behaviour::Fail(Fatal::LeaseLost))).await;
    assert_eq!(tick.end, TickEnd::LeaseLost);
}

#[tokio::test]
async fn an_error_of_the_host_is_for_the_plugin() {
    let trial = Trial::of("expire_once").await;
    let error = Behaviour::Error(HostError::Unavailable("later".to_owned()));
    let tick = trial.run(host(error)).await;
    assert!(matches!(tick.end, TickEnd::Done(_)), "{tick:?}");
}

#[tokio::test]
async fn a_long_text_of_the_host_is_cut() {
    let mut trial = Trial::of("expire_once").await;
    // It would need more memory than the plugin may have.
    trial.limits.memory = 4 << 16;
    let tick = trial.run(host(Behaviour::Text(8 << 20))).await;
    assert!(matches!(tick.end, TickEnd::Done(_)), "{tick:?}");
}
