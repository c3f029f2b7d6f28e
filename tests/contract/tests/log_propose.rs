//! Proposing: answers, views, rows, and what an idle or closed client does.
#![allow(clippy::unwrap_used, reason = "a test ends with what went wrong")]

use std::time::Duration;

use aedile_clock::UnixMillis;
use aedile_log::{Answer, Log, LogError, LogOptions, NodeRecord, RUNS_KEPT, Reader, RunRecord};
use aedile_state::{Applied, Changes, Command, ObjectId, Rejection, State, StreamId, Value, codec};
use aedile_tests_contract::databases::{Database, Kind};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::logs::{
    BOUND, NODE, NODE_EPOCH, clock, create_stream, id, lagging, meta_url, open, prepare, propose,
    put, register, until,
};

for_each_database!(
    answers_tell_what_became_of_each_command,
    a_view_holds_what_was_answered,
    twins_are_answered_as_redundant,
    a_nonce_leaves_the_state_as_it_is,
    a_long_proposal_keeps_its_order_and_rows_stay_small,
    an_idle_client_appends_nothing,
    a_client_that_lags_catches_up_when_asked,
    a_closed_client_refuses_and_leaves_no_connection,
    an_abandoned_proposal_hinders_nobody,
    a_new_client_sees_all_that_was_answered,
    records_are_kept_within_bounds,
    the_time_is_the_databases,
);

async fn fresh(kind: Kind) -> (Database, Log) {
    let database = Database::create(kind).await.unwrap();
    let log = open(&database.url(), LogOptions::default()).await.unwrap();
    (database, log)
}

async fn answers_tell_what_became_of_each_command(kind: Kind) {
    let (_database, log) = fresh(kind).await;
    let answers = log
        .propose(vec![
            register(),
            create_stream(),
            Command::TrimStream {
                node: NODE,
                node_epoch: NODE_EPOCH,
                stream: StreamId(9),
                epoch: 0,
                new_start_offset: 1,
            },
            Command::CleanDestroyedObjects {
                objects: vec![ObjectId(5)],
            },
            Command::ExpirePreparedObjects { now_ms: i64::MAX },
            prepare(3, 0),
            Command::ExpirePreparedObjects { now_ms: i64::MAX },
            Command::CompleteTransfer {
                stream: StreamId(0),
                epoch: 0,
            },
        ])
        .await
        .unwrap();
    let applied = |value| {
        Answer::Applied(Applied {
            value,
            changes: Changes::All,
        })
    };
    assert_eq!(
        answers,
        [
            applied(Value::Unit),
            applied(Value::Id(0)),
            Answer::Rejected(Rejection::StreamNotExist {
                stream: StreamId(9)
            }),
            Answer::Redundant(Value::Unit),
            Answer::Redundant(Value::Count(0)),
            applied(Value::Id(0)),
            applied(Value::Count(3)),
            Answer::Redundant(Value::Unit),
        ]
    );
    assert_eq!(log.propose(Vec::new()).await.unwrap(), []);
    log.close().await;
}

async fn a_view_holds_what_was_answered(kind: Kind) {
    let (_database, log) = fresh(kind).await;
    propose(&log, register()).await;
    let before = log.view();
    for _ in 0..20 {
        let stream = id(&propose(&log, create_stream()).await);
        let view = log.view();
        assert!(view.state.stream(StreamId(stream)).is_some());
        assert_eq!(log.views().borrow().index, view.index);
    }
    // What was taken before stays as it was.
    assert_eq!((before.index, before.state.counts().streams), (1, 0));
    log.close().await;
}

async fn twins_are_answered_as_redundant(kind: Kind) {
    let (database, first) = fresh(kind).await;
    let second = open(&database.url(), LogOptions::default()).await.unwrap();
    first
        .propose(vec![register(), prepare(10, 5)])
        .await
        .unwrap();
    second.catch_up(BOUND).await.unwrap();
    let expire = Command::ExpirePreparedObjects { now_ms: 5 };
    let (a, b) = tokio::join!(propose(&first, expire.clone()), propose(&second, expire));
    let mut twins = [a, b];
    twins.sort_by_key(|answer| matches!(answer, Answer::Redundant(_)));
    assert_eq!(
        twins,
        [
            Answer::Applied(Applied {
                value: Value::Count(10),
                changes: Changes::All
            }),
            Answer::Redundant(Value::Count(0)),
        ]
    );

    first.propose(destroyed(4)).await.unwrap();
    let marks: Vec<ObjectId> = first
        .view()
        .state
        .marks_after(None)
        .map(|(_, object, _)| object)
        .collect();
    assert_eq!(marks.len(), 4);
    let clean = Command::CleanDestroyedObjects { objects: marks };
    let (a, b) = tokio::join!(propose(&first, clean.clone()), propose(&second, clean));
    let redundant = |answer: &Answer| *answer == Answer::Redundant(Value::Unit);
    assert!(redundant(&a) != redundant(&b), "{a:?} {b:?}");
    let (a, b) = tokio::join!(first.catch_up(BOUND), second.catch_up(BOUND));
    assert_eq!(
        a.unwrap().state.encode_snapshot(),
        b.unwrap().state.encode_snapshot()
    );
    first.close().await;
    second.close().await;
}

