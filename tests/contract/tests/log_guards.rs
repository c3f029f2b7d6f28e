//! Each rule of an append, a truncation and a read beside the same without its
//! guard: the client holds where the weaker statement breaks.
#![allow(clippy::unwrap_used, reason = "a test ends with what went wrong")]

use aedile_log::LogOptions;
use aedile_state::{State, codec};
use aedile_tests_contract::databases::{Database, Kind, Raw};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::logs::held::{patient, someone_waits};
use aedile_tests_contract::logs::{
    BOUND, create_stream, id, lagging, literal, open, propose, put, register, until, weak,
};

for_each_database!(
    a_check_apart_from_the_insert_lets_it_land_below_a_snapshot,
    without_a_predecessor_a_hole_is_left,
    without_a_look_at_the_snapshot_foreign_rows_are_applied,
    truncated_at_the_tip_a_lagging_node_loses_what_it_appended,
);

/// A log of five rows on which a client has seen only the first, and what its
/// state is.
async fn five_rows(database: &Database) -> (Raw, State) {
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    raw.append_next(&[register()]).await.unwrap();
    for _ in 0..4 {
        raw.append_next(&[create_stream()]).await.unwrap();
    }
    let (state, _) = raw.read().await.unwrap().state();
    (raw, state)
}

async fn rows(raw: &mut Raw) -> Vec<i64> {
    raw.integers("SELECT idx FROM meta_log ORDER BY idx")
        .await
        .unwrap()
}

/// A snapshot of all five rows, and their truncation, as one.
fn cover(kind: Kind, state: &State) -> String {
    format!(
        "INSERT INTO meta_snapshot (id, applied_idx, payload) VALUES (0, 5, {}); \
         DELETE FROM meta_log WHERE idx <= 5",
        literal(kind, &state.encode_snapshot())
    )
}

fn row() -> Vec<u8> {
    codec::encode_batch(&[create_stream()])
}

async fn a_check_apart_from_the_insert_lets_it_land_below_a_snapshot(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let (mut raw, state) = five_rows(&database).await;
    let log = open(&database.url(), lagging()).await.unwrap();
    // Weak: asked first, inserted then; between the two a snapshot comes.
    let mut weak = database.raw().await.unwrap();
    raw.run("DELETE FROM meta_log WHERE idx = 5").await.unwrap();
    assert_eq!(weak.integers(&weak::covering(5)).await.unwrap(), [0]);
    raw.run(&cover(kind, &state)).await.unwrap();
    weak.run(&weak::plain(kind, 5, &row())).await.unwrap();
    assert_eq!(rows(&mut raw).await, [5], "it lands below the snapshot");
    raw.run("DELETE FROM meta_log").await.unwrap();
    // The client's own decides in the insert's transaction.
    assert_eq!(id(&propose(&log, create_stream()).await), 4);
    assert_eq!(rows(&mut raw).await, [6]);
    log.close().await;
}

async fn without_a_predecessor_a_hole_is_left(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let (mut raw, _) = five_rows(&database).await;
    let log = open(&database.url(), lagging()).await.unwrap();
    // A failover that forgot the last row, which both have seen.
    raw.run("DELETE FROM meta_log WHERE idx = 5").await.unwrap();
    raw.run(&weak::plain(kind, 6, &row())).await.unwrap();
    assert_eq!(raw.read().await.unwrap().hole(), Some(5));
    raw.run("DELETE FROM meta_log WHERE idx = 6").await.unwrap();
    let asked = {
        let log = log.clone();
        tokio::spawn(async move { log.propose(vec![create_stream()]).await })
    };
    until("the client sees that the log went back", async || {
        log.health().borrow().has_stopped().then_some(())
    })
    .await;
    asked.await.unwrap().unwrap_err();
    assert_eq!(raw.read().await.unwrap().hole(), None);
    assert_eq!(raw.last().await.unwrap(), 4);
    log.close().await;
}

async fn without_a_look_at_the_snapshot_foreign_rows_are_applied(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    raw.append_next(&[register()]).await.unwrap();
    let log = open(&database.url(), lagging()).await.unwrap();
    let (mut weak, _) = raw.read().await.unwrap().state();
    for _ in 0..4 {
        raw.append_next(&[create_stream()]).await.unwrap();
    }
    let (state, _) = raw.read().await.unwrap().state();
    raw.run(&cover(kind, &state)).await.unwrap();
    // A PicoMQ node that lags as much inserts where the second row stood.
    let junk = codec::encode_batch(&[put("/junk", "x")]);
    assert!(raw.append(2, &junk).await.unwrap());
    weak::read_on(&mut raw, &mut weak, 1).await;
    assert!(weak.kv_get("/junk").is_some(), "the weaker reader held");
    let view = log.catch_up(BOUND).await.unwrap();
    assert_eq!(view.state.kv_get("/junk"), None);
    assert_eq!(view.state.encode_snapshot(), state.encode_snapshot());
    log.close().await;
}

/// What a node of PicoMQ's make does that has seen `seen`: it inserts behind.
async fn native_append(raw: &mut Raw, seen: i64) -> bool {
    raw.append(seen + 1, &codec::encode_batch(&[put("/native", "x")]))
        .await
        .unwrap()
}

