//! Fenced appends: a batch lands only while its term stands.
#![allow(clippy::unwrap_used, reason = "a test ends with what went wrong")]

use std::collections::BTreeSet;

use aedile_log::{Answer, Fence, Log, LogOptions};
use aedile_state::{Command, codec};
use aedile_tests_contract::databases::{Database, Kind, Lose, Proxy, Raw};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::logs::held::{HOLD, HOLD_AT_COMMIT, LET_GO, patient, someone_waits};
use aedile_tests_contract::logs::{create_stream, id, open, propose, put, register, until, weak};

for_each_database!(
    it_lands_while_the_term_stands,
    once_the_term_is_over_nothing_lands,
    sliceworkz_176_the_same_owner_at_a_higher_epoch_is_another_term,
    a_named_lease_fences_by_its_own_row,
    what_is_fenced_is_never_lost_with_what_is_not,
);

/// Everybody's lease is held by `a`, at epoch 7, for long.
const HELD: &str = "UPDATE meta_lease SET holder = 'a', epoch = 7, expires_at_ms = 9000000000000";

/// Somebody else takes it.
const TAKEN: &str =
    "UPDATE meta_lease SET holder = 'b', epoch = epoch + 1, expires_at_ms = 9000000000000";

async fn fresh(kind: Kind, options: LogOptions) -> (Database, Log, Raw) {
    let database = Database::create(kind).await.unwrap();
    let log = open(&database.url(), options).await.unwrap();
    propose(&log, register()).await;
    let mut raw = database.raw().await.unwrap();
    raw.run(HELD).await.unwrap();
    (database, log, raw)
}

fn ours() -> Fence {
    Fence::shared("a", 7)
}

async fn fenced(log: &Log, fence: &Fence) -> Answer {
    let answers = log.propose_fenced(vec![create_stream()], fence).await;
    answers.unwrap().remove(0)
}

fn out(answer: &Answer) -> &str {
    match answer {
        Answer::FencedOut(text) => text,
        other => panic!("not fenced out: {other:?}"),
    }
}

async fn it_lands_while_the_term_stands(kind: Kind) {
    let (_database, log, mut raw) = fresh(kind, LogOptions::default()).await;
    for stream in 0..3 {
        assert_eq!(id(&fenced(&log, &ours()).await), stream);
    }
    // A renewal changes nothing.
    raw.run("UPDATE meta_lease SET expires_at_ms = expires_at_ms + 1000")
        .await
        .unwrap();
    assert_eq!(id(&fenced(&log, &ours()).await), 3);
    // As many rows as it takes, all of them or none.
    let many = log
        .propose_fenced(vec![create_stream(); 600], &ours())
        .await;
    assert_eq!(many.unwrap().len(), 600);
    log.close().await;
}

async fn once_the_term_is_over_nothing_lands(kind: Kind) {
    for (over, says) in [
        (TAKEN, "holder b, epoch 8"),
        // Released, and run out by the database's clock: anybody may take it.
        ("UPDATE meta_lease SET expires_at_ms = 0", "expiry 0"),
        ("UPDATE meta_lease SET expires_at_ms = 1000", "expiry 1000"),
        ("DELETE FROM meta_lease", "nothing"),
    ] {
        let (_database, log, mut raw) = fresh(kind, LogOptions::default()).await;
        assert_eq!(id(&fenced(&log, &ours()).await), 0);
        raw.run(over).await.unwrap();
        let last = raw.last().await.unwrap();
        let answer = fenced(&log, &ours()).await;
        let text = out(&answer);
        assert!(text.contains("fenced out") && text.contains(says), "{text}");
        let many = log
            .propose_fenced(vec![create_stream(); 600], &ours())
            .await;
        for answer in many.unwrap() {
            out(&answer);
        }
        assert_eq!(raw.last().await.unwrap(), last, "{over}: something landed");
        // Without the fence the stale write lands.
        assert_eq!(id(&propose(&log, create_stream()).await), 1);
        log.close().await;
    }
}

async fn sliceworkz_176_the_same_owner_at_a_higher_epoch_is_another_term(kind: Kind) {
    let (_database, log, mut raw) = fresh(kind, LogOptions::default()).await;
    raw.run("UPDATE meta_lease SET epoch = 8").await.unwrap();
    let answer = fenced(&log, &ours()).await;
    assert!(out(&answer).contains("holder a, epoch 8"), "{answer:?}");
    assert_eq!(id(&fenced(&log, &Fence::shared("a", 8)).await), 0);
    log.close().await;
}

