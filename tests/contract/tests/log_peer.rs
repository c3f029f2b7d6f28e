//! Beside a node of another make, which appends by a plain insert at what it
//! last saw, and snapshots and truncates at the tip.
#![allow(clippy::unwrap_used, reason = "a test ends with what went wrong")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use aedile_log::{Answer, Log, LogHealth, LogOptions};
use aedile_state::{State, StreamId, codec};
use aedile_tests_contract::databases::{Database, Kind, Raw};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::logs::{
    BOUND, clock, create_stream, id, lagging, open, propose, put, register, until,
};

for_each_database!(
    beside_a_peer_that_truncates_at_the_tip,
    an_insert_below_the_snapshot_is_not_applied,
    a_stale_client_does_not_land_below_the_snapshot,
    a_row_of_another_history_is_no_predecessor_below_the_snapshot,
    behind_a_snapshot_without_rows_the_next_index_is_right,
    a_gap_is_closed_by_a_newer_snapshot,
    rows_that_stand_are_never_followed_by_a_hole,
);

/// The peer that snapshots: it replays what it reads, as its node does.
async fn snapshots(mut raw: Raw, stop: Arc<AtomicBool>, stored: Arc<AtomicUsize>) {
    while !stop.load(Ordering::SeqCst) {
        let held = raw.read().await.unwrap();
        let at = held.snapshot.as_ref().map_or(0, |(index, _)| *index);
        if held.last() >= at + 16 {
            let (state, _) = held.state();
            let payload = state.encode_snapshot();
            let new = raw.store_snapshot(held.last(), &payload).await.unwrap();
            stored.fetch_add(usize::from(new), Ordering::SeqCst);
            // Two transactions, the snapshot first, up to its own tip.
            raw.truncate(held.last()).await.unwrap();
        }
        clock().sleep(Duration::from_millis(3)).await;
    }
}

/// The peer that lags: its last seen index is old, and so most of its inserts
/// meet a row or stand below a snapshot. It never reads rows.
async fn inserts(mut raw: Raw, stop: Arc<AtomicBool>) -> (usize, usize) {
    let (mut above, mut below) = (0, 0);
    while !stop.load(Ordering::SeqCst) {
        let seen = raw.last().await.unwrap();
        clock().sleep(Duration::from_millis(20)).await;
        let payload = codec::encode_batch(&[put("/peer", &seen.to_string())]);
        if raw.append(seen + 1, &payload).await.unwrap() {
            if raw.snapshot_index().await.unwrap() > seen {
                below += 1;
            } else {
                above += 1;
            }
        }
    }
    (above, below)
}

async fn proposer(log: Log, stop: Arc<AtomicBool>) -> (Vec<u64>, usize) {
    let (mut told, mut unknown) = (Vec::new(), 0);
    while !stop.load(Ordering::SeqCst) {
        match propose(&log, create_stream()).await {
            Answer::Unknown => unknown += 1,
            answer => told.push(id(&answer)),
        }
    }
    (told, unknown)
}

async fn beside_a_peer_that_truncates_at_the_tip(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let log = open(&database.url(), LogOptions::default()).await.unwrap();
    let second = open(&database.url(), LogOptions::default()).await.unwrap();
    propose(&log, register()).await;
    second.catch_up(BOUND).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stored = Arc::new(AtomicUsize::new(0));
    let peer = database.raw().await.unwrap();
    let peer = tokio::spawn(snapshots(peer, stop.clone(), stored.clone()));
    let laggard = tokio::spawn(inserts(database.raw().await.unwrap(), stop.clone()));
    let proposers: Vec<_> = [&log, &second, &log, &second, &log, &second]
        .map(|log| tokio::spawn(proposer(log.clone(), stop.clone())))
        .into();
    let least = clock().boot() + Duration::from_secs(3);
    until("time and snapshots have passed", async || {
        let passed = clock().boot() >= least && stored.load(Ordering::SeqCst) >= 3;
        passed.then_some(())
    })
    .await;
    stop.store(true, Ordering::SeqCst);
    let (mut told, mut unknown) = (Vec::new(), 0);
    for proposer in proposers {
        let (more, not) = proposer.await.unwrap();
        told.extend(more);
        unknown += not;
    }
    peer.await.unwrap();
    let (above, below) = laggard.await.unwrap();
    let view = log.catch_up(BOUND).await.unwrap();
    let other = second.catch_up(BOUND).await.unwrap();
    assert_eq!(*log.health().borrow(), LogHealth::Healthy);
    assert_eq!(*second.health().borrow(), LogHealth::Healthy);

    let mut raw = database.raw().await.unwrap();
    let (state, _) = raw.read().await.unwrap().state();
    let distinct: BTreeSet<u64> = told.iter().copied().collect();
    assert_eq!(
        distinct.len(),
        told.len(),
        "a stream id was acknowledged twice"
    );
    for stream in &distinct {
        assert!(
            state.stream(StreamId(*stream)).is_some(),
            "stream {stream} was acknowledged and lost"
        );
    }
    let encoded = state.encode_snapshot();
    assert!(
        view.state.encode_snapshot() == encoded,
        "a client differs from a fresh replay"
    );
    assert!(
        other.state.encode_snapshot() == encoded,
        "a client differs from a fresh replay"
    );
    let stored = stored.load(Ordering::SeqCst);
    assert!(told.len() > 50, "{} commands", told.len());
    eprintln!(
        "{kind:?}: {} streams, {unknown} unknown, {stored} snapshots, {above} inserts above and \
         {below} below one",
        told.len()
    );
    log.close().await;
    second.close().await;
}

