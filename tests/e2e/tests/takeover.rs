//! Who leads, whatever becomes of the leader: killed, stopped, paused.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use std::time::Duration;

use aedile_tests_contract::databases::{Kind, Raw};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::s3::S3Server;
use aedile_tests_e2e::binary::{Node, times, when};
use aedile_tests_e2e::site::{BOUND, INTERVAL, Site, TTL, drained, leader, said};
use aedile_tests_e2e::wait::{clock, until};
use aedile_tests_e2e::{cluster, outside};
use nix::sys::signal::Signal;

for_each_database!(
    a_killed_leader_is_succeeded,
    a_stopped_leader_hands_over,
    a_paused_leader_never_acts_again,
    an_idle_cluster_appends_nothing,
);

const TWO_SECONDS: &str = "2s";

async fn ready(node: &Node) {
    // A follower says nothing when it has started: its heartbeat is its word.
    said(node, "starting").await;
}

/// Wait until a node shows itself in the database: it has started.
async fn seen(raw: &mut Raw, node: &Node) {
    let name = node.name.clone();
    until(&format!("{name} is up"), BOUND, async || {
        let nodes = raw.texts("SELECT node FROM aedile_node").await.ok()?;
        nodes.contains(&name).then_some(())
    })
    .await;
}

async fn killed(kind: Kind, ttl: &str, bound: Duration) {
    let site = Site::new(kind, 20, 20).await;
    let mut raw = site.raw().await;
    let mut a = site.node("a", ttl, &[]);
    ready(&a).await;
    drained(&mut raw, BOUND).await;
    let (_, before, _) = leader(&mut raw, &[&a], BOUND).await;
    let b = site.node("b", ttl, &[]);
    seen(&mut raw, &b).await;
    let clock = clock();
    let start = clock.boot();
    a.crash();
    let (_, after, _) = leader(&mut raw, &[&b], bound).await;
    let took = clock.boot().since(start);
    println!("crash takeover on {kind:?} with a TTL of {ttl}: {took:?}");
    assert!(took <= bound, "{took:?} is more than {bound:?}");
    assert!(
        after.epoch > before.epoch,
        "{} follows {}",
        after.epoch,
        before.epoch
    );
    // The new leader works.
    let marked = more_marks(&site, &mut raw).await;
    drained(&mut raw, BOUND).await;
    for key in marked {
        assert!(!site.objects().join(key).exists());
    }
}