async fn a_named_lease_fences_by_its_own_row(kind: Kind) {
    let (_database, log, mut raw) = fresh(kind, LogOptions::default()).await;
    // Names are what people write.
    let odd = "it's $check$ \\ \u{1F642}; DROP TABLE meta_log";
    let quoted = odd.replace('\'', "''");
    raw.run(&format!(
        "INSERT INTO aedile_lease (name, holder, epoch, expires_at_ms) \
         VALUES ('{quoted}', '{quoted}', 3, 9000000000000)"
    ))
    .await
    .unwrap();
    let named = Fence::named(odd, odd, 3);
    assert_eq!(id(&fenced(&log, &named).await), 0);
    out(&fenced(&log, &Fence::named("other", odd, 3)).await);
    out(&fenced(&log, &Fence::shared(odd, 3)).await);
    raw.run("UPDATE aedile_lease SET epoch = 4").await.unwrap();
    out(&fenced(&log, &named).await);
    // The shared one is not concerned.
    assert_eq!(id(&fenced(&log, &ours()).await), 1);
    log.close().await;
}

async fn what_is_fenced_is_never_lost_with_what_is_not(kind: Kind) {
    let (_database, log, mut raw) = fresh(kind, patient()).await;
    // Everything that is proposed while the log is locked is packed at once.
    raw.run(match kind {
        Kind::Sqlite => "BEGIN IMMEDIATE",
        Kind::Postgres => "BEGIN; LOCK TABLE meta_log IN EXCLUSIVE MODE",
    })
    .await
    .unwrap();
    let stale = Fence::shared("a", 6);
    let asked: Vec<_> = (0..60)
        .map(|number| {
            let (log, stale) = (log.clone(), stale.clone());
            tokio::spawn(async move {
                let command = put(&format!("/{number}"), "x");
                match number % 3 {
                    0 => log.propose(vec![command]).await,
                    1 => log.propose_fenced(vec![command], &ours()).await,
                    _ => log.propose_fenced(vec![command], &stale).await,
                }
            })
        })
        .collect();
    raw.run("COMMIT").await.unwrap();
    for (number, asked) in asked.into_iter().enumerate() {
        let answer = asked.await.unwrap().unwrap().remove(0);
        match number % 3 {
            2 => drop(out(&answer)),
            _ => assert!(matches!(answer, Answer::Applied(_)), "{number}: {answer:?}"),
        }
    }
    // No row holds both kinds.
    for (index, payload) in raw.read().await.unwrap().rows {
        let kinds: BTreeSet<u32> = codec::decode_batch(&payload)
            .unwrap()
            .iter()
            .filter_map(|command| match command {
                Command::PutKv { key, .. } => key.strip_prefix('/')?.parse::<u32>().ok(),
                _ => None,
            })
            .map(|number| number % 3)
            .collect();
        assert!(kinds.len() <= 1, "row {index} mixes {kinds:?}");
        assert!(!kinds.contains(&2), "row {index} is of a term that is over");
    }
    log.close().await;
}

fn ask(log: &Log) -> tokio::task::JoinHandle<Answer> {
    let log = log.clone();
    tokio::spawn(async move { fenced(&log, &ours()).await })
}

/// A takeover is under way when the row is inserted: what it comes to decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_that_the_fence_waited_for_is_seen_on_postgres() {
    for takes in [true, false] {
        let (database, log, mut raw) = fresh(Kind::Postgres, patient()).await;
        let mut watch = database.raw().await.unwrap();
        raw.run(&format!("BEGIN; {TAKEN}")).await.unwrap();
        let asked = ask(&log);
        someone_waits(&mut watch).await;
        raw.run(if takes { "COMMIT" } else { "ROLLBACK" })
            .await
            .unwrap();
        let answer = asked.await.unwrap();
        let last = watch.last().await.unwrap();
        if takes {
            assert!(out(&answer).contains("holder b, epoch 8"), "{answer:?}");
            assert_eq!(last, 1);
        } else {
            assert_eq!((id(&answer), last), (0, 2));
        }
        log.close().await;
    }
}

/// Wait until a takeover waits for a lock.
async fn a_takeover_waits(raw: &mut Raw) {
    until("a takeover waits", async || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                   AND wait_event_type = 'Lock' AND query LIKE 'UPDATE meta_lease%'";
        (raw.integers(sql).await.unwrap() == [1]).then_some(())
    })
    .await;
}

