//! How long nobody leads: after a release, and after a crash.

use std::sync::Arc;
use std::time::Duration;

use aedile_lease::{Keeper, Leadership, LeaseName, LeaseOptions, Term};
use aedile_tests_contract::databases::{Database, Kind};
use anyhow::Context as _;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::polling::Polling;
use crate::{Bar, Context, Figure, Samples, Unit};

pub(super) const ABOUT: &str = "Two contenders for each of several leases on PostgreSQL; one \
releases, or its process dies without a word, and the time runs until the other holds. The \
baseline looks at its row every quarter of the TTL, as PicoMQ's nodes do; theirs take 10 / 706 / \
2 072 ms (lowest, median, highest) after a release and 8.9 / 9.5 / 11.0 s after a crash, at the \
TTL of 10 s.";

/// Longest wait for a term.
const LIMIT: Duration = Duration::from_secs(60);

/// How the holder goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Release,
    Crash,
}

pub(super) async fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let second = Duration::from_secs(1);
    // TTLs in seconds: a short one for many rounds, and the default.
    let short = context.size(2, 2, 1) as u32;
    let default = context.size(10, 10, 2) as u32;
    let mut figures = Vec::new();
    for (ttl, leases, rounds) in [
        (
            short * second,
            context.size(10, 6, 1),
            context.size(10, 2, 1),
        ),
        (
            default * second,
            context.size(10, 6, 1),
            context.size(2, 1, 1),
        ),
    ] {
        for end in [End::Release, End::Crash] {
            figures.push(figure(context, ttl, end, leases, rounds).await?);
        }
    }
    Ok(figures)
}

async fn figure(
    context: &Context,
    ttl: Duration,
    end: End,
    leases: usize,
    rounds: usize,
) -> anyhow::Result<Figure> {
    let database = Database::create(Kind::Postgres).await?;
    let url = database.url();
    let polling = Polling::new(url.clone(), context.clock.clone(), ttl).await?;
    let polling = Arc::new(polling);
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    let mut id = 0;
    for _ in 0..rounds {
        let mut tasks = JoinSet::new();
        for lease in 0..leases {
            id += 1;
            // Holders go at different moments between two renewals.
            let after = ttl / 4 + ttl / 4 * lease as u32 / leases as u32;
            let options = |node: &str| {
                let mut options = LeaseOptions::new(&url, node).with_ttl(ttl);
                options.margin = (ttl / 10).max(Duration::from_millis(200));
                options.name = LeaseName::Named(format!("bench-{id}"));
                options
            };
            let (holder, follower) = (options("holder"), options("follower"));
            let (own, polling) = (context.clone(), polling.clone());
            tasks.spawn(async move {
                let product = handover(&own, holder, follower, after, end);
                let baseline = polling.handover(id, after, end == End::Release);
                tokio::try_join!(product, baseline)
            });
        }
        while let Some(task) = tasks.join_next().await {
            let (product, baseline) = task??;
            ours.push(product);
            theirs.push(baseline);
        }
    }
    let seconds = ttl.as_secs();
    let (what, bar) = match end {
        End::Release => ("after a release", Bar::P99AtMost(150.0, "")),
        End::Crash => (
            "after a crash",
            Bar::P99AtMost(ttl.as_millis() as f64 + 300.0, "TTL + 300 ms"),
        ),
    };
    Ok(
        Figure::new(format!("{what}, TTL {seconds} s"), Unit::Milliseconds, ours)
            .beside("a contender that polls", theirs)
            .must(bar),
    )
}

/// The milliseconds from the holder's end to the follower's term.
async fn handover(
    context: &Context,
    holder: LeaseOptions,
    follower: LeaseOptions,
    after: Duration,
    end: End,
) -> anyhow::Result<f64> {
    let clock = &context.clock;
    let first = Keeper::start(holder, clock.clone())?;
    first.set_eligible(Ok(()));
    let term = term(context, first.leadership()).await?;
    let second = Keeper::start(follower, clock.clone())?;
    second.set_eligible(Ok(()));
    let mut seen = second.leadership();
    let follows = seen.wait_for(|now| matches!(now, Leadership::Follower { seen: Some(_) }));
    let follows = clock.timeout(LIMIT, follows).await;
    follows.context("the follower sees the row")??;
    clock.sleep(after).await;
    let gone = clock.boot();
    let took = match end {
        End::Release => {
            // A released holder contends again; it must not win.
            first.set_eligible(Err("it hands over".to_owned()));
            let release = first.release(&term);
            let (taken, ()) = tokio::join!(self::term(context, second.leadership()), release);
            taken?;
            clock.boot().since(gone)
        }
        End::Crash => {
            drop(first);
            self::term(context, second.leadership()).await?;
            let took = clock.boot().since(gone);
            second.stop().await;
            return Ok(took.as_secs_f64() * 1000.0);
        }
    };
    first.stop().await;
    second.stop().await;
    Ok(took.as_secs_f64() * 1000.0)
}

/// Wait for a term.
async fn term(
    context: &Context,
    mut leadership: watch::Receiver<Leadership>,
) -> anyhow::Result<Term> {
    let held = leadership.wait_for(|now| now.holding().is_some());
    let held = context.clock.timeout(LIMIT, held).await;
    let held = held.context("a term")??;
    let (term, _) = held.holding().context("a term")?;
    Ok(term.clone())
}
