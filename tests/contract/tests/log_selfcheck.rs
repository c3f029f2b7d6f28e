//! A node compares itself with the snapshots of others; one that has diverged
//! stops, also after a restart, until it is cleared.
#![allow(clippy::unwrap_used, reason = "a test ends with what went wrong")]

use aedile_log::{Log, LogError, LogErrorKind, LogHealth, LogOptions, Reader, clear_divergence};
use aedile_state::{Command, NodeId, State, StreamId};
use aedile_tests_contract::databases::{Database, Kind, Raw};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::logs::{
    BOUND, clock, create_stream, id, lagging, meta_url, open, prepare, propose, put, register,
    until,
};

for_each_database!(
    equal_snapshots_of_others_change_nothing,
    a_doctored_snapshot_stops_the_node_until_it_is_cleared,
    a_doctored_snapshot_at_the_last_row_is_not_installed,
    each_section_is_named,
    a_snapshot_ahead_that_contradicts_the_past_is_not_installed,
    a_node_registered_as_minus_one_is_no_difference,
    what_is_no_snapshot_is_said_to_be_none,
    a_snapshot_of_another_version_is_said_to_be_one,
    a_divergence_is_remembered_though_the_database_was_away,
);

fn named(node: &str) -> LogOptions {
    LogOptions {
        node: node.to_owned(),
        ..LogOptions::default()
    }
}

/// A client that has applied some rows, and a plain connection.
async fn fresh(kind: Kind) -> (Database, Log, Raw) {
    let database = Database::create(kind).await.unwrap();
    let log = open(&database.url(), named("a")).await.unwrap();
    propose(&log, register()).await;
    for _ in 0..4 {
        propose(&log, create_stream()).await;
    }
    let raw = database.raw().await.unwrap();
    (database, log, raw)
}

/// The state after so many rows, by a replay of the client's own.
async fn state_at(raw: &mut Raw, index: i64) -> State {
    let mut held = raw.read().await.unwrap();
    held.rows.retain(|(at, _)| *at <= index);
    held.state().0
}

async fn health(log: &Log) -> LogHealth {
    until("the client notices", async || {
        Some(log.health().borrow().clone()).filter(LogHealth::has_stopped)
    })
    .await
}

fn section(health: &LogHealth) -> &str {
    match health {
        LogHealth::Diverged { section, .. } => section,
        other => panic!("not diverged: {other}"),
    }
}

async fn equal_snapshots_of_others_change_nothing(kind: Kind) {
    let (_database, log, mut raw) = fresh(kind).await;
    for index in [2, 4, 5] {
        let payload = state_at(&mut raw, index).await.encode_snapshot();
        assert!(raw.store_snapshot(index, &payload).await.unwrap());
        log.catch_up(BOUND).await.unwrap();
        // Two looks later, what was found would have been told.
        propose(&log, put("/k", &index.to_string())).await;
    }
    assert_eq!(*log.health().borrow(), LogHealth::Healthy);
    assert_eq!(
        raw.integers("SELECT count(*) FROM aedile_divergence")
            .await
            .unwrap(),
        [0]
    );
    log.close().await;
}