/// Commands after which this many objects are marked: a compaction may name
/// any.
fn destroyed(count: u64) -> Vec<Command> {
    let request = aedile_state::CompactRequest {
        object: aedile_state::NOOP,
        object_size: 0,
        stream: StreamId(0),
        stream_epoch: 0,
        start_offset: 0,
        end_offset: 0,
        attributes: 0,
        sources: (1000..1000 + count).map(ObjectId).collect(),
        operations: Vec::new(),
    };
    vec![
        create_stream(),
        Command::OpenStream {
            node: NODE,
            node_epoch: NODE_EPOCH,
            stream: StreamId(0),
            epoch: 0,
        },
        Command::CompactStreamObject {
            node: NODE,
            node_epoch: NODE_EPOCH,
            now_ms: 0,
            request,
        },
    ]
}

async fn a_nonce_leaves_the_state_as_it_is(kind: Kind) {
    let (database, log) = fresh(kind).await;
    let commands = [register(), create_stream(), put("/a", "1"), prepare(2, 5)];
    let mut expected = State::new();
    for command in &commands {
        propose(&log, command.clone()).await;
        let _ = expected.apply(command);
    }
    log.close().await;
    let mut raw = database.raw().await.unwrap();
    let (state, answers) = raw.read().await.unwrap().state();
    assert_eq!(state.encode_snapshot(), expected.encode_snapshot());
    let mut nonces = Vec::new();
    for (index, row) in &answers {
        let key = row.iter().find_map(|(command, _)| match command {
            Command::DeleteKv { key } => Some(key.clone()),
            _ => None,
        });
        let key = key.unwrap_or_else(|| panic!("row {index} has no nonce"));
        assert!(key.starts_with("aedile/nonce/"), "{key}");
        nonces.push(key);
    }
    nonces.sort();
    nonces.dedup();
    assert_eq!(nonces.len(), answers.len(), "a nonce came twice");
}

async fn a_long_proposal_keeps_its_order_and_rows_stay_small(kind: Kind) {
    let (database, log) = fresh(kind).await;
    propose(&log, register()).await;
    let answers = log.propose(vec![create_stream(); 3000]).await.unwrap();
    let ids: Vec<u64> = answers.iter().map(id).collect();
    assert_eq!(ids, (0..3000).collect::<Vec<_>>());
    log.close().await;
    let mut raw = database.raw().await.unwrap();
    for (index, payload) in raw.read().await.unwrap().rows {
        let commands = codec::decode_batch(&payload).unwrap();
        assert!(
            commands.len() <= 256,
            "row {index} has {} commands",
            commands.len()
        );
    }
}

async fn an_idle_client_appends_nothing(kind: Kind) {
    let (database, log) = fresh(kind).await;
    propose(&log, register()).await;
    let mut raw = database.raw().await.unwrap();
    let before = raw.last().await.unwrap();
    let looks = log.catch_up(BOUND).await.unwrap().index;
    // An idle while, in which it has looked at the log many times.
    clock().sleep(Duration::from_secs(2)).await;
    assert_eq!(log.catch_up(BOUND).await.unwrap().index, looks);
    assert_eq!(raw.last().await.unwrap(), before);
    log.close().await;
    assert_eq!(raw.last().await.unwrap(), before);
}

async fn a_client_that_lags_catches_up_when_asked(kind: Kind) {
    let (database, log) = fresh(kind).await;
    let lagging = open(&database.url(), lagging()).await.unwrap();
    for _ in 0..50 {
        propose(&log, put("/k", "v")).await;
    }
    assert_eq!(lagging.view().index, 0);
    let view = lagging.catch_up(BOUND).await.unwrap();
    assert_eq!(view.index, log.view().index);
    assert_eq!(lagging.view().index, view.index);
    // Its own append finds its place behind rows that it has not seen.
    for _ in 0..5 {
        propose(&log, put("/k", "v")).await;
    }
    propose(&lagging, put("/l", "v")).await;
    assert_eq!(lagging.view().index, 50 + 5 + 1);
    log.close().await;
    lagging.close().await;
}

async fn a_closed_client_refuses_and_leaves_no_connection(kind: Kind) {
    let (database, log) = fresh(kind).await;
    propose(&log, register()).await;
    let other = log.clone();
    let asked: Vec<_> = (0..8)
        .map(|_| {
            let log = log.clone();
            tokio::spawn(async move { log.propose(vec![create_stream()]).await })
        })
        .collect();
    log.close().await;
    for asked in asked {
        match asked.await.unwrap() {
            Ok(answers) => assert_eq!(answers.len(), 1),
            Err(error) => assert!(matches!(error, LogError::Closed), "{error}"),
        }
    }
    let error = other.propose(vec![create_stream()]).await.unwrap_err();
    assert!(matches!(error, LogError::Closed), "{error}");
    let error = other.catch_up(BOUND).await.unwrap_err();
    assert!(matches!(error, LogError::Closed), "{error}");
    match kind {
        Kind::Sqlite => {
            let left: Vec<_> = std::fs::read_dir(database.directory().unwrap())
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            assert_eq!(left, ["meta.db"], "a connection is still open");
        }
        Kind::Postgres => {
            let mut raw = database.raw().await.unwrap();
            until("the server lets go of the connections", async || {
                let sql =
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()";
                (raw.integers(sql).await.unwrap() == [1]).then_some(())
            })
            .await;
        }
    }
}

