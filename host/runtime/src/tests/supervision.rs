//! Terms: won, lost, shared by mistake; plugins that fail.

use std::sync::Arc;
use std::time::Duration;

use aedile_lease::Authority;
use aedile_log::{Fence, Reader};
use aedile_state::{Command, Operation};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cluster::{Cluster, KV_TTL, LONG};
use crate::backend::Live;
use crate::entropy::Entropy;
use crate::guard::testing::World;
use crate::guard::{Aside, Guards, StoreTrust, Tries};
use crate::{PluginState, Role, Runtime};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_drains_at_once_and_the_successor_goes_on() {
    let mut world = World::new();
    let live = world.objects(10);
    let delete = world.marked(2_000, Operation::Delete);
    let cluster = Cluster::with(&world.commands).await;
    cluster.put(&live, b"data");
    cluster.put(&delete, b"data");

    let mut options = cluster.options("a");
    // An interval that no test waits for: only `more` can drain the rest.
    for builtin in &mut options.builtins {
        builtin.settings.schedule.interval = Some(Duration::from_secs(3600));
        builtin.settings.schedule.jitter = Some(Duration::ZERO);
    }
    options.builtins[0].settings.config = serde_json::json!({ "objects-per-tick": 300 });
    let first = Runtime::start(options, cluster.parts("a").await)
        .await
        .expect("it starts");
    let status = cluster
        .until(&first, "the queue is empty", |status| {
            status.role == Role::Holder && status.backlog.destroyed == 0
        })
        .await;
    assert!(delete.iter().all(|&id| !cluster.has(id)));
    assert!(live.iter().all(|&id| cluster.has(id)));
    let epoch = status.epoch;

    let second = Runtime::start(cluster.options("b"), cluster.parts("b").await)
        .await
        .expect("it starts");
    cluster
        .until(&second, "it follows", |status| {
            status.role == Role::Follower && status.detail.contains("leads")
        })
        .await;
    first.stop().await;
    cluster
        .until(&second, "it leads", |status| {
            status.role == Role::Holder && status.epoch > epoch
        })
        .await;
    second.stop().await;

    // What it told others.
    let reader = Reader::open(&cluster.url(), &cluster.clock)
        .await
        .expect("a reader");
    let runs = reader.runs(100).await.expect("the runs");
    let run = runs
        .iter()
        .find(|run| run.plugin == "cleaner")
        .expect("a run");
    assert_eq!((run.node.as_str(), run.epoch), ("a", epoch));
    let nodes = reader.nodes().await.expect("the nodes");
    let names: Vec<_> = nodes.iter().map(|node| node.node.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(nodes[0].status["role"], "stopped");
    // Neither ticks of nothing nor a follower leave anything in the log.
    let rows = cluster.view().await.index;
    assert!(rows > 0);
    let leases = reader.lease_rows().await.expect("the lease");
    assert_eq!(leases[0].expires.0, 0, "the lease was released");
    reader.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_holders_by_mistake_do_each_thing_once() {
    let mut world = World::new();
    let live = world.objects(10);
    let delete = world.marked(1_000, Operation::Delete);
    let cluster = Cluster::with(&world.commands).await;
    cluster.put(&live, b"data");
    cluster.put(&delete, b"data");
    let (one, two) = (cluster.log().await, cluster.log().await);
    let guards = |log| {
        let until = cluster.clock.boot() + LONG;
        let live = Live {
            log,
            store: cluster.store(),
            authority: Authority::fixed(cluster.clock.clone(), until),
            clock: cluster.clock.clone(),
            stop: CancellationToken::new(),
            catch_up: Duration::from_secs(10),
            fence: Fence::shared("nobody", 0),
            set: watch::channel(Arc::default()).1,
        };
        Guards::new(
            live,
            Arc::new(Aside::new(Tries::Once)),
            StoreTrust::new(false),
            Arc::new(Entropy::new(Some(1))),
        )
    };
    let both = [guards(one.clone()), guards(two.clone())];
    for chunk in delete.chunks(250) {
        let drain = |guards: &'static str, at: usize| {
            let both = &both;
            async move {
                let deleted = both[at].delete(guards, chunk).await.expect("deleted");
                let cleaned = both[at].clean(guards, chunk).await.expect("cleaned");
                (deleted.len(), cleaned)
            }
        };
        let ((n, first), (m, second)) = tokio::join!(drain("one", 0), drain("two", 1));
        assert_eq!((n, m), (chunk.len(), chunk.len()));
        for (a, b) in first.iter().zip(&second) {
            use crate::guard::Item::{Applied, Redundant};
            // Whoever came second was told that the other had done it, or was
            // told by the queue that there was nothing left to delete.
            let once = matches!((a, b), (Applied, Redundant) | (Redundant, Applied));
            assert!(once, "{a:?} and {b:?}");
        }
    }
    let views = (
        one.catch_up(LONG).await.expect("caught up"),
        two.catch_up(LONG).await.expect("caught up"),
    );
    assert_eq!(views.0.state, views.1.state);
    assert_eq!(views.0.state.counts().marks, 0);
    assert!(live.iter().all(|&id| cluster.has(id)));
    assert!(delete.iter().all(|&id| !cluster.has(id)));
    one.close().await;
    two.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn past_its_authority_a_holder_sends_nothing() {
    let mut world = World::new();
    let live = world.objects(1);
    let delete = world.marked(5, Operation::Delete);
    let cluster = Cluster::with(&world.commands).await;
    cluster.put(&live, b"data");
    cluster.put(&delete, b"data");
    let log = cluster.log().await;
    let before = log.view().index;
    let guards = Guards::new(
        Live {
            log: log.clone(),
            store: cluster.store(),
            authority: Authority::fixed(cluster.clock.clone(), cluster.clock.boot()),
            clock: cluster.clock.clone(),
            stop: CancellationToken::new(),
            catch_up: Duration::from_secs(10),
            fence: Fence::shared("nobody", 0),
            set: watch::channel(Arc::default()).1,
        },
        Arc::new(Aside::new(Tries::Once)),
        StoreTrust::new(false),
        Arc::new(Entropy::new(Some(1))),
    );
    use crate::backend::Trouble::LeaseLost;
    assert_eq!(guards.delete("x", &delete).await, Err(LeaseLost));
    assert_eq!(guards.expire("x").await, Err(LeaseLost));
    let put = Command::PutKv {
        key: "aedile/kv/x/y".to_owned(),
        value: Vec::new(),
    };
    assert_eq!(guards.propose("x", vec![put]).await, Err(LeaseLost));
    assert!(delete.iter().all(|&id| cluster.has(id)));
    assert_eq!(log.catch_up(LONG).await.expect("caught up").index, before);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_plugin_that_always_fails_is_quarantined_and_the_others_go_on() {
    let mut world = World::new();
    let live = world.objects(1);
    world.apply(Command::PutKv {
        key: "tmp/a".to_owned(),
        value: b"x".to_vec(),
    });
    let delete = world.marked(5, Operation::Delete);
    let cluster = Cluster::with(&world.commands).await;
    cluster.put(&live, b"data");
    cluster.put(&delete, b"data");
    std::fs::write(cluster.plugins().join("ttl.wasm"), KV_TTL).expect("written");
    let settings = r#"
        grants = ["state", "metrics", "commands.put-kv", "commands.delete-kv"]
        [limits]
        commands = 0
        [schedule]
        interval = "100ms"
        [config]
        rules = [{ prefix = "tmp/", ttl = "1h" }]
    "#;
    std::fs::write(cluster.plugins().join("ttl.toml"), settings).expect("written");
    let mut options = cluster.options("a");
    options.plugin_dir = Some(cluster.plugins());
    options.failures = 2;
    let handle = Runtime::start(options, cluster.parts("a").await)
        .await
        .expect("it starts");
    let status = cluster
        .until(&handle, "it is quarantined", |status| {
            status
                .plugins
                .iter()
                .any(|plugin| plugin.state == PluginState::Quarantined)
        })
        .await;
    let ttl = status
        .plugins
        .iter()
        .find(|p| p.name == "kv-ttl")
        .expect("shown");
    assert_eq!(ttl.state, PluginState::Quarantined);
    let error = ttl.error.as_deref().unwrap_or_default();
    assert!(error.contains("commands"), "{error}");
    cluster
        .until(&handle, "the others work", |status| {
            let cleaner = status.plugins.iter().find(|p| p.name == "cleaner");
            status.role == Role::Holder
                && status.backlog.destroyed == 0
                && cleaner.is_some_and(|cleaner| cleaner.failed == 0 && cleaner.ticks > 0)
        })
        .await;
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_every_plugin_is_quarantined_steps_down() {
    let mut world = World::new();
    world.apply(Command::PutKv {
        key: "tmp/a".to_owned(),
        value: b"x".to_vec(),
    });
    let cluster = Cluster::with(&world.commands).await;
    std::fs::write(cluster.plugins().join("ttl.wasm"), KV_TTL).expect("written");
    let settings = r#"
        grants = ["state", "metrics", "commands.put-kv", "commands.delete-kv"]
        [limits]
        commands = 0
        [config]
        rules = [{ prefix = "tmp/", ttl = "1h" }]
    "#;
    std::fs::write(cluster.plugins().join("ttl.toml"), settings).expect("written");
    let mut options = cluster.options("a");
    options.builtins.clear();
    options.plugin_dir = Some(cluster.plugins());
    options.failures = 1;
    let handle = Runtime::start(options, cluster.parts("a").await)
        .await
        .expect("it starts");
    cluster
        .until(&handle, "it steps down", |status| {
            status.role == Role::Ineligible && status.detail.contains("quarantined")
        })
        .await;
    // Another node may try.
    let other = Runtime::start(cluster.options("b"), cluster.parts("b").await)
        .await
        .expect("it starts");
    cluster
        .until(&other, "another leads", |status| {
            status.role == Role::Holder
        })
        .await;
    handle.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_holder_leaves_the_log_alone() {
    let mut world = World::new();
    world.objects(3);
    let cluster = Cluster::with(&world.commands).await;
    let before = cluster.view().await.index;
    let handle = Runtime::start(cluster.options("a"), cluster.parts("a").await)
        .await
        .expect("it starts");
    cluster
        .until(&handle, "each plugin has ticked", |status| {
            status.plugins.iter().all(|plugin| plugin.ticks >= 2)
        })
        .await;
    assert_eq!(cluster.view().await.index, before);
    handle.stop().await;
    let reader = Reader::open(&cluster.url(), &cluster.clock)
        .await
        .expect("a reader");
    assert_eq!(reader.runs(10).await.expect("the runs"), []);
    reader.close().await;
}
