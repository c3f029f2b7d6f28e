//! Objects that cannot be deleted, from the first failure to the operator's word.

use std::time::Duration;

use aedile_state::{Command, ObjectId, Operation};

use super::cluster::Cluster;
use crate::guard::testing::World;
use crate::parked::{Asked, PREFIX, Parked, Request};
use crate::{Retries, Runtime, RuntimeHandle, RuntimeOptions};

/// A curve that a test can wait for.
fn quick(cluster: &Cluster, node: &str) -> RuntimeOptions {
    let mut options = cluster.options(node);
    options.retries = Retries {
        first: Duration::from_millis(1),
        longest: Duration::from_millis(4),
        unreadable: 2,
        gather: Duration::from_millis(500),
    };
    for builtin in &mut options.builtins {
        builtin.settings.schedule.interval = Some(Duration::from_millis(20));
        builtin.settings.schedule.jitter = Some(Duration::ZERO);
    }
    options
}

async fn start(cluster: &Cluster, node: &str) -> RuntimeHandle {
    Runtime::start(quick(cluster, node), cluster.parts(node).await)
        .await
        .expect("it starts")
}

async fn ask(cluster: &Cluster, asked: Asked) {
    let request = Request::new(asked, "ann".to_owned(), 1);
    cluster.append(&[request.command(1)]).await;
}

/// 40 objects that no unlink removes, among 400.
async fn stuck() -> (Cluster, Vec<ObjectId>, Vec<ObjectId>) {
    let mut world = World::new();
    let live = world.objects(2);
    let marked = world.marked(400, Operation::Delete);
    let cluster = Cluster::with(&world.commands).await;
    cluster.put(&live, b"data");
    let (stuck, rest) = marked.split_at(40);
    cluster.put(rest, b"data");
    for &id in stuck {
        cluster.put_undeletable(id);
    }
    (cluster, stuck.to_vec(), rest.to_vec())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thanos_7497_what_cannot_go_is_parked_in_few_rows_and_a_successor_leaves_it() {
    let (cluster, stuck, rest) = stuck().await;
    let first = start(&cluster, "a").await;
    let status = cluster
        .until(&first, "40 are parked", |status| {
            status.backlog.parked == 40 && status.backlog.backed_off == 0
        })
        .await;
    assert_eq!(status.backlog.destroyed, 40);
    assert!(rest.iter().all(|&id| !cluster.has(id)), "the rest went");
    let view = cluster.view().await;
    let parked = Parked::read(&view.state);
    assert_eq!(parked.objects().count(), 40);
    for object in parked.objects() {
        // 1, 2, 4 ms: three waits, and the failure after the longest.
        assert_eq!(object.tries, 4, "{object:?}");
        assert!(!object.reason.is_empty() && object.since > 0, "{object:?}");
    }
    assert_eq!(
        view.state.kv_scan(PREFIX, None).count(),
        1,
        "one key for all of them"
    );

    // Rows since the queue was as it is now: a few for all 40, not one for each.
    let index = view.index;
    first.stop().await;
    let second = start(&cluster, "b").await;
    cluster
        .until(&second, "it shows what is parked", |status| {
            status.role == crate::Role::Holder
                && status.backlog.parked == 40
                && status
                    .plugins
                    .iter()
                    .any(|plugin| plugin.name == "cleaner" && plugin.ticks > 5)
        })
        .await;
    assert_eq!(
        cluster.view().await.index,
        index,
        "a successor wrote something"
    );
    let failing = second.status().backlog.backed_off;
    assert_eq!(failing, 0, "a successor tried them by itself");

    // Mended and retried, they go; the entries go with them.
    for &id in &stuck {
        cluster.mend(id);
    }
    ask(
        &cluster,
        Asked::Retry {
            objects: stuck.iter().map(|id| id.0).collect(),
        },
    )
    .await;
    cluster
        .until(&second, "the queue is empty", |status| {
            status.backlog.destroyed == 0 && status.backlog.parked == 0
        })
        .await;
    assert!(stuck.iter().all(|&id| !cluster.has(id)));
    second.stop().await;
    let view = cluster.view().await;
    assert_eq!(view.state.kv_scan(PREFIX, None).count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parking_takes_rows_by_the_batch_not_by_the_object() {
    let (cluster, _, _) = stuck().await;
    let before = cluster.view().await.index;
    let node = start(&cluster, "a").await;
    cluster
        .until(&node, "40 are parked", |status| status.backlog.parked == 40)
        .await;
    node.stop().await;
    let rows = cluster.view().await.index - before;
    // One clean for the 360, and one for the 40; a second of each where a tick
    // or a gathering falls between.
    assert!(rows <= 6, "{rows} rows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_waits_for_a_holder_and_a_pass_is_one() {
    let (cluster, stuck, _) = stuck().await;
    let node = start(&cluster, "a").await;
    cluster
        .until(&node, "40 are parked", |status| status.backlog.parked == 40)
        .await;
    node.stop().await;
    ask(
        &cluster,
        Asked::Forget {
            objects: vec![stuck[0].0],
        },
    )
    .await;
    let damaged = Command::PutKv {
        key: format!("{PREFIX}chunk/00000007"),
        value: b"oops".to_vec(),
    };
    cluster.append(&[damaged]).await;
    let outcome = cluster.pass().await;
    assert!(outcome.only_conflicts_and_parked(), "{outcome:?}");
    let view = cluster.view().await;
    assert!(view.state.mark(stuck[0]).is_none() && cluster.has(stuck[0]));
    assert_eq!(view.state.counts().marks, 39);
    let parked = Parked::read(&view.state);
    assert_eq!(
        (parked.objects().count(), parked.requests().count()),
        (39, 0)
    );
    assert_eq!(parked.problems.len(), 1);
    // A pass leaves what is parked, and a plan lists it.
    assert_eq!(cluster.plan().await.parked.len(), 39);
}
