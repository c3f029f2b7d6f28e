//! A lease by way of a pooler in transaction mode: neither a prepared statement
//! nor a setting of the session outlives a transaction.

use std::time::Duration;

use aedile_tests_contract::databases::{Cluster, Pooler, Raw};
use aedile_tests_contract::leases::{LIMIT, Node, TTL, clock, options, shared_row};

#[tokio::test(flavor = "multi_thread")]
async fn authentik_23876_a_pooler_in_transaction_mode_is_enough() {
    let cluster = Cluster::start().await.expect("a server of our own");
    let mut direct = Raw::connect(&cluster.url("postgres"))
        .await
        .expect("a connection");
    // One connection for all: what any client leaves on it, the others meet.
    let pooler = Pooler::start(&cluster, 1).await.expect("a pooler");
    let url = pooler.url("postgres");
    let mut leading = Node::start(options(&url, "a"));
    let (term, authority) = leading.term().await;
    let mut other = Node::start(options(&url, "b"));
    other.following().await;

    // It is kept, and nothing of it stays on the shared connection.
    let clock = clock();
    let end = clock.boot() + 2 * TTL;
    let mut stranger = Raw::connect(&url).await.expect("a connection");
    let (mut renewals, mut last) = (0, 0);
    while clock.boot() < end || renewals < 3 {
        assert!(clock.boot() < end + LIMIT, "{renewals} renewals");
        for setting in ["statement_timeout", "lock_timeout"] {
            // A message of plain statements: a prepared one would not do here.
            let shown = format!(
                "DO $$ BEGIN IF current_setting('{setting}') <> '0' THEN \
                 RAISE EXCEPTION '{setting} is left behind'; END IF; END $$"
            );
            stranger.run(&shown).await.expect("as it was");
        }
        let row = shared_row(&mut direct).await.expect("a row");
        assert_eq!(row.epoch, 1);
        renewals += u32::from(row.expires_at_ms > last && last > 0);
        last = row.expires_at_ms;
        clock.sleep(Duration::from_millis(20)).await;
    }
    assert!(authority.holds());

    // A handover: nothing is announced here, so it is found by looking.
    leading.hand_over(&term).await;
    let (next, _) = other.term().await;
    assert_eq!(next.epoch, 2);
    leading.fit();
    leading.following().await;
    // A crash.
    let crash = clock.boot();
    drop(other);
    let (last, _) = leading.term().await;
    assert_eq!(last.epoch, 3);
    let took = clock.boot().since(crash);
    assert!(took <= 2 * TTL, "{took:?}");
    leading.stop().await;
    let row = shared_row(&mut direct).await.expect("a row");
    assert_eq!(row.expires_at_ms, 0, "released");
}
