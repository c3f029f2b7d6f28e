//! Decoding and applying rows of the log.

use aedile_state::{State, StreamId, codec};

use crate::measure::{alternate, rate};
use crate::world::World;
use crate::{Bar, Context, Figure, Unit};

pub(super) const ABOUT: &str = "Rows of 256 commands are decoded and applied to an empty state. \
The baseline applies the same rows and publishes a view after each command instead of at the \
end. The bar is three times what PicoMQ's own crates reach.";

/// Streams that the committed objects belong to.
const STREAMS: usize = 1000;
/// Objects in a commit.
const OBJECTS: usize = 4;

pub(super) async fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let streams = context.size(100_000, 20_000, 100);
    let commits = context.size(50_000, 10_000, 50);
    Ok(vec![
        figure(
            context,
            "create + open",
            create_and_open(streams),
            Bar::AtLeast(3.0 * 390_000.0, "3 × PicoMQ's 390 000"),
        )
        .await?,
        figure(
            context,
            "prepare + commit, four objects a commit",
            prepare_and_commit(commits),
            Bar::AtLeast(3.0 * 48_000.0, "3 × PicoMQ's 48 000"),
        )
        .await?,
    ])
}

/// The state that the rows follow, and the rows.
type Log = (State, Vec<Vec<u8>>);

fn create_and_open(streams: usize) -> Log {
    let mut world = World::new();
    let (start, _) = (world.state.clone(), world.rows());
    for _ in 0..streams {
        world.stream();
    }
    (start, world.rows())
}

fn prepare_and_commit(commits: usize) -> Log {
    let mut world = World::new();
    let streams: Vec<StreamId> = (0..STREAMS).map(|_| world.stream()).collect();
    let (start, _) = (world.state.clone(), world.rows());
    for commit in 0..commits {
        let turn = (0..OBJECTS).map(|at| streams[(commit * OBJECTS + at) % STREAMS]);
        world.stream_objects(&turn.collect::<Vec<_>>());
    }
    (start, world.rows())
}

async fn figure(
    context: &Context,
    what: &str,
    (start, rows): Log,
    bar: Bar,
) -> anyhow::Result<Figure> {
    let replay = |publish: bool| -> anyhow::Result<f64> {
        let mut state = start.clone();
        let mut published = state.clone();
        let mut count = 0;
        let began = context.now();
        for row in &rows {
            for command in codec::decode_batch(row)? {
                state.apply(&command)?;
                count += 1;
                if publish {
                    published = state.clone();
                }
            }
        }
        let took = context.since(began);
        drop(published);
        Ok(rate(count, took))
    };
    let (product, baseline) = alternate(
        context.rounds,
        async || replay(false),
        async || replay(true),
    )
    .await?;
    Ok(Figure::new(what, Unit::PerSecond("commands"), product)
        .beside("a view for each command", baseline)
        .must(bar))
}