async fn an_abandoned_proposal_hinders_nobody(kind: Kind) {
    let (_database, log) = fresh(kind).await;
    propose(&log, register()).await;
    for _ in 0..20 {
        let abandoned = log.propose(vec![put("/abandoned", "x")]);
        // Polled once, then dropped.
        let _ = clock().timeout(Duration::ZERO, abandoned).await;
    }
    let first = id(&propose(&log, create_stream()).await);
    let second = id(&propose(&log, create_stream()).await);
    assert_eq!((first, second), (0, 1));
    log.close().await;
}

async fn a_new_client_sees_all_that_was_answered(kind: Kind) {
    let (database, log) = fresh(kind).await;
    propose(&log, register()).await;
    let mut streams = Vec::new();
    for _ in 0..30 {
        streams.push(id(&propose(&log, create_stream()).await));
    }
    let view = log.view();
    let reader = Reader::open(&meta_url(&database.url()), &clock())
        .await
        .unwrap();
    let read = reader.view().await.unwrap();
    assert_eq!(read.index, view.index);
    assert_eq!(read.state.encode_snapshot(), view.state.encode_snapshot());
    reader.close().await;
    let second = open(&database.url(), LogOptions::default()).await.unwrap();
    assert_eq!(second.view().index, view.index);
    second.close().await;
    log.close().await;
}

async fn records_are_kept_within_bounds(kind: Kind) {
    let (database, log) = fresh(kind).await;
    let reader = Reader::open(&meta_url(&database.url()), &clock())
        .await
        .unwrap();
    let records = log.records();
    let mut node = NodeRecord {
        node: "a".to_owned(),
        started: UnixMillis(7),
        seen: UnixMillis(0),
        version: "1.2.3".to_owned(),
        applied_index: 1,
        status: Default::default(),
    };
    records.heartbeat(&node).await.unwrap();
    let first = reader.nodes().await.unwrap();
    node.applied_index = 2;
    until("the database's clock moves on", async || {
        records.heartbeat(&node).await.unwrap();
        let now = reader.nodes().await.unwrap();
        assert_eq!(now.len(), 1);
        (now[0].seen > first[0].seen && now[0].applied_index == 2).then_some(())
    })
    .await;

    let mut run = RunRecord {
        id: 0,
        plugin: "cleaner".to_owned(),
        version: "0.1.0".to_owned(),
        digest: "00".to_owned(),
        node: "a".to_owned(),
        epoch: 3,
        started: UnixMillis(1),
        ended: UnixMillis(2),
        outcome: "done".to_owned(),
        summary: "it's \"done\" \u{1F642}".to_owned(),
        detail: Default::default(),
    };
    // Others' runs are not counted among these.
    records
        .run(&RunRecord {
            plugin: "expiry".to_owned(),
            ..run.clone()
        })
        .await
        .unwrap();
    let more = 5;
    for number in 0..u64::from(RUNS_KEPT) + more {
        run.epoch = number;
        records.run(&run).await.unwrap();
    }
    let kept = reader.runs(RUNS_KEPT * 2).await.unwrap();
    assert_eq!(kept.len(), RUNS_KEPT as usize + 1);
    assert_eq!(
        kept[0].epoch,
        u64::from(RUNS_KEPT) + more - 1,
        "newest first"
    );
    assert_eq!(kept[RUNS_KEPT as usize - 1].epoch, more);
    assert_eq!(kept[RUNS_KEPT as usize].plugin, "expiry");
    assert_eq!(
        RunRecord {
            id: 0,
            ..kept[0].clone()
        },
        RunRecord {
            epoch: kept[0].epoch,
            ..run
        }
    );
    assert_eq!(reader.runs(2).await.unwrap().len(), 2);
    reader.close().await;
    log.close().await;
}

async fn the_time_is_the_databases(kind: Kind) {
    let (database, log) = fresh(kind).await;
    let mut raw = database.raw().await.unwrap();
    let sql = match kind {
        Kind::Sqlite => "SELECT unixepoch() * 1000",
        Kind::Postgres => "SELECT floor(extract(epoch FROM clock_timestamp()))::bigint * 1000",
    };
    let before = raw.integers(sql).await.unwrap()[0];
    let now = log.database_now().await.unwrap().0;
    let after = raw.integers(sql).await.unwrap()[0] + 1000;
    assert!((before..=after).contains(&now), "{before} {now} {after}");
    // It is read when asked, not when a transaction began.
    until("it moves on", async || {
        (log.database_now().await.unwrap().0 > now).then_some(())
    })
    .await;
    log.close().await;
}