async fn a_doctored_snapshot_stops_the_node_until_it_is_cleared(kind: Kind) {
    let (database, log, mut raw) = fresh(kind).await;
    // As a node that forked wrote it: one more key at a row that was passed.
    let mut doctored = state_at(&mut raw, 4).await;
    let _ = doctored.apply(&put("/forged", "x"));
    raw.store_snapshot(4, &doctored.encode_snapshot())
        .await
        .unwrap();
    let found = health(&log).await;
    assert_eq!(section(&found), "keys");
    let text = found.to_string();
    for part in [
        "index 4",
        "\"keys\"",
        "aedile log clear-divergence --node a",
    ] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    // Nothing is done any more, and the last good view can be read.
    for error in [
        log.propose(vec![create_stream()]).await.unwrap_err(),
        log.catch_up(BOUND).await.unwrap_err(),
    ] {
        assert!(matches!(error, LogError::Diverged(_)), "{error}");
        assert_eq!(error.kind(), LogErrorKind::Content);
    }
    assert_eq!(raw.last().await.unwrap(), 5, "something was appended");
    assert_eq!(log.view().index, 5);

    // It is remembered: a restart begins as one that has diverged.
    until("it is remembered", async || {
        let sql = "SELECT node || ' ' || idx || ' ' || section FROM aedile_divergence";
        (raw.texts(sql).await.unwrap() == ["a 4 keys"]).then_some(())
    })
    .await;
    log.close().await;
    let log = open(&database.url(), named("a")).await.unwrap();
    assert_eq!(section(&log.health().borrow()), "keys");
    let error = log.propose(vec![create_stream()]).await.unwrap_err();
    assert!(matches!(error, LogError::Diverged(_)), "{error}");
    // Another node is not concerned: it has only ever seen this snapshot.
    let other = open(&database.url(), named("b")).await.unwrap();
    assert_eq!(*other.health().borrow(), LogHealth::Healthy);
    other.close().await;

    // Cleared, the running node reads the log anew and goes on from the snapshot.
    let url = meta_url(&database.url());
    let reader = Reader::open(&url, &clock()).await.unwrap();
    let listed = reader.divergences().await.unwrap();
    reader.close().await;
    assert_eq!((listed.len(), listed[0].node.as_str()), (1, "a"));
    assert!(
        clear_divergence(&url, "b", &clock())
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(section(&log.health().borrow()), "keys");
    let cleared = clear_divergence(&url, "a", &clock())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((cleared.index, cleared.section.as_str()), (4, "keys"));
    until("it goes on", async || {
        (*log.health().borrow() == LogHealth::Healthy).then_some(())
    })
    .await;
    assert!(log.view().state.kv_get("/forged").is_some());
    assert_eq!(id(&propose(&log, create_stream()).await), 4);
    log.close().await;
}

async fn a_doctored_snapshot_at_the_last_row_is_not_installed(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let log = open(&database.url(), lagging()).await.unwrap();
    propose(&log, register()).await;
    for _ in 0..4 {
        propose(&log, create_stream()).await;
    }
    let mut raw = database.raw().await.unwrap();
    let mut doctored = state_at(&mut raw, 5).await;
    let _ = doctored.apply(&put("/forged", "x"));
    // With another's row where its own stood, only the snapshot is left to go by.
    let junk = aedile_state::codec::encode_batch(&[put("/junk", "x")]);
    raw.store_snapshot(5, &doctored.encode_snapshot())
        .await
        .unwrap();
    raw.truncate(5).await.unwrap();
    raw.append(5, &junk).await.unwrap();
    let error = log.catch_up(BOUND).await.unwrap_err();
    assert!(matches!(error, LogError::Diverged(_)), "{error}");
    assert_eq!(section(&health(&log).await), "keys");
    assert!(log.view().state.kv_get("/forged").is_none());
    log.close().await;
}

async fn each_section_is_named(kind: Kind) {
    let changes: [(&str, Command); 4] = [
        ("next stream id", create_stream()),
        (
            "nodes",
            Command::RegisterNode {
                node: NodeId(9),
                node_epoch: 1,
                http_address: String::new(),
                slots: 1,
            },
        ),
        ("next object id", prepare(1, 10)),
        ("keys", put("/k", "v")),
    ];
    for (name, command) in changes {
        let (_database, log, mut raw) = fresh(kind).await;
        let mut doctored = state_at(&mut raw, 3).await;
        doctored.apply(&command).unwrap();
        raw.store_snapshot(3, &doctored.encode_snapshot())
            .await
            .unwrap();
        assert_eq!(section(&health(&log).await), name);
        log.close().await;
    }
}

/// A database that was restored and has grown past this node, with a snapshot
/// above it and no row below: from the rows alone it is a peer's snapshot.
async fn a_snapshot_ahead_that_contradicts_the_past_is_not_installed(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let log = open(&database.url(), lagging()).await.unwrap();
    propose(&log, register()).await;
    let mut raw = database.raw().await.unwrap();
    let yesterday = state_at(&mut raw, 1).await;
    // What is lost in the restore: three streams that were answered.
    for stream in 0..3 {
        assert_eq!(id(&propose(&log, create_stream()).await), stream);
    }
    // Yesterday's database, and what others did with it since.
    let mut history = yesterday;
    for number in 0..8 {
        let _ = history.apply(&put("/other", &number.to_string()));
    }
    let _ = history.apply(&create_stream());
    raw.run("DELETE FROM meta_log").await.unwrap();
    raw.store_snapshot(10, &history.encode_snapshot())
        .await
        .unwrap();
    let error = log.catch_up(BOUND).await.unwrap_err();
    assert!(matches!(error, LogError::Diverged(_)), "{error}");
    let health = health(&log).await;
    assert_eq!(section(&health), "next stream id");
    assert!(health.to_string().contains("does not follow"), "{health}");
    // The ids that were lost are not answered again by this client.
    let error = log.propose(vec![create_stream()]).await.unwrap_err();
    assert!(matches!(error, LogError::Diverged(_)), "{error}");
    assert_eq!(raw.last().await.unwrap(), 10);
    log.close().await;
}

async fn a_node_registered_as_minus_one_is_no_difference(kind: Kind) {
    let (database, log, mut raw) = fresh(kind).await;
    let odd = |stream| {
        [
            Command::RegisterNode {
                node: NodeId::NONE,
                node_epoch: 1,
                http_address: String::new(),
                slots: 4,
            },
            Command::PlaceStream {
                stream: StreamId(stream),
            },
        ]
    };
    // Until the lowest id among nodes with free slots is −1, and it is placed.
    for stream in 0..4 {
        log.propose(odd(stream).to_vec()).await.unwrap();
    }
    let at = raw.last().await.unwrap();
    let state = state_at(&mut raw, at).await;
    let decoded = State::decode_snapshot(&state.encode_snapshot()).unwrap();
    assert!(decoded != state, "the odd case is not the odd case");
    raw.store_snapshot(at, &state.encode_snapshot())
        .await
        .unwrap();
    log.catch_up(BOUND).await.unwrap();
    propose(&log, put("/k", "v")).await;
    // The other client begins from the snapshot, and meets the next one.
    let other = open(&database.url(), named("b")).await.unwrap();
    propose(&other, put("/k", "w")).await;
    let at = raw.last().await.unwrap();
    let payload = state_at(&mut raw, at).await.encode_snapshot();
    raw.store_snapshot(at, &payload).await.unwrap();
    for log in [&log, &other] {
        log.catch_up(BOUND).await.unwrap();
        propose(log, put("/k", "x")).await;
        log.catch_up(BOUND).await.unwrap();
        assert_eq!(*log.health().borrow(), LogHealth::Healthy);
    }
    log.close().await;
    other.close().await;
}

async fn unreadable(kind: Kind, payload: &[u8], word: &str) {
    let (database, log, mut raw) = fresh(kind).await;
    raw.store_snapshot(4, payload).await.unwrap();
    let found = health(&log).await;
    assert!(
        matches!(&found, LogHealth::Poisoned { index: 4, reason }
            if reason.contains("the snapshot at index 4") && reason.contains(word)),
        "{found}"
    );
    log.close().await;
    // It is no divergence: the database says the same to every node.
    assert_eq!(
        raw.integers("SELECT count(*) FROM aedile_divergence")
            .await
            .unwrap(),
        [0]
    );
    let Err(error) = open(&database.url(), named("a")).await else {
        panic!("it was opened");
    };
    assert!(
        matches!(error, LogError::Snapshot { index: 4, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("snapshot at index 4"), "{error}");
}

async fn what_is_no_snapshot_is_said_to_be_none(kind: Kind) {
    let mut cut = State::new().encode_snapshot();
    cut.pop();
    unreadable(kind, &cut, "cannot be read").await;
}

async fn a_snapshot_of_another_version_is_said_to_be_one(kind: Kind) {
    unreadable(kind, b"{\"streams\": []}", "version").await;
}

async fn a_divergence_is_remembered_though_the_database_was_away(kind: Kind) {
    let (_database, log, mut raw) = fresh(kind).await;
    let mut doctored = state_at(&mut raw, 4).await;
    let _ = doctored.apply(&put("/forged", "x"));
    // The table is away, as a database is: it cannot be noted at first.
    raw.run("ALTER TABLE aedile_divergence RENAME TO elsewhere")
        .await
        .unwrap();
    raw.store_snapshot(4, &doctored.encode_snapshot())
        .await
        .unwrap();
    assert_eq!(section(&health(&log).await), "keys");
    raw.run("ALTER TABLE elsewhere RENAME TO aedile_divergence")
        .await
        .unwrap();
    until("it is remembered", async || {
        let sql = "SELECT count(*) FROM aedile_divergence";
        (raw.integers(sql).await.unwrap() == [1]).then_some(())
    })
    .await;
    let error = log.propose(vec![create_stream()]).await.unwrap_err();
    assert!(matches!(error, LogError::Diverged(_)), "{error}");
    log.close().await;
}
