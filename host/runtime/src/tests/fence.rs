//! A term that another took while this node still believes in it.

use aedile_state::{ObjectId, Operation};

use super::cluster::Cluster;
use crate::guard::testing::World;
use crate::{Role, Runtime, RuntimeError};

/// Whoever acquires the lease loses it in the same statement, unseen: what the
/// statement answers is the row before this.
const THIEF: &str = "CREATE TRIGGER thief AFTER UPDATE OF epoch ON meta_lease BEGIN \
     UPDATE meta_lease SET holder = 'thief', epoch = epoch + 1, \
     expires_at_ms = 9000000000000 WHERE id = 0; END";

async fn scene() -> (Cluster, Vec<ObjectId>) {
    let mut world = World::new();
    let live = world.objects(2);
    let delete = world.marked(5, Operation::Delete);
    let cluster = Cluster::with(&world.commands).await;
    cluster.put(&live, b"data");
    cluster.put(&delete, b"data");
    cluster.sql(THIEF).await;
    (cluster, delete)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_plugin_changes_nothing_once_the_term_is_anothers() {
    for fenced in [true, false] {
        let (cluster, _) = scene().await;
        let before = cluster.view().await.index;
        let mut options = cluster.options("a");
        for builtin in &mut options.builtins {
            builtin.settings.fenced = fenced;
        }
        let outcome = cluster.pass_with(options, cluster.store()).await;
        let after = cluster.view().await.index;
        if fenced {
            assert!(
                matches!(outcome, Err(RuntimeError::LeaseLost)),
                "{outcome:?}"
            );
            assert_eq!(after, before, "a row of a term that is over");
        } else {
            // Unfenced the stale row lands: the commands are idempotent.
            assert!(after > before, "{outcome:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_fenced_out_ends_its_term() {
    let (cluster, _) = scene().await;
    let before = cluster.view().await.index;
    let mut options = cluster.options("a");
    for builtin in &mut options.builtins {
        builtin.settings.fenced = true;
    }
    let parts = cluster.parts("a").await;
    let handle = Runtime::start(options, parts).await.expect("it starts");
    let status = cluster
        .until(&handle, "the term ends", |status| {
            status.terms > 0 && status.role == Role::Follower && status.detail.contains("thief")
        })
        .await;
    assert_eq!(status.terms, 1);
    handle.stop().await;
    assert_eq!(cluster.view().await.index, before);
}
