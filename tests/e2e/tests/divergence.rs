//! A node whose state a snapshot contradicts: it stops, stays stopped across a
//! restart, is found by the commands, and goes on once an operator says so.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use aedile_state::Command;
use aedile_tests_contract::databases::Kind;
use aedile_tests_e2e::binary::Node;
use aedile_tests_e2e::site::{BOUND, Site, drained, leader, said};
use aedile_tests_e2e::wait::until;
use aedile_tests_e2e::{binary, cluster, outside};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_diverged_node_leads_again_once_it_is_cleared_sqlite() {
    a_diverged_node_leads_again_once_it_is_cleared(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_diverged_node_leads_again_once_it_is_cleared_postgres() {
    a_diverged_node_leads_again_once_it_is_cleared(Kind::Postgres).await;
}

/// What the node has said since its second start; empty before that.
fn since_restart(node: &Node) -> String {
    let log = node.log();
    let second = log.match_indices("starting version").nth(1);
    second.map_or(String::new(), |(from, _)| log[from..].to_owned())
}

async fn a_diverged_node_leads_again_once_it_is_cleared(kind: Kind) {
    let site = Site::new(kind, 8, 5).await;
    let mut raw = site.raw().await;
    let mut node = site.node("a", "2s", &["--heartbeat", "1s"]);
    leader(&mut raw, &[&node], BOUND).await;
    drained(&mut raw, BOUND).await;

    // A snapshot as a node that forked wrote it, of what this node has passed.
    let mut forged = outside::state(&mut raw).await;
    let index = raw.last().await.unwrap();
    let _ = forged.apply(&Command::PutKv {
        key: "/forged".to_owned(),
        value: b"x".to_vec(),
    });
    let row = vec![Command::PutKv {
        key: "/after".to_owned(),
        value: b"x".to_vec(),
    }];
    cluster::append(&mut raw, row).await;
    until("the node is past it", BOUND, async || {
        let sql = "SELECT CAST(applied_idx AS TEXT) FROM aedile_node WHERE node = 'a'";
        let applied = raw.texts(sql).await.ok()?;
        (applied.first()?.parse::<i64>().ok()? > index).then_some(())
    })
    .await;
    raw.store_snapshot(index, &forged.encode_snapshot())
        .await
        .unwrap();
    said(&node, "no longer leading").await;
    assert!(node.log().contains("\"keys\""), "{}", node.log());

    // Asked, each command says so; none of them repairs anything by itself.
    let place = ["--meta-url", site.url(), "--json"];
    let status = binary::json_for(0, &[&["status"][..], &place].concat());
    assert_eq!(status["divergences"][0]["node"], "a", "{status}");
    let storage = site.storage();
    let check = [&["check"][..], &place, &["--storage", &storage]].concat();
    let check = binary::json_for(0, &check).to_string();
    assert!(
        check.contains("node a has diverged")
            && check.contains("aedile log clear-divergence --node a"),
        "{check}"
    );

    // A restart changes nothing.
    node.stop();
    let node = site.node("a", "2s", &["--heartbeat", "1s"]);
    let log = async || Some(since_restart(&node)).filter(|log| log.contains("does not contend"));
    let (log, _) = until("the restarted node says why it does not lead", BOUND, log).await;
    assert!(log.contains("diverged"), "{log}");
    assert!(!log.contains("leading epoch"), "{log}");

    // A misspelt name clears nothing; the right one lets the running node go on.
    let clear = |name| [&["log", "clear-divergence"][..], &place, &["--node", name]].concat();
    let _ = binary::run(&clear("b"));
    assert_eq!(
        raw.integers("SELECT count(*) FROM aedile_divergence")
            .await
            .unwrap(),
        [1]
    );
    binary::json_for(0, &clear("a"));
    let leads = async || since_restart(&node).contains("leading epoch").then_some(());
    until("the cleared node leads", BOUND, leads).await;
    cluster::destroyed(&mut raw, &site.made.live[..3]).await;
    drained(&mut raw, BOUND).await;
}
