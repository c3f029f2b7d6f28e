//! Two holders over one backlog, and a holder that dies in the midst of it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use aedile_state::{Changes, Command};
use aedile_storage::object_key;
use aedile_tests_contract::databases::Kind;
use aedile_tests_contract::s3::S3Server;
use aedile_tests_e2e::binary::{Node, when};
use aedile_tests_e2e::site::{BOUND, Site, drained, leader, said};
use aedile_tests_e2e::wait::until;
use aedile_tests_e2e::{cluster, outside};

/// Keys in one request for a bulk delete.
const CHUNK: usize = 1000;

struct Pair {
    site: Site,
    server: S3Server,
}

impl Pair {
    async fn new(live: usize, marked: usize, latency: Duration) -> Self {
        let server = S3Server::start("records").await.unwrap();
        let site = Site::without_bytes(Kind::Postgres, live, marked).await;
        for key in site.made.keys() {
            server.put(&key, &cluster::content(&key)).unwrap();
        }
        server.faults().set_latency(latency);
        Self { site, server }
    }

    fn node(&self, name: &str, ttl: &str) -> Node {
        let uri = self.server.uri();
        let args = [
            "--meta-url",
            self.site.url(),
            "--storage",
            &uri,
            "--ttl",
            ttl,
            "--heartbeat",
            "1s",
        ];
        Node::start_with(name, self.site.dir(), &args, &self.server.environment())
    }

    /// How often the delete of each destroyed object was asked for. A node that
    /// starts also asks for a key that nobody has, to see what the store does.
    fn asked(&self) -> HashMap<String, usize> {
        let mut asked = self.server.faults().asked();
        let marked: HashSet<String> = self
            .site
            .made
            .marked
            .iter()
            .map(|&id| object_key(id))
            .collect();
        asked.retain(|key, _| marked.contains(key));
        asked
    }

