//! Yesterday's database is restored while clients run: log and snapshot go back
//! together.
#![allow(clippy::unwrap_used, reason = "a test ends with what went wrong")]

use std::collections::BTreeSet;

use aedile_log::{Answer, Log, LogError, LogHealth, LogOptions};
use aedile_tests_contract::databases::{Database, Kind, Raw};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::logs::{
    BOUND, create_stream, id, lagging, open, propose, put, register, until,
};

for_each_database!(
    everybody_who_was_there_stops_and_answers_no_lost_id_again,
    a_restored_log_that_has_grown_past_a_client_is_not_followed,
    what_is_appended_to_another_history_is_not_answered,
);

/// Keep what the tables hold now.
const BACKUP: &str = "CREATE TABLE kept_log AS SELECT * FROM meta_log; \
     CREATE TABLE kept_snapshot AS SELECT * FROM meta_snapshot";

/// Put it back, as one, with nobody at the tables meanwhile: as a tool that
/// restores them has them.
fn restore(kind: Kind) -> String {
    let begin = match kind {
        Kind::Sqlite => "BEGIN IMMEDIATE",
        Kind::Postgres => "BEGIN; LOCK TABLE meta_log, meta_snapshot IN ACCESS EXCLUSIVE MODE",
    };
    format!(
        "{begin}; DELETE FROM meta_log; DELETE FROM meta_snapshot; \
         INSERT INTO meta_log SELECT * FROM kept_log; \
         INSERT INTO meta_snapshot SELECT * FROM kept_snapshot; COMMIT"
    )
}

/// A snapshot of everything, the log cut at it.
async fn snapshot(raw: &mut Raw) {
    let at = raw.last().await.unwrap();
    let (state, _) = raw.read().await.unwrap().state();
    assert!(
        raw.store_snapshot(at, &state.encode_snapshot())
            .await
            .unwrap()
    );
    raw.truncate(at).await.unwrap();
}

async fn stopped(log: &Log) -> LogHealth {
    until("the client notices", async || {
        Some(log.health().borrow().clone()).filter(LogHealth::has_stopped)
    })
    .await
}

async fn everybody_who_was_there_stops_and_answers_no_lost_id_again(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let holder = open(&database.url(), LogOptions::default()).await.unwrap();
    let follower = open(&database.url(), LogOptions::default()).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    propose(&holder, register()).await;
    let mut told = BTreeSet::new();
    for _ in 0..3 {
        assert!(told.insert(id(&propose(&holder, create_stream()).await)));
    }
    snapshot(&mut raw).await;
    raw.run(BACKUP).await.unwrap();
    for _ in 0..5 {
        assert!(told.insert(id(&propose(&holder, create_stream()).await)));
    }
    snapshot(&mut raw).await;
    holder.catch_up(BOUND).await.unwrap();
    follower.catch_up(BOUND).await.unwrap();

    // Proposals go on while it is put back: each is answered an id that nobody
    // had, or an error.
    let asked = {
        let holder = holder.clone();
        tokio::spawn(async move {
            let mut ids = Vec::new();
            loop {
                match holder.propose(vec![create_stream()]).await {
                    Ok(answers) => match &answers[..] {
                        [Answer::Unknown] => {}
                        [answer] => ids.push(id(answer)),
                        other => panic!("{other:?}"),
                    },
                    Err(error) => return (ids, error),
                }
            }
        })
    };
    raw.run(&restore(kind)).await.unwrap();
    for log in [&holder, &follower] {
        let health = stopped(log).await;
        assert!(matches!(health, LogHealth::WentBack { .. }), "{health}");
        assert!(health.to_string().contains("went back"), "{health}");
    }
    let (ids, error) = asked.await.unwrap();
    assert!(matches!(error, LogError::Stopped(_)), "{error}");
    for id in ids {
        assert!(told.insert(id), "stream {id} was answered twice");
    }
    // Nothing was added to yesterday's log, by neither.
    assert_eq!(raw.last().await.unwrap(), 4);
    follower
        .propose(vec![put("/k", "v")])
        .await
        .expect_err("a follower goes on");
    holder.close().await;
    follower.close().await;
}

async fn a_restored_log_that_has_grown_past_a_client_is_not_followed(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let log = open(&database.url(), lagging()).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    propose(&log, register()).await;
    snapshot(&mut raw).await;
    raw.run(BACKUP).await.unwrap();
    let lost: Vec<u64> = {
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(id(&propose(&log, create_stream()).await));
        }
        ids
    };
    assert_eq!(log.view().index, 4);
    raw.run(&restore(kind)).await.unwrap();
    // Others go on in yesterday's log, past where this client is, and their
    // snapshot leaves no row: what is there looks like any peer's.
    for number in 0..6 {
        raw.append_next(&[put("/other", &number.to_string())])
            .await
            .unwrap();
    }
    raw.append_next(&[create_stream()]).await.unwrap();
    snapshot(&mut raw).await;
    assert!(raw.last().await.unwrap() > 4);
    let error = log.catch_up(BOUND).await.unwrap_err();
    assert!(matches!(error, LogError::Diverged(_)), "{error}");
    let health = stopped(&log).await;
    assert!(
        matches!(&health, LogHealth::Diverged { section, .. } if section == "next stream id"),
        "{health}"
    );
    // The ids that were lost with the rows are not handed out by this client.
    let error = log.propose(vec![create_stream()]).await.unwrap_err();
    assert!(matches!(error, LogError::Diverged(_)), "{error}");
    assert_eq!(lost, [0, 1, 2]);
    assert_eq!(log.view().state.counts().streams, 3);
    log.close().await;
}

/// A log of the same length whose last row is another's: the append finds its
/// place free, and what it brings back tells.
async fn what_is_appended_to_another_history_is_not_answered(kind: Kind) {
    let database = Database::create(kind).await.unwrap();
    let log = open(&database.url(), lagging()).await.unwrap();
    let mut raw = database.raw().await.unwrap();
    propose(&log, register()).await;
    for _ in 0..3 {
        propose(&log, create_stream()).await;
    }
    let last = raw.last().await.unwrap();
    raw.run(&format!(
        "UPDATE meta_log SET payload = (SELECT payload FROM meta_log WHERE idx = {last} - 1) \
         WHERE idx = {last}"
    ))
    .await
    .unwrap();
    let error = log.propose(vec![create_stream()]).await.unwrap_err();
    assert!(matches!(error, LogError::Stopped(_)), "{error}");
    let health = stopped(&log).await;
    assert!(matches!(health, LogHealth::WentBack { .. }), "{health}");
    assert_eq!(log.view().state.counts().streams, 3);
    log.close().await;
}