/// Once the fence was read, no takeover comes before the row does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_after_the_fence_was_read_comes_after_the_row_on_postgres() {
    let (database, log, mut raw) = fresh(Kind::Postgres, patient()).await;
    let (mut watch, mut other) = (database.raw().await.unwrap(), database.raw().await.unwrap());
    raw.run(HOLD_AT_COMMIT).await.unwrap();
    raw.run(HOLD).await.unwrap();
    let asked = ask(&log);
    someone_waits(&mut watch).await;
    let takeover = tokio::spawn(async move { other.run(TAKEN).await });
    a_takeover_waits(&mut watch).await;
    raw.run(LET_GO).await.unwrap();
    assert_eq!(id(&asked.await.unwrap()), 0);
    takeover.await.unwrap().unwrap();
    out(&fenced(&log, &ours()).await);
    log.close().await;

    // Weak: read without a lock, the takeover commits first and the row behind it.
    let mut weak = database.raw().await.unwrap();
    raw.run(HELD).await.unwrap();
    let row = codec::encode_batch(&[create_stream()]);
    weak.run("BEGIN").await.unwrap();
    weak.run(&weak::plain(Kind::Postgres, 3, &row))
        .await
        .unwrap();
    assert_eq!(weak.integers(&weak::standing("a", 7)).await.unwrap(), [1]);
    raw.run(TAKEN).await.unwrap();
    weak.run("COMMIT").await.unwrap();
    assert_eq!(raw.last().await.unwrap(), 3, "the weaker fence held");
}

/// Yuzu #4015: a fence that is read in an old view admits the stale holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn yuzu_4015_an_old_view_admits_the_stale_holder_on_postgres() {
    let (database, log, mut raw) = fresh(Kind::Postgres, LogOptions::default()).await;
    let mut weak = database.raw().await.unwrap();
    let row = codec::encode_batch(&[create_stream()]);
    weak.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM meta_lease")
        .await
        .unwrap();
    raw.run(TAKEN).await.unwrap();
    weak.run(&weak::plain(Kind::Postgres, 2, &row))
        .await
        .unwrap();
    assert_eq!(weak.integers(&weak::standing("a", 7)).await.unwrap(), [1]);
    weak.run("COMMIT").await.unwrap();
    assert_eq!(raw.last().await.unwrap(), 2, "the stale write did not land");
    // With the lock the same transaction is refused.
    raw.run(HELD).await.unwrap();
    weak.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM meta_lease")
        .await
        .unwrap();
    raw.run(TAKEN).await.unwrap();
    let locked = "SELECT epoch FROM meta_lease WHERE id = 0 AND epoch = 7 FOR SHARE";
    weak.integers(locked).await.unwrap_err();
    weak.run("ROLLBACK").await.unwrap();
    // And the client does not depend on what the server's default is.
    log.close().await;
    raw.run(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = \
         ''repeatable read''', current_database()); END $$",
    )
    .await
    .unwrap();
    let log = open(&database.url(), patient()).await.unwrap();
    let mut watch = database.raw().await.unwrap();
    raw.run(HELD).await.unwrap();
    raw.run(&format!("BEGIN; {TAKEN}")).await.unwrap();
    let asked = ask(&log);
    someone_waits(&mut watch).await;
    raw.run("COMMIT").await.unwrap();
    assert!(out(&asked.await.unwrap()).contains("holder b"));
    assert_eq!(raw.last().await.unwrap(), 2);
    log.close().await;
}

/// What landed before the term was over is told as what it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_before_a_takeover_is_found_again() {
    for (lose, landed) in [(Lose::Reply, true), (Lose::Request, false)] {
        let database = Database::create(Kind::Postgres).await.unwrap();
        let (host, port) = database.address().unwrap();
        let proxy = Proxy::start(host, port).await.unwrap();
        let url = database.url_by("127.0.0.1", proxy.port()).unwrap();
        let log = open(&url, patient()).await.unwrap();
        propose(&log, register()).await;
        let mut raw = database.raw().await.unwrap();
        raw.run(HELD).await.unwrap();
        proxy.lose(lose, 1);
        proxy.shut_after_loss();
        let asked = ask(&log);
        until("a message is lost", async || proxy.is_shut().then_some(())).await;
        raw.run(TAKEN).await.unwrap();
        proxy.open();
        let answer = asked.await.unwrap();
        if landed {
            assert_eq!(id(&answer), 0);
        } else {
            out(&answer);
        }
        let last = raw.last().await.unwrap();
        assert_eq!(last, if landed { 2 } else { 1 });
        log.close().await;
    }
}
