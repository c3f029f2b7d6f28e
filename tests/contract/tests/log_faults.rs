//! Lost messages, a server that hangs or stops, and the moments inside an append
//! at which a snapshot can come.
#![allow(clippy::unwrap_used, reason = "a test ends with what went wrong")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aedile_log::{Answer, Log, LogError, LogHealth, LogOptions};
use aedile_state::{Command, Value, codec};
use aedile_tests_contract::databases::{Cluster, Database, Kind, Lose, Proxy, Raw};
use aedile_tests_contract::logs::held::{
    HOLD, HOLD_AT_COMMIT, LET_GO, Watching, patient, someone_waits, waiting_since,
};
use aedile_tests_contract::logs::{
    BOUND, clock, create_stream, id, lagging, meta_url, open, propose, put, register, until,
};

/// A client that goes through a proxy, and a plain connection that does not.
struct Line {
    _database: Database,
    proxy: Proxy,
    log: Log,
    raw: Raw,
}

async fn line(options: LogOptions) -> Line {
    let database = Database::create(Kind::Postgres).await.unwrap();
    let (host, port) = database.address().unwrap();
    let proxy = Proxy::start(host, port).await.unwrap();
    let url = database.url_by("127.0.0.1", proxy.port()).unwrap();
    let log = open(&url, options).await.unwrap();
    propose(&log, register()).await;
    let raw = database.raw().await.unwrap();
    Line {
        _database: database,
        proxy,
        log,
        raw,
    }
}

