//! A holder that goes on for long, and one whose process is busy.

use std::sync::mpsc;
use std::time::Duration;

use aedile_tests_contract::databases::{Cluster, Database, Kind, Raw};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::leases::{LIMIT, Node, TTL, clock, options, shared_row};

for_each_database!(sp1_cluster_163_blocked_executor_threads_delay_no_renewal);

/// The renewals of an hour and a half at the default TTL.
const RENEWALS: i64 = 2_000;

/// Vacuum removes nothing that an open transaction may still read. What a
/// renewal leaves behind must then cost neither index entries nor space that
/// grows without need.
#[tokio::test(flavor = "multi_thread")]
async fn pgque_61_renewals_under_an_open_snapshot_stay_in_place() {
    let cluster = Cluster::start().await.expect("a server of our own");
    let url = cluster.url("postgres");
    let mut raw = Raw::connect(&url).await.expect("a connection");
    raw.make_tables().await.expect("tables");
    let mut reader = Raw::connect(&url).await.expect("a connection");
    reader
        .run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM meta_lease")
        .await
        .expect("a snapshot");
    let mut often = options(&url, "a");
    often.interval = Duration::from_millis(10);
    let mut node = Node::start(often);
    let (term, authority) = node.term().await;
    let clock = clock();
    let end = clock.boot() + 10 * LIMIT;
    let (updates, in_place) = loop {
        let found = raw
            .integers(
                "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'meta_lease' \
                 UNION ALL \
                 SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'meta_lease'",
            )
            .await
            .expect("figures");
        if found[0] >= RENEWALS {
            break (found[0], found[1]);
        }
        assert!(clock.boot() < end, "{found:?}");
        clock.sleep(Duration::from_millis(100)).await;
    };
    assert!(authority.holds());
    assert_eq!(node.term().await.0, term, "it was never lost");
    let sizes = "SELECT pg_table_size('meta_lease') \
                 UNION ALL SELECT pg_indexes_size('meta_lease')";
    let size = raw.integers(sizes).await.expect("sizes");
    println!("{updates} renewals, {in_place} in place, table and index {size:?} bytes");
    assert!(in_place * 100 >= updates * 99, "{in_place} of {updates}");
    // A version of the row takes less than a hundred bytes.
    assert!(size[0] <= 40_000 + updates * 100, "{size:?}");
    assert!(size[1] <= 16 * 1024, "{size:?}");
    reader.run("COMMIT").await.expect("ended");
    node.stop().await;
}

/// A plugin, or anything else, keeps every thread of the executor busy for
/// longer than two leases.
async fn sp1_cluster_163_blocked_executor_threads_delay_no_renewal(kind: Kind) {
    let database = Database::create(kind).await.expect("a database");
    let mut raw = database.raw().await.expect("a connection");
    let url = database.url();
    let executor = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("an executor");
    let mut node = executor
        .spawn(async move { Node::start(options(&url, "a")) })
        .await
        .expect("it starts");
    let (_, authority) = node.term().await;
    let mut blockers = Vec::new();
    let (blocked, waiting) = mpsc::channel();
    for _ in 0..4 {
        let (release, held) = mpsc::channel::<()>();
        let blocked = blocked.clone();
        executor.spawn(async move {
            let _ = blocked.send(());
            // Blocks its thread until the other side is dropped.
            let _ = held.recv();
        });
        blockers.push(release);
    }
    for _ in 0..2 {
        waiting.recv().expect("a thread is blocked");
    }
    let stuck = executor.spawn(async {});
    let clock = clock();
    let end = clock.boot() + 2 * TTL;
    let mut renewals = 0;
    let mut last = shared_row(&mut raw).await.expect("a row");
    assert_eq!(last.epoch, 1);
    while clock.boot() < end || renewals < 4 {
        clock.sleep(Duration::from_millis(20)).await;
        let row = shared_row(&mut raw).await.expect("a row");
        assert_eq!((&row.holder, row.epoch), (&last.holder, 1));
        renewals += u32::from(row.expires_at_ms > last.expires_at_ms);
        last = row;
        assert!(authority.holds(), "after {renewals} renewals");
    }
    assert!(!stuck.is_finished(), "the executor was busy all the while");
    drop(blockers);
    stuck.await.expect("it goes on");
    node.stop().await;
    executor.shutdown_background();
}
