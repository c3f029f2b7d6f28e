//! How fast a real S3 service is asked: requests in flight, keys a second,
//! throttling, and how long one request may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aedile_clock::{BootInstant, Clock, ManualClock, Sleep, UnixMillis};
use aedile_storage::{DeleteOutcome, Store};
use aedile_tests_contract::s3::Kind;
use aedile_tests_contract::stores::{
    OPEN, clock as system, count, deleted, held, ids, open, open_on, options, with,
};
use tokio::sync::watch;

/// Public case quickwit#5242: bad for ever after a rate limit.
#[tokio::test]
async fn quickwit_5242_an_unavailable_service_throttles_and_is_not_asked_on_and_on() {
    let (server, store) = with(0..10).await;
    server
        .faults()
        .refuse(Kind::Any, 503, "SlowDown", usize::MAX);
    let outcomes = store.delete(&ids(0..10_000), &OPEN).await;
    assert_eq!(count(&outcomes, |o| *o == DeleteOutcome::Throttled), 10_000);
    let requests = server.faults().requests();
    assert!((4..=8).contains(&requests.bulk), "{requests:?}");
    assert_eq!(requests.single, 0);
    assert!(store.traits().pace < 0.2);

    server.faults().clear();
    let outcomes = store.delete(&ids(0..10_000), &OPEN).await;
    assert_eq!(deleted(&outcomes), 10_000, "it recovers at once");
    server.stop().await;
}

#[tokio::test]
async fn a_throttled_request_is_sent_again_in_the_same_call() {
    let (server, store) = with(0..0).await;
    server.faults().refuse(Kind::Bulk, 503, "SlowDown", 1);
    let outcomes = store.delete(&ids(0..3_000), &OPEN).await;
    assert_eq!(deleted(&outcomes), 3_000);
    let requests = server.faults().requests();
    assert_eq!((requests.bulk, requests.faulted), (4, 1));
    assert_eq!(server.faults().bulk_sizes(), [1_000, 1_000, 1_000]);
    server.stop().await;
}

#[tokio::test]
async fn what_was_throttled_is_not_sent_again_past_the_gate() {
    let (server, store) = with(0..10).await;
    server
        .faults()
        .refuse(Kind::Bulk, 503, "SlowDown", usize::MAX);
    let gate = || (server.faults().requests().bulk < 2).then_some(Duration::from_secs(60));
    let outcomes = store.delete(&ids(0..3_000), &gate).await;
    let requests = server.faults().requests();
    assert_eq!((requests.bulk, requests.single), (2, 0));
    let throttled = count(&outcomes, |o| *o == DeleteOutcome::Throttled);
    let not_sent = count(&outcomes, |o| *o == DeleteOutcome::NotSent);
    assert_eq!((throttled, not_sent), (2_000, 1_000));
    assert_eq!(held(&server, 0..10), 10);
    server.stop().await;
}

/// Public case slatedb#1894: 28 000 files at 100 ms each.
#[tokio::test]
async fn slatedb_1894_latency_is_paid_for_a_chunk_not_for_an_object() {
    let (server, store) = with(0..100).await;
    server.faults().set_latency(Duration::from_millis(20));
    let clock = system();
    let begun = clock.boot();
    let outcomes = store.delete(&ids(0..5_000), &OPEN).await;
    let took = clock.boot().since(begun);
    assert_eq!(deleted(&outcomes), 5_000);
    assert_eq!(server.faults().requests().bulk, 5);
    // One after another it is 100 s of latency alone.
    assert!(took < Duration::from_secs(20), "{took:?}");
    println!("5000 objects at 20 ms: {took:?}");
    server.stop().await;
}

#[tokio::test]
async fn several_chunks_are_in_flight_and_no_more_than_allowed() {
    let (server, _) = with(0..0).await;
    let mut options = options();
    options.chunk = 10;
    options.concurrency = 3;
    let store = open(&server.uri(), options);
    server.faults().set_latency(Duration::from_millis(50));
    assert_eq!(deleted(&store.delete(&ids(0..120), &OPEN).await), 120);
    let requests = server.faults().requests();
    assert_eq!((requests.bulk, requests.most_in_flight), (12, 3));
    server.stop().await;
}

#[tokio::test]
async fn a_shut_gate_sends_no_more_and_joins_what_was_sent() {
    let (server, _) = with(0..300).await;
    let mut options = options();
    options.chunk = 100;
    options.concurrency = 2;
    let store = open(&server.uri(), options);
    server.faults().set_latency(Duration::from_millis(100));
    let asked = AtomicUsize::new(0);
    let gate = || (asked.fetch_add(1, Ordering::Relaxed) < 2).then_some(Duration::from_secs(30));
    let outcomes = store.delete(&ids(0..1_000), &gate).await;
    assert_eq!(
        deleted(&outcomes),
        200,
        "both that were sent are answered for"
    );
    assert_eq!(count(&outcomes, |o| *o == DeleteOutcome::NotSent), 800);
    assert_eq!(server.faults().requests().bulk, 2);
    assert_eq!(held(&server, 0..300), 100);
    let none = store.delete(&ids(0..10), &|| Some(Duration::ZERO)).await;
    assert_eq!(count(&none, |o| *o == DeleteOutcome::NotSent), 10);
    assert_eq!(server.faults().requests().bulk, 2);
    server.stop().await;
}

