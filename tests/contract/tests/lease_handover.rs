//! How long a lease is without a holder. Prints what it measured.

use std::time::Duration;

use aedile_lease::Leadership;
use aedile_tests_contract::databases::{Database, Kind};
use aedile_tests_contract::leases::{Node, TTL, options};

/// Of sorted spans: the middle one, the one that 99 of 100 do not exceed, and
/// the longest.
fn figures(mut spans: Vec<Duration>) -> (Duration, Duration, Duration) {
    spans.sort_unstable();
    let at = |share: usize| spans[(spans.len() * share).div_ceil(100) - 1];
    (at(50), at(99), at(100))
}

#[tokio::test(flavor = "multi_thread")]
async fn oban_847_a_clean_handover_takes_a_moment() {
    const ROUNDS: usize = 60;
    let database = Database::create(Kind::Postgres).await.expect("a database");
    let url = database.url();
    let mut nodes = [
        Node::start(options(&url, "a")),
        Node::start(options(&url, "b")),
    ];
    let mut spans = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        let leading = loop {
            let [a, b] = &nodes;
            match (a.now().holding(), b.now().holding()) {
                (Some(_), _) => break 0,
                (_, Some(_)) => break 1,
                _ => {
                    let [a, b] = &mut nodes;
                    tokio::select! { _ = a.term() => {} _ = b.term() => {} }
                }
            }
        };
        let (term, authority) = nodes[leading].term().await;
        // The other one knows the row of this term.
        nodes[1 - leading]
            .until("following", |now| {
                matches!(now, Leadership::Follower { seen: Some(seen) }
                    if seen.epoch == term.epoch)
            })
            .await;
        let start = nodes[0].boot();
        nodes[leading].hand_over(&term).await;
        assert!(!authority.holds(), "round {round}");
        let (next, _) = nodes[1 - leading].term().await;
        spans.push(nodes[0].boot().since(start));
        assert_eq!(next.epoch, term.epoch + 1);
        nodes[leading].fit();
    }
    let (middle, most, longest) = figures(spans);
    println!("clean handover on PostgreSQL: p50 {middle:?}, p99 {most:?}, longest {longest:?}");
    // Without the announcement it takes half of an interval, without a release a
    // TTL. The longest is the machine's own.
    assert!(middle <= Duration::from_millis(100), "{middle:?}");
    assert!(longest < TTL, "{longest:?}");
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vault_2949_a_crash_is_taken_over_when_the_lease_lapses() {
    for kind in [Kind::Sqlite, Kind::Postgres] {
        const ROUNDS: usize = 8;
        let database = Database::create(kind).await.expect("a database");
        let url = database.url();
        let mut leader = Node::start(options(&url, "n"));
        leader.term().await;
        let mut spans = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let mut other = Node::start(options(&url, "n"));
            other.following().await;
            let start = other.boot();
            drop(leader);
            other.term().await;
            spans.push(other.boot().since(start));
            leader = other;
        }
        let (middle, _, longest) = figures(spans);
        println!("crash takeover on {kind:?}, TTL {TTL:?}: p50 {middle:?}, longest {longest:?}");
        assert!(middle <= TTL + TTL / 8, "{middle:?}");
        assert!(longest <= 2 * TTL, "{longest:?}");
        leader.stop().await;
    }
}