async fn truncated_at_the_tip_a_lagging_node_loses_what_it_appended(kind: Kind) {
    for (tail, lands) in [(0, true), (4, false)] {
        let database = Database::create(kind).await.unwrap();
        let options = LogOptions {
            snapshot_every: Some(8),
            snapshot_tail: tail,
            ..LogOptions::default()
        };
        let log = open(&database.url(), options).await.unwrap();
        propose(&log, register()).await;
        let mut raw = database.raw().await.unwrap();
        until(
            "a snapshot is there, and what goes with it has gone",
            async || {
                propose(&log, create_stream()).await;
                let at = raw.snapshot_index().await.unwrap();
                let below = format!(
                    "SELECT count(*) FROM meta_log WHERE idx <= {}",
                    at - i64::try_from(tail).unwrap()
                );
                (at >= 8 && raw.integers(&below).await.unwrap() == [0]).then_some(())
            },
        )
        .await;
        // No further snapshot comes while the node below is looked at.
        log.close().await;
        let at = raw.snapshot_index().await.unwrap();
        let kept = format!("SELECT count(*) FROM meta_log WHERE idx <= {at}");
        assert_eq!(
            raw.integers(&kept).await.unwrap(),
            [i64::try_from(tail).unwrap()]
        );
        // The node lags a little: its next place is just below the snapshot.
        let landed = native_append(&mut raw, at - 2).await;
        assert_eq!(landed, lands, "tail {tail}");
        let (state, _) = raw.read().await.unwrap().state();
        assert!(
            state.kv_get("/native").is_none(),
            "it stands where nobody reads"
        );
        if !landed {
            // It met a conflict: it reads on and appends at the end.
            let last = raw.last().await.unwrap();
            assert!(native_append(&mut raw, last).await);
            let (state, _) = raw.read().await.unwrap().state();
            assert!(state.kv_get("/native").is_some());
        }
    }
}

/// A truncation is under way while an append waits for the row that goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn judged_inside_the_insert_it_lands_below_a_snapshot_on_postgres() {
    let kind = Kind::Postgres;
    for weak in [true, false] {
        let database = Database::create(kind).await.unwrap();
        let mut watch = database.raw().await.unwrap();
        watch.make_tables().await.unwrap();
        watch.append_next(&[register()]).await.unwrap();
        let log = open(&database.url(), patient()).await.unwrap();
        let (mut raw, state) = {
            let mut raw = database.raw().await.unwrap();
            for _ in 0..4 {
                raw.append_next(&[create_stream()]).await.unwrap();
            }
            let (state, _) = raw.read().await.unwrap().state();
            (raw, state)
        };
        raw.run(&format!("BEGIN; {}", cover(kind, &state)))
            .await
            .unwrap();
        let mut other = database.raw().await.unwrap();
        let asked = {
            let log = log.clone();
            tokio::spawn(async move {
                if weak {
                    other
                        .run(&weak::judged_inside(kind, 2, &row()))
                        .await
                        .unwrap();
                } else {
                    assert_eq!(id(&propose(&log, create_stream()).await), 4);
                }
            })
        };
        someone_waits(&mut watch).await;
        raw.run("COMMIT").await.unwrap();
        asked.await.unwrap();
        let expected: &[i64] = if weak { &[2] } else { &[6] };
        assert_eq!(rows(&mut raw).await, expected, "weak: {weak}");
        log.close().await;
    }
}

/// Under REPEATABLE READ the check is answered from before the insert.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checked_in_an_old_view_it_lands_below_a_snapshot_on_postgres() {
    let kind = Kind::Postgres;
    let database = Database::create(kind).await.unwrap();
    let (mut raw, state) = five_rows(&database).await;
    let mut weak = database.raw().await.unwrap();
    weak.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM meta_snapshot")
        .await
        .unwrap();
    raw.run(&cover(kind, &state)).await.unwrap();
    weak.run(&weak::plain(kind, 2, &row())).await.unwrap();
    assert_eq!(weak.integers(&weak::covering(2)).await.unwrap(), [0]);
    weak.run("COMMIT").await.unwrap();
    assert_eq!(rows(&mut raw).await, [2], "it landed below the snapshot");
    // Asked again in the same order under READ COMMITTED it is seen.
    raw.run("DELETE FROM meta_log").await.unwrap();
    weak.run("BEGIN ISOLATION LEVEL READ COMMITTED; SELECT 1 FROM meta_log")
        .await
        .unwrap();
    weak.run(&weak::plain(kind, 2, &row())).await.unwrap();
    assert_eq!(weak.integers(&weak::covering(2)).await.unwrap(), [1]);
    weak.run("ROLLBACK").await.unwrap();
}

/// A deferred transaction that read before it writes can never write once
/// another has: SQLite refuses it, however often it is tried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deferred_transaction_is_refused_on_sqlite() {
    let database = Database::create(Kind::Sqlite).await.unwrap();
    let (mut raw, _) = five_rows(&database).await;
    let log = open(&database.url(), lagging()).await.unwrap();
    let mut weak = database.raw().await.unwrap();
    weak.run("BEGIN").await.unwrap();
    assert_eq!(weak.integers(&weak::covering(6)).await.unwrap(), [0]);
    raw.append_next(&[put("/k", "v")]).await.unwrap();
    let error = weak
        .run(&weak::plain(Kind::Sqlite, 6, &row()))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("locked"), "{error}");
    weak.run("ROLLBACK").await.unwrap();
    // The client's one statement is not.
    assert_eq!(id(&propose(&log, create_stream()).await), 4);
    log.close().await;
}