    /// Nothing live is gone, nothing destroyed is left.
    fn bytes_are_right(&self) {
        let made = &self.site.made;
        assert!(
            made.live
                .iter()
                .all(|&id| self.server.holds(&object_key(id))),
            "a live byte is gone"
        );
        assert!(
            made.marked
                .iter()
                .all(|&id| !self.server.holds(&object_key(id))),
            "bytes are left"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_forced_holders_apply_each_command_once() {
    let mut pair = Pair::new(150, 0, Duration::ZERO).await;
    let mut raw = pair.site.raw().await;
    // With so long a lease its holder next looks at the row after 75 s.
    let a = pair.node("a", "5m");
    let (_, first, _) = leader(&mut raw, &[&a], BOUND).await;
    let b = pair.node("b", "5m");
    until("b is up", BOUND, async || {
        let nodes = raw.texts("SELECT node FROM aedile_node").await.ok()?;
        nodes.iter().any(|node| node == "b").then_some(())
    })
    .await;
    // The row is taken from under the holder, and whoever waits is woken.
    raw.run(
        "UPDATE meta_lease SET holder = '', expires_at_ms = 0 WHERE id = 0; NOTIFY aedile_lease, 'meta_lease'",
    )
    .await
    .unwrap();
    let (_, second, _) = leader(&mut raw, &[&b], BOUND).await;
    assert!(
        second.epoch > first.epoch,
        "{} follows {}",
        second.epoch,
        first.epoch
    );
    said(&b, "leading epoch").await;
    // Now there is work, for both: the store answers neither before each of
    // them has asked.
    pair.server.faults().hold_deletes();
    pair.site.made.marked = pair.site.made.live.split_off(50);
    cluster::destroyed(&mut raw, &pair.site.made.marked).await;
    until("both wait for the store", BOUND, async || {
        (pair.server.faults().bulk_in_flight() == 2).then_some(())
    })
    .await;
    pair.server.faults().let_deletes_go();
    let took = drained(&mut raw, BOUND * 2).await;
    let asked = pair.asked();
    assert_eq!(asked.len(), 100);
    // More often if the store held one back for longer than a request may take.
    assert!(
        asked.values().all(|&times| times >= 2),
        "each asks for every delete: {asked:?}"
    );
    assert!(
        !a.log().contains("the term ends"),
        "one of them was not leading any more"
    );

    // Each takes all of it for done: to one of them, its clean was redundant.
    until("each has cleaned", BOUND, async || {
        let rows = raw.texts("SELECT status FROM aedile_node").await.ok()?;
        let cleaned = rows.iter().filter(|row| row.contains("\"cleaned\":100.0"));
        (cleaned.count() == 2).then_some(())
    })
    .await;
    let commands = outside::after(&mut raw, pair.site.made.index).await;
    let (mut cleaned, mut twins) = (0, 0);
    for (command, outcome) in &commands {
        let Command::CleanDestroyedObjects { objects } = command else {
            continue;
        };
        let applied = outcome.as_ref().expect("a clean is never rejected");
        let count = match &applied.changes {
            Changes::None => 0,
            Changes::All => objects.len(),
            Changes::Items(changed) => changed.iter().filter(|&&changed| changed).count(),
        };
        cleaned += count;
        twins += objects.len() - count;
    }
    println!(
        "two holders, 100 marks: drained in {took:?} by {} commands; {twins} twins in the log were redundant",
        commands.len()
    );
    assert_eq!(cleaned, 100, "each mark is cleaned once");
    pair.bytes_are_right();
    // Both read the same log to the same end, and neither stumbled.
    let last = raw.last().await.unwrap();
    until("both have applied it all", BOUND, async || {
        let all = raw
            .integers("SELECT count(*) FROM aedile_node WHERE applied_idx = (SELECT max(idx) FROM meta_log)")
            .await
            .ok()?;
        (all == [2]).then_some(())
    })
    .await;
    assert_eq!(raw.last().await.unwrap(), last, "one of them still appends");
    for node in [&a, &b] {
        assert!(!node.log().contains("poison"), "{}", node.log());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_repeats_at_most_what_was_in_flight() {
    let pair = Pair::new(50, 3000, Duration::from_millis(30)).await;
    let mut raw = pair.site.raw().await;
    let mut a = pair.node("a", "6s");
    leader(&mut raw, &[&a], BOUND).await;
    // In the midst of it: something is cleaned and a delete is under way.
    until("a is in the midst of it", BOUND, async || {
        let cleaned = outside::cleaned(&outside::after(&mut raw, pair.site.made.index).await);
        (!cleaned.is_empty() && pair.server.faults().bulk_in_flight() > 0).then_some(())
    })
    .await;
    a.crash();
    // What it had asked for, and what of that the log knows.
    pair.server.faults().until(|seen| seen.in_flight == 0).await;
    let asked = pair.asked().len();
    let cleaned = outside::cleaned(&outside::after(&mut raw, pair.site.made.index).await).len();
    let at_once = pair.server.faults().requests().most_in_flight;
    assert!(cleaned < 3000, "it was done already");
    let b = pair.node("b", "6s");
    said(&b, "leading").await;
    drained(&mut raw, BOUND).await;
    let times = pair.asked();
    let repeated: usize = times.values().map(|times| times - 1).sum();
    println!(
        "killed with {asked} of 3000 asked for and {cleaned} cleaned, {at_once} requests at most in flight: {repeated} deletes were repeated"
    );
    assert!(
        times.values().all(|&times| times <= 2),
        "a delete was sent three times"
    );
    assert!(
        repeated <= asked - cleaned,
        "{repeated} repeated of {asked} asked for and {cleaned} cleaned"
    );
    // A clean follows each answer at once: no more than that waits with it.
    assert!(
        asked - cleaned <= CHUNK * (at_once + 1),
        "{asked} asked for, {cleaned} cleaned, {at_once} in flight"
    );
    assert!(when(&b.log(), "leading").is_some());
    pair.bytes_are_right();
}
