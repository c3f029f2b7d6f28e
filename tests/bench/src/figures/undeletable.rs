//! One object in a hundred that cannot be deleted.

use std::time::Duration;

use aedile_storage::Store;

use crate::cleaning::{Queue, Way};
use crate::measure::alternate;
use crate::stores::{Bucket, Files};
use crate::{Bar, Context, Figure, Unit};

pub(super) const ABOUT: &str = "One object in a hundred cannot be deleted: on local files because \
something else lies at its key, on S3 because the service denies it. The time until all others \
are gone and nothing is left to try, beside a queue of which all can go.";

/// Rounds for each that others have: what is told apart is a tenth.
const MORE_ROUNDS: usize = 3;

pub(super) async fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    Ok(vec![files(context).await?, bucket(context).await?])
}

fn stuck(queue: &Queue) -> impl Iterator<Item = u64> + '_ {
    queue.marked.iter().copied().skip(7).step_by(100)
}

async fn seconds(
    context: &Context,
    queue: &Queue,
    store: Store,
    expected: usize,
) -> anyhow::Result<f64> {
    let (took, left) = queue.drain(context, store, Way::Wasm).await?;
    anyhow::ensure!(left == expected, "{left} marks are left, not {expected}");
    Ok(took.as_secs_f64())
}

fn figure(what: String, (product, clean): (crate::Samples, crate::Samples)) -> Figure {
    Figure::new(what, Unit::Seconds, product)
        .beside("all can go", clean)
        .must(Bar::RatioAtMost(1.1))
}

async fn files(context: &Context) -> anyhow::Result<Figure> {
    let objects = context.size(100_000, 10_000, 200);
    let queue = Queue::new(context, objects).await?;
    let ids = || queue.marked.iter().copied().chain([queue.live]);
    let both = alternate(
        MORE_ROUNDS * context.rounds,
        async || {
            let files = Files::with(ids())?;
            for id in stuck(&queue) {
                files.undeletable(id)?;
            }
            let store = files.store(context)?;
            seconds(context, &queue, store, stuck(&queue).count()).await
        },
        async || {
            let files = Files::with(ids())?;
            seconds(context, &queue, files.store(context)?, 0).await
        },
    )
    .await?;
    Ok(figure(format!("1 % of {objects} on local files"), both))
}

async fn bucket(context: &Context) -> anyhow::Result<Figure> {
    let objects = context.size(20_000, 5_000, 200);
    let queue = Queue::new(context, objects).await?;
    let ids = || queue.marked.iter().copied().chain([queue.live]);
    let (stubborn, willing) = (Bucket::start().await?, Bucket::start().await?);
    stubborn.deny(stuck(&queue));
    let both = alternate(
        MORE_ROUNDS * context.rounds,
        async || {
            stubborn.fill(ids(), Duration::ZERO)?;
            let store = stubborn.store(context)?;
            seconds(context, &queue, store, stuck(&queue).count()).await
        },
        async || {
            willing.fill(ids(), Duration::ZERO)?;
            seconds(context, &queue, willing.store(context)?, 0).await
        },
    )
    .await?;
    Ok(figure(format!("1 % of {objects} on S3, 0 ms"), both))
}