/// Public case neon#6440: a connection that hangs. On a clock that is moved by
/// hand, and seen from the server: the client goes away.
#[tokio::test]
async fn neon_6440_a_request_takes_no_longer_than_the_gate_leaves() {
    let (server, _) = with(0..100).await;
    server.faults().set_latency(Duration::from_secs(600));
    let manual = ManualClock::new(UnixMillis(0));
    let mut options = options();
    options.request_timeout = Duration::from_secs(300);
    let store = open_on(&server.uri(), options, Arc::new(manual.clone()));
    for (leaves, takes) in [(200, 200), (1_000_000, 300_000)] {
        let before = server.faults().requests();
        let call = {
            let store = store.clone();
            tokio::spawn(async move {
                let gate = || Some(Duration::from_millis(leaves));
                store.delete(&ids(0..100), &gate).await
            })
        };
        server.faults().until(|now| now.in_flight == 1).await;
        manual.advance(Duration::from_millis(takes - 1));
        tokio::task::yield_now().await;
        assert_eq!(server.faults().requests().abandoned, before.abandoned);
        manual.advance(Duration::from_millis(1));
        let outcomes = call.await.expect("no panic");
        let text = format!("no answer within {takes} ms");
        let late = |o: &DeleteOutcome| *o == DeleteOutcome::Retry(text.clone());
        assert_eq!(count(&outcomes, late), 100, "{:?}", outcomes.first());
        server.faults().until(|now| now.in_flight == 0).await;
        let after = server.faults().requests();
        assert_eq!(after.bulk - before.bulk, 1, "nobody below retried");
        assert_eq!(after.abandoned - before.abandoned, 1);
    }
    assert_eq!(held(&server, 0..100), 100);
    server.stop().await;
}

/// A clock that is moved by hand and tells when the store rests: it has sent all
/// that it may, so that time can go on.
#[derive(Debug)]
struct Watched {
    manual: ManualClock,
    /// When it began to rest, and until when.
    rests: watch::Sender<(BootInstant, BootInstant)>,
}

/// A rest is never longer; what sleeps longer is a limit.
const LONGEST_REST: Duration = Duration::from_millis(50);

impl Clock for Watched {
    fn boot(&self) -> BootInstant {
        self.manual.boot()
    }

    fn unix(&self) -> UnixMillis {
        self.manual.unix()
    }

    fn sleep_until(&self, at: BootInstant) -> Sleep {
        let now = self.manual.boot();
        if at.since(now) <= LONGEST_REST {
            self.rests.send_replace((now, at));
        }
        self.manual.sleep_until(at)
    }
}

/// Keys deleted while `seconds` pass on a clock that is moved by hand.
async fn deleted_in(store: &Store, clock: &Arc<Watched>, seconds: u64) -> usize {
    let end = clock.boot() + Duration::from_secs(seconds);
    let mut rests = clock.rests.subscribe();
    let call = {
        let (store, clock) = (store.clone(), Arc::clone(clock));
        tokio::spawn(async move {
            let gate = || (clock.boot() < end).then_some(Duration::from_secs(600));
            store.delete(&ids(0..1_000_000), &gate).await
        })
    };
    while clock.boot() < end {
        let now = clock.boot();
        let (_, until) = *rests
            .wait_for(|(from, _)| *from == now)
            .await
            .expect("a clock");
        clock.manual.advance(until.since(now));
    }
    deleted(&call.await.expect("no panic"))
}