/// A log with `rows` streams, its snapshot there, and no row.
async fn truncated(database: &Database, rows: i64) -> (Raw, State) {
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    raw.append_next(&[register()]).await.unwrap();
    for _ in 1..rows {
        raw.append_next(&[create_stream()]).await.unwrap();
    }
    let (state, _) = raw.read().await.unwrap().state();
    raw.store_snapshot(rows, &state.encode_snapshot())
        .await
        .unwrap();
    raw.truncate(rows).await.unwrap();
    (raw, state)
}

async fn an_insert_below_the_snapshot_is_not_applied(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    raw.append_next(&[register()]).await.unwrap();
    raw.append_next(&[create_stream()]).await.unwrap();
    // It has seen two rows of what will be five.
    let log = open(&database.url(), lagging()).await.unwrap();
    assert_eq!(log.view().index, 2);
    for _ in 0..3 {
        raw.append_next(&[create_stream()]).await.unwrap();
    }
    let (state, _) = raw.read().await.unwrap().state();
    raw.store_snapshot(5, &state.encode_snapshot())
        .await
        .unwrap();
    raw.truncate(5).await.unwrap();
    // A node that lags as much inserts where the real third row stood.
    let junk = codec::encode_batch(&[put("/junk", "x")]);
    assert!(raw.append(3, &junk).await.unwrap());
    assert!(raw.append(4, &junk).await.unwrap());
    let view = log.catch_up(BOUND).await.unwrap();
    assert_eq!(view.index, 5);
    assert_eq!(view.state.kv_get("/junk"), None);
    assert_eq!(view.state.encode_snapshot(), state.encode_snapshot());
    // One exactly at the snapshot is as foreign, and so is what a restart sees.
    assert!(raw.append(5, &junk).await.unwrap());
    assert_eq!(
        log.catch_up(BOUND).await.unwrap().state.kv_get("/junk"),
        None
    );
    assert_eq!(id(&propose(&log, create_stream()).await), 4);
    assert_eq!(log.view().index, 6);
    let second = open(&database.url(), LogOptions::default()).await.unwrap();
    assert_eq!(
        second.view().state.encode_snapshot(),
        log.view().state.encode_snapshot()
    );
    log.close().await;
    second.close().await;
}

async fn a_stale_client_does_not_land_below_the_snapshot(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    raw.append_next(&[register()]).await.unwrap();
    let log = open(&database.url(), lagging()).await.unwrap();
    for _ in 0..4 {
        raw.append_next(&[create_stream()]).await.unwrap();
    }
    let (state, _) = raw.read().await.unwrap().state();
    raw.store_snapshot(5, &state.encode_snapshot())
        .await
        .unwrap();
    raw.truncate(5).await.unwrap();
    // By all that it has seen its next index is 2, and nothing stands there.
    let stream = id(&propose(&log, create_stream()).await);
    assert_eq!(stream, 4);
    let held = raw.read().await.unwrap();
    assert_eq!(held.rows.iter().map(|row| row.0).collect::<Vec<_>>(), [6]);
    assert_eq!(raw.integers("SELECT idx FROM meta_log").await.unwrap(), [6]);
    log.close().await;
}

