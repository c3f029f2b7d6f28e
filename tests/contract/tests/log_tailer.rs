//! What the client does with a log that cannot be read on, or that went back.
#![allow(clippy::unwrap_used, reason = "a test ends with what went wrong")]

use aedile_log::{Log, LogError, LogErrorKind, LogHealth, LogOptions};
use aedile_state::{State, codec};
use aedile_tests_contract::databases::{Database, Kind, Raw};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::logs::{BOUND, create_stream, open, propose, put, register, until};

for_each_database!(
    a_corrupt_row_is_named_and_nothing_behind_it_is_applied,
    an_unknown_version_is_told_apart_from_damage,
    a_hole_without_a_snapshot_is_named,
    a_corrupt_snapshot_is_named,
    forgotten_rows_are_noticed,
    another_row_at_the_last_index_is_noticed,
    a_snapshot_that_went_back_is_noticed,
    a_restored_backup_that_grew_again_is_noticed,
    a_log_that_was_emptied_is_noticed,
);

async fn fresh(kind: Kind) -> (Database, Log, Raw) {
    let database = Database::create(kind).await.unwrap();
    let log = open(&database.url(), LogOptions::default()).await.unwrap();
    propose(&log, register()).await;
    propose(&log, create_stream()).await;
    propose(&log, create_stream()).await;
    let raw = database.raw().await.unwrap();
    (database, log, raw)
}

/// Wait for the end, and check that the client then refuses everything.
async fn ended(log: &Log, raw: &mut Raw) -> LogHealth {
    let view = log.view();
    let health = until("the client notices", async || {
        Some(log.health().borrow().clone()).filter(LogHealth::is_final)
    })
    .await;
    let before = raw.integers("SELECT count(*) FROM meta_log").await.unwrap();
    for error in [
        log.propose(vec![create_stream()]).await.unwrap_err(),
        log.catch_up(BOUND).await.unwrap_err(),
    ] {
        assert!(matches!(error, LogError::Stopped(_)), "{error}");
        assert_eq!(error.kind(), LogErrorKind::Ended);
        assert!(error.to_string().contains(&health.to_string()), "{error}");
    }
    assert_eq!(
        raw.integers("SELECT count(*) FROM meta_log").await.unwrap(),
        before,
        "something was appended"
    );
    // The last good view can still be read.
    assert!(log.view().index >= view.index);
    health
}

