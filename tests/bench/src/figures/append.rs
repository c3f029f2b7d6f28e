//! Appends by many proposers.

use aedile_log::{Answer, Log, LogOptions};
use aedile_state::{Command, Outcome};
use aedile_tests_contract::databases::{Database, Kind};
use tokio::task::JoinSet;

use crate::measure::{alternate, rate};
use crate::waiting::Waiting;
use crate::{Bar, Context, Figure, Unit};

pub(super) const ABOUT: &str = "Each proposer appends one command and waits for its answer before \
the next; what they propose at the same time shares rows. The baseline is a client that waits \
until its row is applied before it sends the next, written with the same SQL crate, its pool \
warm, alone on its database and without any check. PicoMQ's own reach 1 990, 15 400 and 132 000 \
commands/s on SQLite and 1 530, 12 400 and 99 000 on PostgreSQL.";

pub(super) async fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (name, kind) in [("SQLite", Kind::Sqlite), ("PostgreSQL", Kind::Postgres)] {
        for (proposers, each, bar) in [
            (1, context.size(1_000, 200, 3), 1.0),
            // Above it, not just no worse.
            (16, context.size(500, 100, 3), 1.001),
            (256, context.size(400, 60, 2), 1.0),
        ] {
            let count = proposers * each;
            let (product, baseline) = alternate(
                context.rounds,
                async || {
                    let database = Database::create(kind).await?;
                    Ok(rate(
                        count,
                        ours(context, &database, proposers, each).await?,
                    ))
                },
                async || {
                    let database = Database::create(kind).await?;
                    Ok(rate(
                        count,
                        waiting(context, &database, proposers, each).await?,
                    ))
                },
            )
            .await?;
            figures.push(
                Figure::new(
                    format!("{name}, {proposers} proposers"),
                    Unit::PerSecond("commands"),
                    product,
                )
                .beside("a client that waits", baseline)
                .must(Bar::RatioAtLeast(bar)),
            );
        }
    }
    Ok(figures)
}

/// A command that changes the state.
fn command(proposer: usize, number: usize) -> Command {
    Command::PutKv {
        key: format!("/bench/{proposer}/{}", number % 100),
        value: number.to_le_bytes().to_vec(),
    }
}

async fn ours(
    context: &Context,
    database: &Database,
    proposers: usize,
    each: usize,
) -> anyhow::Result<std::time::Duration> {
    let url = database.url().parse()?;
    let log = Log::open(&url, LogOptions::default(), context.clock.clone()).await?;
    // The first append makes the connections.
    log.propose(vec![command(proposers, 0)]).await?;
    let began = context.now();
    let mut tasks = JoinSet::new();
    for proposer in 0..proposers {
        let log = log.clone();
        tasks.spawn(async move {
            for number in 0..each {
                let answers = log.propose(vec![command(proposer, number)]).await?;
                let [Answer::Applied(_)] = &answers[..] else {
                    anyhow::bail!("answered {answers:?}");
                };
            }
            anyhow::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let took = context.since(began);
    log.close().await;
    Ok(took)
}

async fn waiting(
    context: &Context,
    database: &Database,
    proposers: usize,
    each: usize,
) -> anyhow::Result<std::time::Duration> {
    let client = Waiting::open(&database.url()).await?;
    client.proposer().propose(command(proposers, 0)).await?.ok();
    let began = context.now();
    let mut tasks = JoinSet::new();
    for proposer in 0..proposers {
        let client = client.proposer();
        tasks.spawn(async move {
            for number in 0..each {
                let outcome: Outcome = client.propose(command(proposer, number)).await?;
                anyhow::ensure!(outcome.is_ok(), "answered {outcome:?}");
            }
            anyhow::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let took = context.since(began);
    client.close().await?;
    Ok(took)
}