async fn a_row_of_another_history_is_no_predecessor_below_the_snapshot(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let log = open(&database.url(), lagging()).await.unwrap();
    propose(&log, register()).await;
    let mut raw = database.raw().await.unwrap();
    for _ in 0..5 {
        raw.append_next(&[create_stream()]).await.unwrap();
    }
    let (state, _) = raw.read().await.unwrap().state();
    raw.store_snapshot(6, &state.encode_snapshot())
        .await
        .unwrap();
    raw.truncate(6).await.unwrap();
    // Another laggard's insert stands where the client's own last row stood, and
    // the place behind it is free.
    let junk = codec::encode_batch(&[put("/junk", "x")]);
    assert!(raw.append(1, &junk).await.unwrap());
    assert_eq!(id(&propose(&log, create_stream()).await), 5);
    assert_eq!(
        raw.integers("SELECT idx FROM meta_log ORDER BY idx")
            .await
            .unwrap(),
        [1, 7]
    );
    log.close().await;
}

async fn behind_a_snapshot_without_rows_the_next_index_is_right(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let (mut raw, state) = truncated(&database, 7).await;
    let log = open(&database.url(), LogOptions::default()).await.unwrap();
    assert_eq!(log.view().index, 7);
    assert_eq!(log.view().state.encode_snapshot(), state.encode_snapshot());
    assert_eq!(id(&propose(&log, create_stream()).await), 6);
    assert_eq!(raw.integers("SELECT idx FROM meta_log").await.unwrap(), [8]);
    log.close().await;
}

async fn a_gap_is_closed_by_a_newer_snapshot(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    raw.append_next(&[register()]).await.unwrap();
    let log = open(&database.url(), lagging()).await.unwrap();
    for _ in 0..9 {
        raw.append_next(&[create_stream()]).await.unwrap();
    }
    let (state, _) = raw.read().await.unwrap().state();
    raw.store_snapshot(10, &state.encode_snapshot())
        .await
        .unwrap();
    raw.truncate(10).await.unwrap();
    raw.append_next(&[create_stream()]).await.unwrap();
    let view = log.catch_up(BOUND).await.unwrap();
    assert_eq!((view.index, view.state.counts().streams), (11, 10));
    // Also when its own last row is still there, and only the next is not.
    let stale = open(&database.url(), lagging()).await.unwrap();
    assert_eq!(stale.view().index, 11);
    raw.append_next(&[create_stream()]).await.unwrap();
    raw.append_next(&[create_stream()]).await.unwrap();
    let (state, _) = raw.read().await.unwrap().state();
    let mut held = raw.read().await.unwrap();
    held.rows.retain(|(index, _)| *index <= 12);
    let (at_12, _) = held.state();
    raw.store_snapshot(12, &at_12.encode_snapshot())
        .await
        .unwrap();
    raw.run("DELETE FROM meta_log WHERE idx = 12")
        .await
        .unwrap();
    let view = stale.catch_up(BOUND).await.unwrap();
    assert_eq!(view.index, 13);
    assert_eq!(view.state.encode_snapshot(), state.encode_snapshot());
    assert_eq!(*stale.health().borrow(), LogHealth::Healthy);
    log.close().await;
    stale.close().await;
}

/// A client whose predecessor has gone must not append behind a hole.
async fn rows_that_stand_are_never_followed_by_a_hole(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let log = open(&database.url(), lagging()).await.unwrap();
    log.propose(vec![register(), create_stream()])
        .await
        .unwrap();
    propose(&log, create_stream()).await;
    let mut raw = database.raw().await.unwrap();
    // A failover that forgot the last row: the client does not know yet.
    raw.run("DELETE FROM meta_log WHERE idx = 2").await.unwrap();
    let asked = {
        let log = log.clone();
        tokio::spawn(async move { log.propose(vec![create_stream()]).await })
    };
    until("the client sees that the log went back", async || {
        matches!(*log.health().borrow(), LogHealth::WentBack { .. }).then_some(())
    })
    .await;
    assert!(
        asked.await.unwrap().is_err(),
        "acknowledged in a log that went back"
    );
    assert_eq!(raw.read().await.unwrap().hole(), None);
    log.close().await;
}
