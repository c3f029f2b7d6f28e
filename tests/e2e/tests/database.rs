//! A database that goes away: refusing, or saying nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use aedile_tests_contract::databases::{Cluster, Database, Kind, Proxy};
use aedile_tests_e2e::binary::{Node, when};
use aedile_tests_e2e::site::{BOUND, Site, drained, leader, said};
use aedile_tests_e2e::wait::{clock, until};
use aedile_tests_e2e::{cluster, outside};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_stops_ends_leadership_in_time_and_comes_back() {
    let mut server = Cluster::start().await.unwrap();
    let site = Site::at(server.url("postgres"), 40, 20).await;
    for key in site.made.keys() {
        site.put(&key);
    }
    let mut a = site.node("a", "3s", &["--heartbeat", "1s"]);
    let mut raw = site.raw().await;
    drained(&mut raw, BOUND).await;
    // The moment after a renewal, so that the row's end is the true one.
    let (_, first, _) = leader(&mut raw, &[&a], BOUND).await;
    let (held, _) = until("a renewal", BOUND, async || {
        outside::lease(&mut raw)
            .await
            .filter(|lease| lease.expires != first.expires)
    })
    .await;
    drop(raw);
    server.stop();
    said(&a, "the term ends").await;
    let lost = when(&a.log(), "the term ends").unwrap();
    println!(
        "the database stopped: leadership ended {} ms before the lease could expire",
        held.expires - lost
    );
    assert!(lost < held.expires, "it led for longer than its lease");
    assert!(a.ended().is_none(), "the node died");

    let before = clock().boot();
    server.restart().await.unwrap();
    let mut raw = site.raw().await;
    let marked = &site.made.live[20..];
    cluster::destroyed(&mut raw, marked).await;
    drained(&mut raw, BOUND).await;
    println!(
        "drained {:?} after the database began to start",
        clock().boot().since(before)
    );
    let again = outside::lease(&mut raw).await.unwrap();
    assert!(again.names("a") && again.epoch > held.epoch, "{again:?}");
    assert_eq!(a.stop(), Some(0), "{}", a.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_hangs_ends_leadership_before_another_leads() {
    let database = Database::create(Kind::Postgres).await.unwrap();
    let (host, port) = database.address().unwrap();
    let proxy = Proxy::start(host, port).await.unwrap();
    let site = Site::at(database.url(), 20, 20).await;
    for key in site.made.keys() {
        site.put(&key);
    }
    let url = database.url_by("127.0.0.1", proxy.port()).unwrap();
    let storage = site.storage();
    let args = [
        "--meta-url",
        &url,
        "--storage",
        &storage,
        "--ttl",
        "3s",
        "--heartbeat",
        "1s",
    ];
    let a = Node::start("a", site.dir(), &args);
    let mut raw = site.raw().await;
    drained(&mut raw, BOUND).await;
    let (_, first, _) = leader(&mut raw, &[&a], BOUND).await;
    let b = site.node("b", "3s", &[]);
    until("b is up", BOUND, async || {
        let nodes = raw.texts("SELECT node FROM aedile_node").await.ok()?;
        nodes.iter().any(|node| node == "b").then_some(())
    })
    .await;
    proxy.freeze(true);
    let (_, second, _) = leader(&mut raw, &[&b], BOUND).await;
    assert!(
        second.epoch > first.epoch,
        "{} follows {}",
        second.epoch,
        first.epoch
    );
    said(&a, "the term ends").await;
    said(&b, "leading epoch").await;
    let lost = when(&a.log(), "the term ends").unwrap();
    let led = when(&b.log(), "leading epoch").unwrap();
    println!(
        "the database hung: a was done {} ms before b led",
        led - lost
    );
    assert!(lost <= led, "two led at once");
    // What the other does meanwhile, and what comes of the first when it is
    // let through again: nothing.
    cluster::destroyed(&mut raw, &site.made.live[10..]).await;
    drained(&mut raw, BOUND).await;
    let last = raw.last().await.unwrap();
    proxy.freeze(false);
    said(&a, "no longer leading").await;
    until("it follows", BOUND, async || {
        let rows = raw
            .texts("SELECT status FROM aedile_node WHERE node = 'a'")
            .await
            .ok()?;
        rows.first()?.contains("\"follower\"").then_some(())
    })
    .await;
    assert_eq!(raw.last().await.unwrap(), last);
    let lease = outside::lease(&mut raw).await.unwrap();
    assert!(lease.names("b") && lease.epoch == second.epoch, "{lease:?}");
}