async fn a_killed_leader_is_succeeded(kind: Kind) {
    killed(kind, TWO_SECONDS, TTL + INTERVAL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_is_succeeded_with_the_defaults() {
    killed(
        Kind::Sqlite,
        "10s",
        Duration::from_secs(10) + Duration::from_millis(2500),
    )
    .await;
}

/// Destroy some of the live objects; their keys.
async fn more_marks(site: &Site, raw: &mut Raw) -> Vec<String> {
    let state = outside::state(raw).await;
    let some: Vec<u64> = outside::live(&state).into_iter().take(5).collect();
    assert_eq!(some.len(), 5, "live objects are left to destroy");
    cluster::destroyed(raw, &some).await;
    let keys: Vec<String> = some.into_iter().map(aedile_storage::object_key).collect();
    assert!(keys.iter().all(|key| site.objects().join(key).exists()));
    keys
}

async fn a_stopped_leader_hands_over(kind: Kind) {
    let site = Site::new(kind, 20, 20).await;
    let mut raw = site.raw().await;
    let mut nodes: Vec<Node> = ["a", "b", "c"]
        .map(|name| site.node(name, TWO_SECONDS, &[]))
        .into();
    for node in &nodes {
        seen(&mut raw, node).await;
    }
    drained(&mut raw, BOUND).await;
    let mut handovers = Vec::new();
    while nodes.len() > 1 {
        let all: Vec<&Node> = nodes.iter().collect();
        let (which, before, _) = leader(&mut raw, &all, BOUND).await;
        let mut stopped = nodes.remove(which);
        assert_eq!(stopped.stop(), Some(0), "{}", stopped.log());
        let rest: Vec<&Node> = nodes.iter().collect();
        let (next, after, _) = leader(&mut raw, &rest, BOUND).await;
        assert!(
            after.epoch > before.epoch,
            "{} follows {}",
            after.epoch,
            before.epoch
        );
        let ended = when(&stopped.log(), "no longer leading").expect("it says that it stopped");
        let epoch = format!("leading epoch={}", after.epoch);
        said(rest[next], &epoch).await;
        let began = when(&rest[next].log(), &epoch).expect("it says that it leads");
        assert!(
            began >= ended - 1,
            "the next began before the last had ended"
        );
        handovers.push(began - ended);
    }
    println!("handovers after a clean stop on {kind:?}: {handovers:?} ms");
    let attempt = i64::try_from(INTERVAL.as_millis()).expect("it fits");
    // Jitter is at most a quarter of the interval.
    assert!(
        handovers.iter().all(|&took| took <= attempt * 5 / 4),
        "{handovers:?}"
    );
    if kind == Kind::Postgres {
        // The better of two: other tests share the machine.
        assert!(handovers.iter().any(|&took| took <= 150), "{handovers:?}");
    }
}

async fn a_paused_leader_never_acts_again(kind: Kind) {
    let server = S3Server::start("records").await.unwrap();
    let site = Site::without_bytes(kind, 20, 400).await;
    for key in site.made.keys() {
        server.put(&key, &cluster::content(&key)).unwrap();
    }
    // Slow enough to be paused with requests in flight.
    server.faults().set_latency(Duration::from_millis(100));
    let uri = server.uri();
    let place = ["--meta-url", site.url(), "--storage", &uri];
    let args = [&place[..], &["--ttl", TWO_SECONDS, "--heartbeat", "1s"]].concat();
    let start = |name: &str| Node::start_with(name, site.dir(), &args, &server.environment());
    let mut raw = site.raw().await;
    let a = start("a");
    let (_, before, _) = leader(&mut raw, &[&a], BOUND).await;
    until("it works", BOUND, async || {
        (server.faults().bulk_in_flight() > 0).then_some(())
    })
    .await;
    pause(&a, &mut raw, kind).await;
    let clock = clock();
    let paused = clock.boot();
    let paused_at = clock.unix().0;
    let b = start("b");
    // The bound counts from when b is up to take it.
    let (_, after, _) = leader(&mut raw, &[&b], BOUND).await;
    assert!(clock.boot().since(paused) < BOUND);
    assert!(
        after.epoch > before.epoch,
        "{} follows {}",
        after.epoch,
        before.epoch
    );
    server.faults().set_latency(Duration::ZERO);
    drained(&mut raw, BOUND).await;
    let last = raw.last().await.unwrap();
    let requests = server.faults().requests();

    a.signal(Signal::SIGCONT);
    said(&a, "no longer leading").await;
    until("a follows", BOUND, async || {
        let status = raw
            .texts("SELECT status FROM aedile_node WHERE node = 'a'")
            .await
            .ok()?;
        status.first()?.contains("\"follower\"").then_some(())
    })
    .await;
    let lost = times(&a.log(), "no longer leading").next().expect("a time");
    assert!(lost >= paused_at, "it lost the lease before it was paused");
    // Nothing of its old term came after: no row, no record, no delete.
    assert_eq!(raw.last().await.unwrap(), last);
    let records = raw
        .integers(&format!(
            "SELECT count(*) FROM aedile_run WHERE epoch = {} AND ended_ms > {paused_at}
             AND outcome <> 'lease-lost'",
            before.epoch
        ))
        .await
        .unwrap();
    assert_eq!(records, [0], "a tick of the old term is on record");
    let now = server.faults().requests();
    assert_eq!((now.bulk, now.single), (requests.bulk, requests.single));
    let lease = outside::lease(&mut raw).await.unwrap();
    assert!(lease.names("b") && lease.epoch == after.epoch, "{lease:?}");
    for id in &site.made.live {
        assert!(server.holds(&aedile_storage::object_key(*id)));
    }
}

/// Pause a node. One that is inside a write would keep SQLite's only lock for
/// as long as it is paused, which is not what is asked here: then it goes on
/// and is paused again.
async fn pause(node: &Node, raw: &mut Raw, kind: Kind) {
    loop {
        node.signal(Signal::SIGSTOP);
        if kind == Kind::Postgres || raw.run("BEGIN IMMEDIATE; ROLLBACK").await.is_ok() {
            return;
        }
        node.signal(Signal::SIGCONT);
    }
}

async fn an_idle_cluster_appends_nothing(kind: Kind) {
    let site = Site::new(kind, 20, 20).await;
    let mut raw = site.raw().await;
    let a = site.node("a", TWO_SECONDS, &["--heartbeat", "1s"]);
    let b = site.node("b", TWO_SECONDS, &["--heartbeat", "1s"]);
    for node in [&a, &b] {
        seen(&mut raw, node).await;
    }
    leader(&mut raw, &[&a, &b], BOUND).await;
    drained(&mut raw, BOUND).await;
    let runs = "SELECT count(*) FROM aedile_run";
    until("the drain is on record", BOUND, async || {
        (raw.integers(runs).await.ok()? != [0]).then_some(())
    })
    .await;
    let before = (raw.last().await.unwrap(), raw.integers(runs).await.unwrap());
    let window = match std::env::var_os("AEDILE_LONG") {
        Some(_) => Duration::from_secs(60),
        None => Duration::from_secs(5),
    };
    clock().sleep(window).await;
    let after = (raw.last().await.unwrap(), raw.integers(runs).await.unwrap());
    assert_eq!(after, before, "an idle cluster wrote a log row or a run");
}
