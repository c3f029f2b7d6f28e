//! Appends through the client, beside one transaction per command.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::SharedClock;
use aedile_log::{Log, LogOptions, MetaUrl};
use aedile_state::{Command, codec};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::median::{ROUNDS, clock, median, rate};

/// Commands of each proposer in a round.
const EACH: usize = 200;
/// Commands of the baseline in a round.
const BASELINE: usize = 400;

pub(crate) async fn run() -> anyhow::Result<()> {
    let clock = clock();
    let dir = tempfile::tempdir()?;
    let mut single = Vec::new();
    for round in 0..ROUNDS {
        let path = dir.path().join(format!("baseline-{round}.db"));
        let took = baseline(&clock, &path).await?;
        single.push(rate(BASELINE, took));
    }
    let single = median(single);
    println!("append, SQLite, one transaction per command: {single:.0} commands/s");
    for proposers in [1, 16, 256] {
        let mut rates = Vec::new();
        for round in 0..ROUNDS {
            let path = dir.path().join(format!("log-{proposers}-{round}.db"));
            let took = ours(&clock, MetaUrl::sqlite(path), proposers).await?;
            rates.push(rate(proposers * EACH, took));
        }
        let figure = median(rates);
        println!(
            "append, SQLite, {proposers} proposers: {figure:.0} commands/s, {:.1} times the baseline",
            figure / single
        );
    }
    Ok(())
}

fn command(number: usize) -> Command {
    Command::PutKv {
        key: format!("/bench/{}", number % 1000),
        value: b"value".to_vec(),
    }
}

async fn ours(clock: &SharedClock, url: MetaUrl, proposers: usize) -> anyhow::Result<Duration> {
    let log = Log::open(&url, LogOptions::default(), clock.clone()).await?;
    let start = clock.boot();
    let mut tasks = tokio::task::JoinSet::new();
    for proposer in 0..proposers {
        let log = log.clone();
        tasks.spawn(async move {
            for number in 0..EACH {
                log.propose(vec![command(proposer * EACH + number)]).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let took = clock.boot().since(start);
    log.close().await;
    Ok(took)
}

async fn baseline(clock: &SharedClock, path: &std::path::Path) -> anyhow::Result<Duration> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let pool = SqlitePoolOptions::new()
        .max_connections(1)
        .connect_with(options)
        .await?;
    sqlx::query("CREATE TABLE meta_log (idx INTEGER PRIMARY KEY, payload BLOB NOT NULL)")
        .execute(&pool)
        .await?;
    let start = clock.boot();
    for number in 0..BASELINE {
        let payload: Arc<[u8]> = codec::encode_batch(&[command(number)]).into();
        sqlx::query("INSERT INTO meta_log (payload) VALUES (?1)")
            .bind(payload.to_vec())
            .execute(&pool)
            .await?;
    }
    let took = clock.boot().since(start);
    pool.close().await;
    Ok(took)
}