async fn a_corrupt_row_is_named_and_nothing_behind_it_is_applied(kind: Kind) {
    let (_database, log, mut raw) = fresh(kind).await;
    // All three in one statement, so that one look meets them.
    let good = hex(&codec::encode_batch(&[put("/before", "x")]));
    let behind = hex(&codec::encode_batch(&[put("/behind", "x")]));
    let literal = |text: &str| match kind {
        Kind::Sqlite => format!("x'{text}'"),
        Kind::Postgres => format!("'\\x{text}'::bytea"),
    };
    raw.run(&format!(
        "INSERT INTO meta_log (idx, payload) VALUES (4, {}), (5, {}), (6, {})",
        literal(&good),
        literal("00010000000affffff"),
        literal(&behind),
    ))
    .await
    .unwrap();
    let health = ended(&log, &mut raw).await;
    let LogHealth::Poisoned { index, .. } = health else {
        panic!("{health}");
    };
    assert_eq!(index, 5);
    let view = log.view();
    assert_eq!(view.index, 4);
    assert!(view.state.kv_get("/before").is_some());
    assert!(view.state.kv_get("/behind").is_none());
    log.close().await;
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn an_unknown_version_is_told_apart_from_damage(kind: Kind) {
    let (_database, log, mut raw) = fresh(kind).await;
    raw.append(4, &[9, 0, 0, 0, 0]).await.unwrap();
    let health = ended(&log, &mut raw).await;
    assert!(
        matches!(&health, LogHealth::Poisoned { index: 4, reason } if reason.contains("version")),
        "{health}"
    );
    log.close().await;
}

async fn a_hole_without_a_snapshot_is_named(kind: Kind) {
    let (_database, log, mut raw) = fresh(kind).await;
    raw.append(5, &codec::encode_batch(&[put("/k", "v")]))
        .await
        .unwrap();
    let health = ended(&log, &mut raw).await;
    assert!(
        matches!(health, LogHealth::Poisoned { index: 4, .. }),
        "{health}"
    );
    log.close().await;
}

async fn a_corrupt_snapshot_is_named(kind: Kind) {
    let (_database, log, mut raw) = fresh(kind).await;
    let mut payload = log.view().state.encode_snapshot();
    payload.pop();
    raw.store_snapshot(9, &payload).await.unwrap();
    raw.truncate(9).await.unwrap();
    let health = ended(&log, &mut raw).await;
    assert!(
        matches!(health, LogHealth::Poisoned { index: 9, .. }),
        "{health}"
    );
    log.close().await;
}

fn went_back(health: &LogHealth) {
    assert!(
        matches!(health, LogHealth::WentBack { applied: 3, .. }),
        "{health}"
    );
    assert!(health.to_string().contains("went back"), "{health}");
}

async fn forgotten_rows_are_noticed(kind: Kind) {
    let (_database, log, mut raw) = fresh(kind).await;
    raw.run("DELETE FROM meta_log WHERE idx > 1").await.unwrap();
    went_back(&ended(&log, &mut raw).await);
    log.close().await;
}

async fn another_row_at_the_last_index_is_noticed(kind: Kind) {
    let (_database, log, mut raw) = fresh(kind).await;
    let other = codec::encode_batch(&[put("/other", "history")]);
    let literal = match kind {
        Kind::Sqlite => format!("x'{}'", hex(&other)),
        Kind::Postgres => format!("'\\x{}'::bytea", hex(&other)),
    };
    raw.run(&format!(
        "UPDATE meta_log SET payload = {literal} WHERE idx = 3"
    ))
    .await
    .unwrap();
    went_back(&ended(&log, &mut raw).await);
    log.close().await;
}

async fn a_snapshot_that_went_back_is_noticed(kind: Kind) {
    let (_database, log, mut raw) = fresh(kind).await;
    let mut held = raw.read().await.unwrap();
    held.rows.retain(|(index, _)| *index <= 2);
    let payload = held.state().0.encode_snapshot();
    raw.store_snapshot(2, &payload).await.unwrap();
    // It must have been seen before it can go back.
    log.catch_up(BOUND).await.unwrap();
    raw.run("UPDATE meta_snapshot SET applied_idx = 1")
        .await
        .unwrap();
    went_back(&ended(&log, &mut raw).await);
    log.close().await;
}

async fn a_restored_backup_that_grew_again_is_noticed(kind: Kind) {
    let (database, log, mut raw) = fresh(kind).await;
    // In one transaction, as a restore is seen: back to row 1, then others' rows.
    let other = codec::encode_batch(&[put("/other", "history")]);
    let literal = match kind {
        Kind::Sqlite => format!("x'{}'", hex(&other)),
        Kind::Postgres => format!("'\\x{}'::bytea", hex(&other)),
    };
    raw.run(&format!(
        "BEGIN; DELETE FROM meta_log WHERE idx > 1; INSERT INTO meta_log (idx, payload) \
         VALUES (2, {literal}), (3, {literal}), (4, {literal}); COMMIT"
    ))
    .await
    .unwrap();
    went_back(&ended(&log, &mut raw).await);
    log.close().await;
    // A new client takes the log for what it is now.
    let log = open(&database.url(), LogOptions::default()).await.unwrap();
    assert_eq!(log.view().index, 4);
    log.close().await;
}

async fn a_log_that_was_emptied_is_noticed(kind: Kind) {
    let (_database, log, mut raw) = fresh(kind).await;
    raw.run("DELETE FROM meta_log").await.unwrap();
    went_back(&ended(&log, &mut raw).await);
    assert_ne!(log.view().state, State::new());
    log.close().await;
}
