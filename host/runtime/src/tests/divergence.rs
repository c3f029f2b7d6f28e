//! A node that has diverged, or whose database went back, does not contend.

use aedile_log::clear_divergence;

use super::cluster::Cluster;
use crate::guard::testing::World;
use crate::{Role, Runtime};

/// A cluster with something to clean, and a node that leads it.
async fn leading() -> (Cluster, crate::RuntimeHandle) {
    let mut world = World::new();
    let live = world.objects(2);
    let cluster = Cluster::with(&world.commands).await;
    cluster.put(&live, b"data");
    let parts = cluster.parts("a").await;
    let handle = Runtime::start(cluster.options("a"), parts)
        .await
        .expect("it starts");
    cluster
        .until(&handle, "it leads", |status| status.role == Role::Holder)
        .await;
    (cluster, handle)
}

/// Store a snapshot of another's history at the last row.
async fn doctor(cluster: &Cluster) {
    let view = cluster.view().await;
    let mut state = view.state;
    let _ = state.apply(&aedile_state::Command::PutKv {
        key: "/forged".to_owned(),
        value: Vec::new(),
    });
    let index = i64::try_from(view.index).expect("an index");
    cluster
        .store_snapshot(index, &state.encode_snapshot())
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_diverged_node_gives_the_lease_back_and_contends_again_once_cleared() {
    let (cluster, handle) = leading().await;
    doctor(&cluster).await;
    let diverged = |status: &crate::Status| {
        status.role == Role::Ineligible
            && [
                &status.detail,
                status.log.as_ref().unwrap_or(&status.detail),
            ]
            .iter()
            .all(|text| text.contains("diverged") && text.contains("\"keys\""))
    };
    cluster
        .until(&handle, "it gives the lease back", diverged)
        .await;
    let leases = cluster.leases().await;
    assert_eq!(leases[0].expires.0, 0, "the lease is still held");
    handle.stop().await;

    // A restart does not forget.
    let parts = cluster.parts("a").await;
    let handle = Runtime::start(cluster.options("a"), parts)
        .await
        .expect("it starts");
    cluster.until(&handle, "it stays out", diverged).await;
    clear_divergence(&cluster.url(), "a", &cluster.clock)
        .await
        .expect("cleared")
        .expect("something to clear");
    cluster
        .until(&handle, "it leads again", |status| {
            status.role == Role::Holder && status.log.is_none()
        })
        .await;
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_set_back_ends_the_term_for_good() {
    let (cluster, handle) = leading().await;
    cluster
        .sql("DELETE FROM meta_log WHERE idx = (SELECT max(idx) FROM meta_log)")
        .await;
    cluster
        .until(&handle, "it says so", |status| {
            status.role == Role::Ineligible && status.detail.contains("went back")
        })
        .await;
    assert_eq!(cluster.leases().await[0].expires.0, 0);
    handle.stop().await;
}
