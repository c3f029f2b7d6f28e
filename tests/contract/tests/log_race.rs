//! Two clients on one database, under load, with snapshots and truncation.
#![allow(clippy::unwrap_used, reason = "a test ends with what went wrong")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use aedile_log::{Answer, Log, LogOptions};
use aedile_state::{Changes, Command, Value, codec};
use aedile_tests_contract::databases::{Database, Kind, Raw};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::logs::{
    BOUND, clock, create_stream, id, open, prepare, propose, register, until,
};

/// Proposers on each client.
const PROPOSERS: usize = 32;

/// How long they propose. `AEDILE_LONG=1` runs the whole time of the project's
/// own bound, 12 s.
fn span() -> Duration {
    if std::env::var_os("AEDILE_LONG").is_some_and(|value| value == "1") {
        Duration::from_secs(12)
    } else {
        Duration::from_secs(4)
    }
}

for_each_database!(
    two_clients_with_snapshots_every_64_rows_and_no_tail,
    two_clients_with_snapshots_every_64_rows,
    two_clients_with_snapshots_every_1024_rows,
);

/// What a proposer was told.
#[derive(Debug, Default)]
struct Told {
    streams: Vec<u64>,
    /// First ids and their count.
    objects: Vec<(u64, u32)>,
    unknown: usize,
}

async fn proposer(log: Log, number: u64, stop: Arc<AtomicBool>) -> Told {
    let mut told = Told::default();
    let mut turn = number;
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        let count = u32::try_from(turn % 3).unwrap() + 1;
        let (command, stream) = if turn.is_multiple_of(2) {
            (create_stream(), true)
        } else {
            (prepare(count, 3_600_000), false)
        };
        match propose(&log, command).await {
            Answer::Unknown => told.unknown += 1,
            answer if stream => told.streams.push(id(&answer)),
            answer => told.objects.push((id(&answer), count)),
        }
    }
    told
}

/// Every row that ever stood, as a poller on its own connection sees them.
#[derive(Debug, Default)]
struct Seen {
    looks: usize,
    snapshots: i64,
    moved: usize,
    rows: HashMap<i64, Vec<u8>>,
}

async fn poll(mut raw: Raw, stop: Arc<AtomicBool>, moved: Arc<AtomicUsize>) -> Seen {
    let mut seen = Seen::default();
    let mut last = 0;
    loop {
        let ends = stop.load(Ordering::SeqCst);
        let held = raw.read().await.expect("a look");
        assert_eq!(held.hole(), None, "a hole was visible");
        assert!(held.last() >= last, "the log went back");
        last = held.last();
        let snapshot = held.snapshot.as_ref().map_or(0, |(index, _)| *index);
        assert!(snapshot >= seen.snapshots);
        seen.moved += usize::from(snapshot > seen.snapshots);
        moved.store(seen.moved, Ordering::SeqCst);
        seen.snapshots = snapshot;
        seen.looks += 1;
        for (index, payload) in held.rows {
            // What stood once stands unchanged.
            let first = seen.rows.entry(index).or_insert_with(|| payload.clone());
            assert_eq!(*first, payload, "row {index} changed");
        }
        if ends {
            return seen;
        }
        tokio::task::yield_now().await;
    }
}

/// Rows without commands, so that snapshots begin to be due soon.
async fn prefill(database: &Database, rows: i64) {
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    let empty = match database.kind() {
        Kind::Sqlite => "x'0000000000'",
        Kind::Postgres => "'\\x0000000000'::bytea",
    };
    raw.run(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) \
         INSERT INTO meta_log (idx, payload) SELECT i, {empty} FROM n"
    ))
    .await
    .unwrap();
}

