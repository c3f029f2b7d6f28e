//! A running node stops when it is told to, and says who leads meanwhile.

#![allow(clippy::unwrap_used)]

mod cluster;

use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use cluster::Cluster;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A bound that only a node that hangs reaches.
const BOUND: Duration = Duration::from_secs(60);

/// A node; killed when dropped, also by a test that fails.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Node {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
    }

    /// Wait for its end.
    fn code(&mut self) -> Option<i32> {
        let mut status = None;
        until("the node ends", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

fn start(cluster: &Cluster, more: &[&str]) -> Node {
    let child = cluster::aedile(cluster.path())
        .args(["run", "--node", "anna"])
        .args(cluster.flags())
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Node(child)
}

/// Look until the condition holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let clock: SharedClock = Arc::new(SystemClock);
    let pause = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let began = clock.boot();
    while !holds() {
        assert!(
            clock.boot().since(began) < BOUND,
            "{what}: not within {BOUND:?}"
        );
        pause.block_on(clock.sleep(Duration::from_millis(50)));
    }
}

fn holder(cluster: &Cluster) -> Option<String> {
    let meta = cluster.meta();
    let shown = cluster::run(cluster.path(), &["lease", "show", "--json", &meta])
        .exits(0)
        .json();
    shown["leases"][0]["holder"].as_str().map(str::to_owned)
}

#[test]
fn the_first_signal_stops_cleanly_and_releases_the_lease() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let cluster = Cluster::unpack("store-b");
        let mut node = start(&cluster, &[]);
        until("the node leads", || {
            holder(&cluster).is_some_and(|holder| holder.starts_with("anna-"))
        });
        node.signal(signal);
        assert_eq!(node.code(), Some(0), "{signal}");
        assert_eq!(
            holder(&cluster),
            None,
            "{signal}: the lease was not released"
        );
        let mut printed = String::new();
        node.0
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut printed)
            .unwrap();
        assert_eq!(printed, "", "a node prints nothing on standard output");
    }
}

#[test]
fn a_signal_before_the_lease_is_had_ends_a_pass_with_a_code_of_its_own() {
    let cluster = Cluster::unpack("node-a");
    cluster.sql("UPDATE meta_lease SET expires_at_ms = 4000000000000");
    let mut node = start(&cluster, &["--until-idle"]);
    // Its tables are there once it has opened the log.
    let meta = cluster.meta();
    until("the node has opened the log", || {
        let check = cluster::run(cluster.path(), &["check", "--json", &meta]);
        check.stdout.contains("aedile_node") && !check.stdout.contains("will make")
    });
    node.signal(Signal::SIGTERM);
    assert_eq!(node.code(), Some(10));
}