/// How many streams a fresh replay has.
async fn streams(raw: &mut Raw) -> usize {
    raw.read().await.unwrap().state().0.counts().streams
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_is_found_again_and_not_done_twice() {
    let Line {
        proxy,
        log,
        mut raw,
        _database,
    } = line(LogOptions::default()).await;
    for times in 1..=3 {
        let lost = proxy.lost();
        proxy.lose(Lose::Reply, times);
        let before = log.view().state.counts().streams;
        let stream = id(&propose(&log, create_stream()).await);
        assert_eq!(stream, before as u64);
        // The tailer may meet the row before it is sent again.
        assert!(proxy.lost() > lost, "no reply was lost");
        proxy.lose(Lose::Reply, 0);
        assert_eq!(streams(&mut raw).await, before + 1);
    }
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_is_compared_where_the_tailer_did_not_see_the_row() {
    // The tailer looks only when told that an append landed.
    let Line {
        proxy,
        log,
        mut raw,
        _database,
    } = line(lagging()).await;
    proxy.lose(Lose::Reply, 1);
    assert_eq!(id(&propose(&log, create_stream()).await), 0);
    assert_eq!(proxy.lost(), 1);
    assert_eq!(streams(&mut raw).await, 1);
    assert_eq!(raw.last().await.unwrap(), 2);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_request_is_sent_again() {
    let Line {
        proxy,
        log,
        mut raw,
        _database,
    } = line(LogOptions::default()).await;
    proxy.lose(Lose::Request, 2);
    assert_eq!(id(&propose(&log, create_stream()).await), 0);
    assert_eq!(proxy.lost(), 2);
    assert_eq!(streams(&mut raw).await, 1);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_lost_request_another_may_have_taken_the_place() {
    let Line {
        proxy,
        log,
        mut raw,
        _database,
    } = line(lagging()).await;
    proxy.lose(Lose::Request, 1);
    proxy.shut_after_loss();
    let asked = {
        let log = log.clone();
        tokio::spawn(async move { propose(&log, create_stream()).await })
    };
    until("the request is lost", async || {
        proxy.is_shut().then_some(())
    })
    .await;
    raw.append_next(&[create_stream()]).await.unwrap();
    proxy.open();
    assert_eq!(id(&asked.await.unwrap()), 1);
    assert_eq!(streams(&mut raw).await, 2);
    assert_eq!(raw.last().await.unwrap(), 3);
    log.close().await;
}

/// After a lost message the place is covered by a snapshot before it can be
/// looked at: whether the row stood there cannot be told.
async fn covered(what: Lose) {
    let Line {
        proxy,
        log,
        mut raw,
        _database,
    } = line(lagging()).await;
    proxy.lose(what, 1);
    proxy.shut_after_loss();
    let asked = {
        let log = log.clone();
        tokio::spawn(async move { propose(&log, create_stream()).await })
    };
    until("a message is lost", async || proxy.is_shut().then_some(())).await;
    let done = usize::from(what == Lose::Reply);
    assert_eq!(streams(&mut raw).await, done);
    while raw.last().await.unwrap() < 5 {
        raw.append_next(&[put("/other", "x")]).await.unwrap();
    }
    let (state, _) = raw.read().await.unwrap().state();
    raw.store_snapshot(5, &state.encode_snapshot())
        .await
        .unwrap();
    raw.truncate(5).await.unwrap();
    proxy.open();
    assert_eq!(asked.await.unwrap(), Answer::Unknown);
    assert_eq!(streams(&mut raw).await, done, "it was done again");
    // And the client goes on.
    assert_eq!(id(&propose(&log, create_stream()).await), done as u64);
    assert_eq!(log.view().state.counts().streams, done + 1);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_lost_before_a_snapshot_is_answered_as_unknown() {
    covered(Lose::Reply).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_lost_before_a_snapshot_is_answered_as_unknown() {
    covered(Lose::Request).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_proposers_survive_lost_messages() {
    let Line {
        proxy,
        log,
        mut raw,
        _database,
    } = line(LogOptions::default()).await;
    let mut told = Vec::new();
    for round in 0..6 {
        proxy.lose(
            if round % 2 == 0 {
                Lose::Reply
            } else {
                Lose::Request
            },
            1,
        );
        let asked: Vec<_> = (0..32)
            .map(|_| {
                let log = log.clone();
                tokio::spawn(async move { id(&propose(&log, create_stream()).await) })
            })
            .collect();
        for asked in asked {
            told.push(asked.await.unwrap());
        }
    }
    assert_eq!(proxy.lost(), 6);
    told.sort_unstable();
    assert_eq!(told, (0..192).collect::<Vec<_>>());
    assert_eq!(streams(&mut raw).await, 192);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_is_noticed_and_found_again() {
    let options = LogOptions {
        statement_timeout: Duration::from_millis(200),
        connect_timeout: Duration::from_millis(300),
        ..LogOptions::default()
    };
    let Line {
        proxy,
        log,
        mut raw,
        _database,
    } = line(options).await;
    let clock = clock();
    proxy.freeze(true);
    let began = clock.boot();
    let error = log.catch_up(Duration::from_millis(500)).await.unwrap_err();
    assert!(
        matches!(
            error,
            LogError::Timeout { .. } | LogError::Unreachable { .. }
        ),
        "{error}"
    );
    assert!(clock.boot().since(began) < Duration::from_secs(5));
    let error = log.database_now().await.unwrap_err();
    assert!(matches!(error, LogError::Unreachable { .. }), "{error}");
    until("the client says so", async || {
        matches!(*log.health().borrow(), LogHealth::Unreachable { .. }).then_some(())
    })
    .await;
    let asked = {
        let log = log.clone();
        tokio::spawn(async move { propose(&log, create_stream()).await })
    };
    proxy.freeze(false);
    assert_eq!(id(&asked.await.unwrap()), 0);
    until("the client is healthy again", async || {
        (*log.health().borrow() == LogHealth::Healthy).then_some(())
    })
    .await;
    log.database_now().await.unwrap();
    assert_eq!(streams(&mut raw).await, 1);

    // A client that is closed while all hangs ends, too.
    proxy.freeze(true);
    let began = clock.boot();
    log.close().await;
    assert!(clock.boot().since(began) < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proposal_that_cannot_be_sent_is_refused_in_the_end() {
    let options = LogOptions {
        propose_timeout: Duration::from_millis(500),
        connect_timeout: Duration::from_millis(200),
        ..LogOptions::default()
    };
    let Line {
        proxy,
        log,
        mut raw,
        _database,
    } = line(options).await;
    proxy.shut();
    // The first try may have been under way on a connection that was cut, and
    // then nobody knows.
    let first = log.propose(vec![put("/a", "b")]).await;
    assert!(
        matches!(&first, Ok(answers) if *answers == [Answer::Unknown])
            || matches!(first, Err(LogError::NotAppended { .. })),
        "{first:?}"
    );
    let second = log.propose(vec![create_stream()]).await.unwrap_err();
    assert!(matches!(second, LogError::NotAppended { .. }), "{second}");
    proxy.open();
    assert_eq!(id(&propose(&log, create_stream()).await), 0);
    assert_eq!(streams(&mut raw).await, 1);
    log.close().await;
}

/// The indexes of the rows that stand.
async fn rows(raw: &mut Raw) -> Vec<i64> {
    raw.integers("SELECT idx FROM meta_log ORDER BY idx")
        .await
        .unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_between_insert_and_check_rolls_the_append_back() {
    let database = Database::create(Kind::Postgres).await.unwrap();
    a_snapshot_comes_between(&database).await;
}

/// Let a snapshot that covers it, and its truncation, commit between the insert
/// of an append and its check.
async fn a_snapshot_comes_between(database: &Database) {
    let log = open(&database.url(), lagging()).await.unwrap();
    propose(&log, register()).await;
    let (mut raw, mut watch) = (database.raw().await.unwrap(), database.raw().await.unwrap());
    let (mut state, _) = raw.read().await.unwrap().state();
    let _ = state.apply(&create_stream());
    // The insert passes; the check waits for this lock.
    raw.run("BEGIN; LOCK TABLE meta_snapshot IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let asked = {
        let log = log.clone();
        tokio::spawn(async move { propose(&log, create_stream()).await })
    };
    someone_waits(&mut watch).await;
    let payload = hex(&state.encode_snapshot());
    raw.run(&format!(
        "INSERT INTO meta_snapshot (id, applied_idx, payload) VALUES (0, 4, '\\x{payload}'); \
         DELETE FROM meta_log WHERE idx <= 4; COMMIT"
    ))
    .await
    .unwrap();
    // It landed above, and the state is that of the snapshot and its own row.
    assert_eq!(id(&asked.await.unwrap()), 1);
    assert_eq!(rows(&mut raw).await, [5]);
    assert_eq!(log.view().index, 5);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncation_that_the_insert_waited_for_rolls_the_append_back() {
    let database = Database::create(Kind::Postgres).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    let mut watch = database.raw().await.unwrap();
    let log = open(&database.url(), lagging()).await.unwrap();
    propose(&log, register()).await;
    for _ in 0..4 {
        raw.append_next(&[create_stream()]).await.unwrap();
    }
    let (state, _) = raw.read().await.unwrap().state();
    // The snapshot stands; the truncation is under way and not committed.
    let payload = hex(&state.encode_snapshot());
    raw.run(&format!(
        "BEGIN; INSERT INTO meta_snapshot (id, applied_idx, payload) VALUES (0, 5, '\\x{payload}'); \
         DELETE FROM meta_log WHERE idx <= 5"
    ))
    .await
    .unwrap();
    // By all that it has seen its next index is 2: the insert waits whether the
    // row there goes.
    let asked = {
        let log = log.clone();
        tokio::spawn(async move { propose(&log, create_stream()).await })
    };
    someone_waits(&mut watch).await;
    raw.run("COMMIT").await.unwrap();
    assert_eq!(id(&asked.await.unwrap()), 4);
    assert_eq!(rows(&mut raw).await, [6]);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_waits_for_one_that_is_under_way_and_lands_behind_it() {
    let database = Database::create(Kind::Postgres).await.unwrap();
    let log = open(&database.url(), LogOptions::default()).await.unwrap();
    propose(&log, register()).await;
    let (mut raw, mut watch) = (database.raw().await.unwrap(), database.raw().await.unwrap());
    let other = hex(&codec::encode_batch(&[create_stream()]));
    raw.run(&format!(
        "BEGIN; INSERT INTO meta_log (idx, payload) VALUES (2, '\\x{other}')"
    ))
    .await
    .unwrap();
    let asked = {
        let log = log.clone();
        tokio::spawn(async move { propose(&log, create_stream()).await })
    };
    someone_waits(&mut watch).await;
    // No statement waits for ever: it is given up and sent again.
    let first = waiting_since(&mut watch).await;
    until("the append is sent again", async || {
        let now = waiting_since(&mut watch).await;
        (!now.is_empty() && now != first).then_some(())
    })
    .await;
    raw.run("COMMIT").await.unwrap();
    assert_eq!(id(&asked.await.unwrap()), 1);
    assert_eq!(rows(&mut raw).await, [1, 2, 3]);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_transaction_stays_open() {
    let database = Database::create(Kind::Postgres).await.unwrap();
    let log = open(&database.url(), lagging()).await.unwrap();
    propose(&log, register()).await;
    let mut raw = database.raw().await.unwrap();
    // A conflict rolls back: that must not leave one open either.
    for _ in 0..10 {
        raw.append_next(&[put("/k", "v")]).await.unwrap();
        propose(&log, put("/k", "w")).await;
        let open = raw
            .integers(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                 AND state LIKE 'idle in transaction%'",
            )
            .await
            .unwrap();
        assert_eq!(open, [0]);
    }
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_servers_default_isolation_is_the_check_sees_the_snapshot() {
    let database = Database::create(Kind::Postgres).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    raw.run(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = \
         ''repeatable read''', current_database()); END $$",
    )
    .await
    .unwrap();
    a_snapshot_comes_between(&database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_and_starts_loses_nothing() {
    let mut cluster = Cluster::start().await.unwrap();
    let log = open(&cluster.url("postgres"), LogOptions::default())
        .await
        .unwrap();
    propose(&log, register()).await;
    let asked: Vec<_> = (0..8)
        .map(|_| {
            let log = log.clone();
            tokio::spawn(async move {
                let mut told = Vec::new();
                for _ in 0..40 {
                    match log.propose(vec![create_stream()]).await.unwrap().remove(0) {
                        Answer::Unknown => {}
                        answer => told.push(id(&answer)),
                    }
                }
                told
            })
        })
        .collect();
    until("some are done", async || {
        (log.view().index > 5).then_some(())
    })
    .await;
    cluster.stop();
    until("the client says so", async || {
        matches!(*log.health().borrow(), LogHealth::Unreachable { .. }).then_some(())
    })
    .await;
    cluster.restart().await.unwrap();
    let mut told = Vec::new();
    for asked in asked {
        told.extend(asked.await.unwrap());
    }
    let count = told.len();
    told.sort_unstable();
    told.dedup();
    assert_eq!(told.len(), count, "an id was acknowledged twice");
    assert!(count >= 8 * 40 - 8, "{count}");
    let view = log.catch_up(BOUND).await.unwrap();
    assert_eq!(*log.health().borrow(), LogHealth::Healthy);
    let mut raw = Raw::connect(&cluster.url("postgres")).await.unwrap();
    let (state, _) = raw.read().await.unwrap().state();
    assert_eq!(state.encode_snapshot(), view.state.encode_snapshot());
    for stream in told {
        assert!(state.stream(aedile_state::StreamId(stream)).is_some());
    }
    raw.close().await.unwrap();
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_holds_a_file_locked_is_waited_for() {
    let (_database, log, mut raw, waits) = watched().await;
    raw.run("BEGIN IMMEDIATE").await.unwrap();
    let asked = ask(&log);
    sent(&waits).await;
    let other = hex(&codec::encode_batch(&[create_stream()]));
    raw.run(&format!(
        "INSERT INTO meta_log (idx, payload) VALUES (2, x'{other}'); COMMIT"
    ))
    .await
    .unwrap();
    assert_eq!(id(&asked.await.unwrap()), 1);
    assert_eq!(rows(&mut raw).await, [1, 2, 3]);
    log.close().await;
}

/// A client on SQLite of which it is told when its append waits.
async fn watched() -> (Database, Log, Raw, Arc<AtomicUsize>) {
    let database = Database::create(Kind::Sqlite).await.unwrap();
    let clock = Watching::appends();
    let waits = clock.waits();
    let url = meta_url(&database.url());
    let log = Log::open(&url, patient(), Arc::new(clock)).await.unwrap();
    propose(&log, register()).await;
    let raw = database.raw().await.unwrap();
    waits.store(0, Ordering::SeqCst);
    (database, log, raw, waits)
}

/// Wait until an append has been sent.
async fn sent(waits: &AtomicUsize) {
    until("an append waits", async || {
        (waits.load(Ordering::SeqCst) > 0).then_some(())
    })
    .await;
}

/// Propose a stream, in a task of its own.
fn ask(log: &Log) -> tokio::task::JoinHandle<Answer> {
    let log = log.clone();
    tokio::spawn(async move { propose(&log, create_stream()).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_under_the_write_lock_that_an_append_waits_for_sends_it_above() {
    let (_database, log, mut raw, waits) = watched().await;
    for _ in 0..4 {
        raw.append_next(&[create_stream()]).await.unwrap();
    }
    let (state, _) = raw.read().await.unwrap().state();
    let payload = hex(&state.encode_snapshot());
    raw.run("BEGIN IMMEDIATE").await.unwrap();
    // By all that it has seen its next index is 2. The row there goes, and the
    // snapshot that covers it comes, while the append waits for the lock.
    let asked = ask(&log);
    sent(&waits).await;
    raw.run(&format!(
        "INSERT INTO meta_snapshot (id, applied_idx, payload) VALUES (0, 5, x'{payload}'); \
         DELETE FROM meta_log WHERE idx <= 5; COMMIT"
    ))
    .await
    .unwrap();
    assert_eq!(id(&asked.await.unwrap()), 4);
    assert_eq!(rows(&mut raw).await, [6]);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_between_check_and_commit_leaves_the_append_right_behind_it() {
    let database = Database::create(Kind::Postgres).await.unwrap();
    let log = open(&database.url(), patient()).await.unwrap();
    propose(&log, register()).await;
    propose(&log, create_stream()).await;
    let (mut raw, mut watch) = (database.raw().await.unwrap(), database.raw().await.unwrap());
    raw.run(HOLD_AT_COMMIT).await.unwrap();
    raw.run(HOLD).await.unwrap();
    let asked = ask(&log);
    someone_waits(&mut watch).await;
    // All is decided, nothing is committed: nobody else sees the row.
    assert_eq!(rows(&mut watch).await, [1, 2]);
    let (state, _) = watch.read().await.unwrap().state();
    watch
        .store_snapshot(2, &state.encode_snapshot())
        .await
        .unwrap();
    watch.truncate(2).await.unwrap();
    assert!(rows(&mut watch).await.is_empty());
    raw.run(LET_GO).await.unwrap();
    assert_eq!(id(&asked.await.unwrap()), 1);
    assert_eq!(rows(&mut watch).await, [3]);
    assert_eq!(watch.read().await.unwrap().hole(), None);
    assert_eq!(id(&propose(&log, create_stream()).await), 2);
    assert_eq!(*log.health().borrow(), LogHealth::Healthy);
    log.close().await;
}

/// The two of the suite's commands that answers are compared by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proposal_is_all_or_nothing_for_its_row_when_messages_are_lost() {
    let Line {
        proxy,
        log,
        mut raw,
        _database,
    } = line(LogOptions::default()).await;
    proxy.lose(Lose::Reply, 1);
    let commands: Vec<Command> = (0..600).map(|_| create_stream()).collect();
    let answers = log.propose(commands).await.unwrap();
    assert_eq!(proxy.lost(), 1);
    let ids: Vec<u64> = answers.iter().map(id).collect();
    assert_eq!(ids, (0..600).collect::<Vec<_>>());
    assert_eq!(streams(&mut raw).await, 600);
    assert!(matches!(
        propose(&log, put("/k", "v")).await,
        Answer::Applied(applied) if applied.value == Value::Bytes(Some(b"v".to_vec()))
    ));
    log.close().await;
}