/// What must hold of two clients that propose at once.
async fn race(kind: Kind, every: u64, tail: u64) {
    let database = Database::create(kind).await.unwrap();
    prefill(&database, i64::try_from(every).unwrap() - 50).await;
    let options = LogOptions {
        snapshot_every: Some(every),
        snapshot_tail: tail,
        ..LogOptions::default()
    };
    let first = open(&database.url(), options.clone()).await.unwrap();
    let second = open(&database.url(), options).await.unwrap();
    propose(&first, register()).await;
    second.catch_up(BOUND).await.unwrap();

    let stop = Arc::new(AtomicBool::new(false));
    let moved = Arc::new(AtomicUsize::new(0));
    let poller = database.raw().await.unwrap();
    let poller = tokio::spawn(poll(poller, stop.clone(), moved.clone()));
    let proposers: Vec<_> = (0..PROPOSERS as u64)
        .flat_map(|number| {
            [(&first, number), (&second, number + 7)]
                .map(|(log, number)| tokio::spawn(proposer(log.clone(), number, stop.clone())))
        })
        .collect();
    let due = if every > 64 { 1 } else { 3 };
    let least = clock().boot() + span();
    until("time and snapshots have passed", async || {
        let passed = clock().boot() >= least && moved.load(Ordering::SeqCst) >= due;
        passed.then_some(())
    })
    .await;
    stop.store(true, Ordering::SeqCst);
    let mut told = Told::default();
    let mut least = usize::MAX;
    for proposer in proposers {
        let one = proposer.await.unwrap();
        least = least.min(one.streams.len() + one.objects.len());
        told.streams.extend(one.streams);
        told.objects.extend(one.objects);
        told.unknown += one.unknown;
    }
    let seen = poller.await.unwrap();
    let (a, b) = tokio::join!(first.catch_up(BOUND), second.catch_up(BOUND));
    let (a, b) = (a.unwrap(), b.unwrap());
    first.close().await;
    second.close().await;

    // No id twice.
    let streams = told.streams.len();
    told.streams.sort_unstable();
    told.streams.dedup();
    assert_eq!(
        told.streams.len(),
        streams,
        "a stream id was acknowledged twice"
    );
    told.objects.sort_unstable();
    for pair in told.objects.windows(2) {
        let ((first, count), (next, _)) = (pair[0], pair[1]);
        assert!(
            first + u64::from(count) <= next,
            "object id {next} was acknowledged twice"
        );
    }

    // Every acknowledged command is in a fresh replay, and the states agree.
    let mut raw = database.raw().await.unwrap();
    let held = raw.read().await.unwrap();
    let (state, _) = held.state();
    assert_eq!(held.last(), i64::try_from(a.index).unwrap());
    assert_eq!(a.index, b.index);
    let encoded = state.encode_snapshot();
    assert!(
        a.state.encode_snapshot() == encoded,
        "a client differs from a fresh replay"
    );
    assert!(
        b.state.encode_snapshot() == encoded,
        "a client differs from a fresh replay"
    );
    for stream in &told.streams {
        let stream = aedile_state::StreamId(*stream);
        assert!(
            state.stream(stream).is_some(),
            "stream {stream} was acknowledged and lost"
        );
    }
    for (first, count) in &told.objects {
        for object in *first..first + u64::from(*count) {
            let object = aedile_state::ObjectId(object);
            assert!(
                state.is_reserved(object),
                "object {object} was acknowledged and lost"
            );
        }
    }
    // A reply was never lost here, so each command that stands was answered.
    let unanswered = state.counts().streams - told.streams.len();
    assert!(unanswered <= told.unknown, "{unanswered} {told:?}");

    // The run was one that could have failed.
    assert!(least > 0, "a proposer starved");
    assert!(seen.looks > 20, "{} looks", seen.looks);
    let snapshot = held.snapshot.expect("a snapshot").0;
    // Asked for by name: a snapshot at the tip with no tail leaves no row at all.
    let first_row = raw
        .integers("SELECT idx FROM meta_log WHERE idx = 1")
        .await
        .unwrap();
    assert!(
        first_row.is_empty() || snapshot <= i64::try_from(tail).unwrap(),
        "nothing was truncated"
    );
    eprintln!(
        "{kind:?}, a snapshot every {every} rows, tail {tail}: {} commands in {} rows, \
         {} unknown, {} looks, {} snapshots seen",
        streams + told.objects.len(),
        a.index,
        told.unknown,
        seen.looks,
        seen.moved,
    );
    // And every row that the poller ever saw says what was acknowledged.
    let mut rows: Vec<_> = seen.rows.into_iter().collect();
    rows.sort_unstable_by_key(|(index, _)| *index);
    if rows.first().is_some_and(|(index, _)| *index == 1) && rows.len() as u64 == a.index {
        replay_whole(&rows, &told, &encoded);
    }
}

/// The poller saw every row: the whole history gives the same state.
fn replay_whole(rows: &[(i64, Vec<u8>)], told: &Told, encoded: &[u8]) {
    let mut state = aedile_state::State::new();
    let mut streams = 0;
    for (_, payload) in rows {
        for command in codec::decode_batch(payload).unwrap() {
            let outcome = state.apply(&command);
            if matches!(command, Command::CreateStream { .. }) {
                let applied = outcome.unwrap();
                assert_ne!(applied.changes, Changes::None);
                assert!(matches!(applied.value, Value::Id(_)));
                streams += 1;
            }
        }
    }
    assert!(streams >= told.streams.len());
    assert!(
        state.encode_snapshot() == encoded,
        "the whole history gives another state"
    );
}

async fn two_clients_with_snapshots_every_64_rows_and_no_tail(kind: Kind) {
    // As PicoMQ truncates: at the tip.
    race(kind, 64, 0).await;
}

async fn two_clients_with_snapshots_every_64_rows(kind: Kind) {
    race(kind, 64, 64).await;
}

async fn two_clients_with_snapshots_every_1024_rows(kind: Kind) {
    race(kind, 1024, 1024).await;
}
