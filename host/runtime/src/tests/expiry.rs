//! Reservations that lapse.

use aedile_state::Command;

use super::cluster::Cluster;
use crate::guard::testing::World;
use crate::{Role, Runtime};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn automq_1171_a_hundred_thousand_lapsed_reservations_are_one_row() {
    let mut world = World::new();
    for _ in 0..100 {
        world.reserve_at(0, 1_000, 1);
    }
    let cluster = Cluster::with(&world.commands).await;
    let before = cluster.view().await.index;
    let totals = cluster.pass().await.totals();
    assert_eq!(totals.expired, 100_000);
    let view = cluster.view().await;
    // The command names none of them.
    assert_eq!(view.index, before + 1);
    assert_eq!(view.state.counts().reservations, 0);
}

/// The deadline is the database's: not before it, and without waiting for
/// another round after it. One that lapsed while nobody led goes with the first
/// tick.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn automq_3523_a_reservation_lapses_at_its_deadline_not_before() {
    let cluster = Cluster::empty();
    let mut world = World::new();
    let deadline = cluster.clock.unix().0 + 4_000;
    world.reserve_at(deadline - 10, 3, 10);
    cluster.append(&world.commands).await;
    let handle = Runtime::start(cluster.options("a"), cluster.parts("a").await)
        .await
        .expect("it starts");
    let expired =
        |status: &crate::Status| status.role == Role::Holder && status.backlog.reservations == 0;
    let mut seen = false;
    cluster
        .until(&handle, "it lapses", |status| {
            seen |= status.backlog.reservations == 3;
            seen && expired(status)
        })
        .await;
    assert!(cluster.clock.unix().0 > deadline, "it lapsed too early");
    handle.stop().await;

    let mut late = World::new();
    late.commands.clear();
    late.reserve_at(0, 2, 1);
    cluster.append(&late.commands).await;
    assert_eq!(cluster.view().await.state.counts().reservations, 2);
    let again = Runtime::start(cluster.options("a"), cluster.parts("a").await)
        .await
        .expect("it starts");
    cluster.until(&again, "it lapses at once", expired).await;
    again.stop().await;
}

/// PicoMQ accepts a commit of an id whose reservation has lapsed. So what was
/// uploaded under it is nobody's to delete, whichever comes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn risingwave_1583_a_commit_beside_the_expiry_finds_its_bytes() {
    let mut world = World::new();
    let early = world.reserve_at(0, 10, 1);
    let late = world.reserve_at(0, 10, 1);
    world.commit(&early);
    let before = world.commands.len();
    let cluster = Cluster::with(&world.commands).await;
    cluster.put(&early, b"data");
    cluster.put(&late, b"data");
    assert_eq!(cluster.pass().await.totals().expired, 10);
    world.apply(Command::ExpirePreparedObjects { now_ms: 10 });
    world.commit(&late);
    cluster.append(&world.commands[before + 1..]).await;
    assert_eq!(cluster.pass().await.totals().deleted, 0);
    let state = cluster.view().await.state;
    for id in early.iter().chain(&late) {
        assert!(state.object(*id).is_some(), "{id:?} is live");
        assert!(cluster.has(*id), "{id:?} has its bytes");
    }
}
