//! The cleaner, through Wasm, natively and one delete after another.

use std::time::Duration;

use crate::cleaning::{Queue, Way, delete_one};
use crate::measure::{alternate, rate};
use crate::stores::{Bucket, Files};
use crate::{Bar, Context, Figure, Samples, Unit};

pub(super) const ABOUT: &str = "The destroyed queue is drained through the module that ships, and \
by the same source built natively: the same host functions and guards, chunks and concurrency; \
only the boundary differs. One after another is the loop of PicoMQ's own cleaner: a delete, then \
the next, and one clean for every 2000. The S3 server runs in the same process, on the same \
cores; what it reaches without the guards is told first, and bounds the rest.";

/// The bar of a bulk delete at 20 ms.
const AT_20_MS: Bar = Bar::AtLeast(3500.0, "at 20 ms");

pub(super) async fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let mut figures = files(context, context.size(20_000, 5_000, 20)).await?;
    for (millis, objects, alone) in [
        (
            0,
            context.size(10_000, 3_000, 20),
            context.size(1_000, 300, 5),
        ),
        (
            20,
            context.size(20_000, 5_000, 20),
            context.size(100, 30, 3),
        ),
        (
            100,
            context.size(10_000, 3_000, 20),
            context.size(30, 10, 2),
        ),
    ] {
        let latency = Duration::from_millis(millis);
        let queue = Queue::new(context, objects).await?;
        figures.extend(bucket(context, &queue, latency, alone).await?);
    }
    Ok(figures)
}

async fn files(context: &Context, objects: usize) -> anyhow::Result<Vec<Figure>> {
    let queue = Queue::new(context, objects).await?;
    let ids = || queue.marked.iter().copied().chain([queue.live]);
    let through = async |way| {
        let files = Files::with(ids())?;
        drained(&queue, context, files.store(context)?, way).await
    };
    let (wasm, native) = alternate(
        context.rounds,
        async || through(Way::Wasm).await,
        async || through(Way::Native).await,
    )
    .await?;
    let (again, one) = alternate(
        context.rounds,
        async || through(Way::Wasm).await,
        async || {
            let files = Files::with(ids())?;
            let took = queue
                .one_after_another(context, objects, async |id| {
                    let path = files.path().join(aedile_storage::object_key(id));
                    Ok(tokio::fs::remove_file(path).await?)
                })
                .await?;
            Ok(rate(objects, took))
        },
    )
    .await?;
    Ok(pair(
        "local files",
        wasm,
        native,
        again,
        one,
        Bar::RatioAtLeast(1.0),
    ))
}

async fn bucket(
    context: &Context,
    queue: &Queue,
    latency: Duration,
    alone: usize,
) -> anyhow::Result<Vec<Figure>> {
    let what = format!("S3, {} ms", latency.as_millis());
    let objects = queue.marked.len();
    let ids = || queue.marked.iter().copied().chain([queue.live]);
    let bucket = Bucket::start().await?;
    let store = bucket.store(context)?;
    let (mut looks, mut deletes) = (Samples::default(), Samples::default());
    for _ in 0..context.rounds {
        bucket.fill(ids(), latency)?;
        let began = context.now();
        store.links_many(&queue.marked, 128).await;
        looks.push(rate(objects, context.since(began)));
        let began = context.now();
        store
            .delete(&queue.marked, &|| Some(Duration::from_secs(60)))
            .await;
        deletes.push(rate(objects, context.since(began)));
    }
    let per_second = Unit::PerSecond("objects");
    let mut figures = vec![
        Figure::new(
            format!("{what}: looks alone, 128 at a time"),
            per_second,
            looks,
        ),
        Figure::new(format!("{what}: bulk deletes alone"), per_second, deletes),
    ];

    let through = async |way| {
        bucket.fill(ids(), latency)?;
        drained(queue, context, store.clone(), way).await
    };
    let (wasm, native) = alternate(
        context.rounds,
        async || through(Way::Wasm).await,
        async || through(Way::Native).await,
    )
    .await?;
    let (again, one) = alternate(
        context.rounds,
        async || through(Way::Wasm).await,
        async || {
            bucket.fill(ids(), latency)?;
            let took = queue
                .one_after_another(context, alone, async |id| delete_one(&store, id).await)
                .await?;
            Ok(rate(alone, took))
        },
    )
    .await?;
    let bar = if latency == Duration::from_millis(20) {
        AT_20_MS
    } else {
        Bar::RatioAtLeast(1.0)
    };
    figures.extend(pair(&what, wasm, native, again, one, bar));
    Ok(figures)
}

fn pair(
    what: &str,
    wasm: Samples,
    native: Samples,
    again: Samples,
    one: Samples,
    bar: Bar,
) -> Vec<Figure> {
    let per_second = Unit::PerSecond("objects");
    vec![
        Figure::new(format!("{what}: through Wasm"), per_second, wasm)
            .beside("native", native)
            .must(Bar::RatioAtLeast(0.9)),
        Figure::new(format!("{what}: through Wasm"), per_second, again)
            .beside("one after another", one)
            .must(bar),
    ]
}

async fn drained(
    queue: &Queue,
    context: &Context,
    store: aedile_storage::Store,
    way: Way,
) -> anyhow::Result<f64> {
    let (took, left) = queue.drain(context, store, way).await?;
    anyhow::ensure!(left == 0, "{left} marks are left");
    Ok(rate(queue.marked.len(), took))
}