/// Public cases lance#3291 and pgbackrest#2704: providers with a limit of their
/// own, such as 300 deletes a second.
#[tokio::test]
async fn pgbackrest_2704_a_rate_of_300_keys_is_kept_to_a_twentieth() {
    for bulk in [true, false] {
        let (server, _) = with(0..0).await;
        if !bulk {
            server.faults().refuse(Kind::Bulk, 501, "", 1);
        }
        let clock = Arc::new(Watched {
            manual: ManualClock::new(UnixMillis(0)),
            rests: watch::Sender::default(),
        });
        let mut options = options();
        options.keys_per_second = std::num::NonZeroU32::new(300);
        let store = open_on(&server.uri(), options, clock.clone());
        let mut asked = 0;
        for window in ["at first", "after an hour of idling"] {
            let keys = deleted_in(&store, &clock, 10).await;
            let share = keys as f64 / 3_000.0;
            assert!(
                (0.95..=1.05).contains(&share),
                "bulk {bulk}, {window}: {keys} keys in 10 s"
            );
            asked += keys;
            clock.manual.advance(Duration::from_secs(3_600));
        }
        let on_the_wire: usize = server.faults().asked().values().sum();
        assert_eq!(on_the_wire, asked);
        let requests = server.faults().requests();
        if bulk {
            let sizes = server.faults().bulk_sizes();
            assert!(sizes.iter().all(|size| *size <= 30), "{sizes:?}");
            assert_eq!(requests.single, 0);
        } else {
            assert_eq!(requests.bulk, 1);
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn a_slow_service_does_not_lower_the_rate() {
    let (server, _) = with(0..0).await;
    let clock = Arc::new(Watched {
        manual: ManualClock::new(UnixMillis(0)),
        rests: watch::Sender::default(),
    });
    let mut options = options();
    options.keys_per_second = std::num::NonZeroU32::new(1_000);
    let store = open_on(&server.uri(), options, clock.clone());
    // Some seconds without trouble, so that four requests may be in flight.
    assert!(deleted_in(&store, &clock, 2).await > 1_000);
    server.faults().set_latency(Duration::from_secs(600));
    let call = {
        let store = store.clone();
        tokio::spawn(async move { store.delete(&ids(0..400), &OPEN).await })
    };
    for requests in 1..=4 {
        let reached = server.faults().until(|now| now.in_flight == requests);
        let limit = Duration::from_secs(60);
        let reached = system().timeout(limit, reached).await;
        assert!(reached.is_ok(), "{requests} requests were never in flight");
        // A tenth of a second for each hundred keys, answered or not.
        clock.manual.advance(Duration::from_millis(100));
    }
    clock.manual.advance(Duration::from_secs(60));
    let outcomes = call.await.expect("no panic");
    assert_eq!(deleted(&outcomes), 0);
    server.stop().await;
}

/// Public cases icechunk#2408 and s3fs#484: each key counts against the quota of
/// the store. The figures in simulated time: `pace::simulation`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn icechunk_2408_a_quota_of_3500_keys_is_used_and_little_is_refused() {
    const QUOTA: f64 = 3_500.0;
    let (server, store) = with(0..0).await;
    server.faults().set_latency(Duration::from_millis(20));
    let clock = system();
    let begun = clock.boot();
    server.faults().set_quota(QUOTA, begun);
    let outcomes = store.delete(&ids(0..30_000), &OPEN).await;
    let took = clock.boot().since(begun);
    assert_eq!(deleted(&outcomes), 30_000, "throttling is no failure");
    let requests = server.faults().requests();
    assert_eq!((requests.single, requests.granted), (0, 30_000));
    assert!(requests.over_quota > 0, "it never met the quota");
    let used = requests.granted as f64 / (QUOTA * (1.0 + took.as_secs_f64()));
    let refused = requests.over_quota as f64 / requests.bulk as f64;
    println!(
        "{:.0} % of the quota in {took:?}, {:.1} % of {} requests refused, {} in flight at most",
        used * 100.0,
        refused * 100.0,
        requests.bulk,
        requests.most_in_flight
    );
    // Wide bounds: the machine may be busy.
    assert!(used > 0.5 && refused < 0.15, "{used} {refused}");
    assert!((1..=4).contains(&requests.most_in_flight));
    assert!(store.traits().keys_per_second.is_some());
    let notes = store.notes();
    assert!(notes[0].contains("the service throttles"), "{notes:?}");
    server.stop().await;
}

#[tokio::test]
async fn requests_in_flight_begin_with_one_halve_and_grow_back() {
    let (server, _) = with(0..0).await;
    let mut options = options();
    options.chunk = 10;
    options.concurrency = 8;
    let store = open(&server.uri(), options);
    server.faults().set_latency(Duration::from_millis(100));
    let outcomes = store.delete(&ids(0..1_500), &OPEN).await;
    assert_eq!(deleted(&outcomes), 1_500);
    let arrivals = server.faults().arrivals();
    assert_eq!((arrivals[0], arrivals.iter().max()), (1, Some(&8)));
    let second = &arrivals[1..3];
    assert!(second.iter().all(|at_once| *at_once <= 2), "{arrivals:?}");
    assert!((store.traits().pace - 1.0).abs() < 1e-9);

    // All that are sent at once are refused, which counts once.
    server.faults().refuse(Kind::Bulk, 503, "SlowDown", 8);
    let before = arrivals.len();
    let outcomes = store.delete(&ids(0..800), &OPEN).await;
    assert_eq!(deleted(&outcomes), 800);
    let arrivals = server.faults().arrivals().split_off(before);
    let halved = &arrivals[8..16];
    assert!(halved.iter().all(|at_once| *at_once <= 5), "{arrivals:?}");
    assert!(store.traits().pace > 0.6, "it grows back: {arrivals:?}");
    assert_eq!(server.faults().requests().faulted, 8);
    server.stop().await;
}
