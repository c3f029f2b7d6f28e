//! Draining a destroyed queue: through Wasm, natively, or one after another.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use aedile_engine::{Engine, EngineOptions, Grants, Limits, TickEnd, TickInput};
use aedile_lease::{Keeper, LeaseOptions};
use aedile_log::{Log, LogOptions};
use aedile_plugin::Plugin as _;
use aedile_runtime::bench::Ticks;
use aedile_runtime::{Parts, RuntimeOptions};
use aedile_state::{Command, CompactRequest, NOOP, ObjectId};
use aedile_storage::{DeleteOutcome, Store};
use anyhow::Context as _;
use cleaner::{Cleaner, Config};

use crate::native::Native;
use crate::world::{EPOCH, NODE, NOW, World};
use crate::{Context, database};

/// The module as it ships.
const MODULE: &[u8] = include_bytes!("../../../host/cli/modules/cleaner.wasm");
/// Longest wait for the lease.
const WAIT: Duration = Duration::from_secs(30);
/// Marks of one clean command of PicoMQ's own cleaner.
const NATIVE_BATCH: usize = 2000;

/// How a queue is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The module that ships, in the engine.
    Wasm,
    /// The same source, natively: only the boundary differs.
    Native,
}

/// A queue of marked objects behind one live object, and the engine to drain it.
pub(crate) struct Queue {
    payload: Vec<u8>,
    /// The object that lives.
    pub(crate) live: u64,
    /// The marked ones, in the queue's order.
    pub(crate) marked: Vec<u64>,
    engine: Arc<Engine>,
    plugin: aedile_engine::Plugin,
}

impl Queue {
    /// One of so many.
    pub(crate) async fn new(context: &Context, count: usize) -> anyhow::Result<Self> {
        let mut world = World::new();
        let stream = world.stream();
        let live = world.stream_objects(&[stream]);
        let mut marked = Vec::with_capacity(count);
        while marked.len() < count {
            let some = vec![stream; (count - marked.len()).min(1000)];
            let sources = world.stream_objects(&some);
            marked.extend(sources.iter().map(|id| id.0));
            world.apply(Command::CompactStreamObject {
                node: NODE,
                node_epoch: EPOCH,
                now_ms: NOW,
                request: CompactRequest {
                    object: NOOP,
                    object_size: 0,
                    stream,
                    stream_epoch: 1,
                    start_offset: 0,
                    end_offset: 0,
                    attributes: 0,
                    sources,
                    operations: Vec::new(),
                },
            });
        }
        let engine = Arc::new(Engine::new(
            EngineOptions::default(),
            context.clock.clone(),
        )?);
        let grants: Grants = [
            "state",
            "metrics",
            "storage.delete",
            "commands.clean-destroyed",
        ]
        .iter()
        .map(|grant| grant.parse())
        .collect::<Result<_, _>>()?;
        let plugin = engine.load(MODULE.to_vec(), &grants).await?;
        Ok(Self {
            payload: world.state.encode_snapshot(),
            live: live.first().map_or(0, |id| id.0),
            marked,
            engine,
            plugin,
        })
    }

    /// Drain it from a store that holds all objects: the seconds from the first
    /// tick to the end of the last, and how many marks are left.
    pub(crate) async fn drain(
        &self,
        context: &Context,
        store: Store,
        way: Way,
    ) -> anyhow::Result<(Duration, usize)> {
        let dir = tempfile::tempdir()?;
        let url = database::with_snapshot(&dir.path().join("meta.db"), &self.payload).await?;
        let clock = context.clock.clone();
        let parts = Parts {
            clock: clock.clone(),
            engine: self.engine.clone(),
            log: Log::open(&url, LogOptions::default(), clock.clone()).await?,
            keeper: Keeper::start(LeaseOptions::new(url.expose(), "bench"), clock)?,
            store,
        };
        let ticks = Ticks::begin(RuntimeOptions::default(), parts, WAIT).await?;
        let began = context.now();
        while self.tick(&ticks, way).await? {}
        let took = context.since(began);
        let left = ticks.log().view().state.counts().marks;
        ticks.end().await;
        Ok((took, left))
    }

    /// One tick; whether more waits.
    async fn tick(&self, ticks: &Ticks, way: Way) -> anyhow::Result<bool> {
        let (host, now) = ticks.host("cleaner").await?;
        let control = ticks.control();
        match way {
            Way::Wasm => {
                let input = TickInput {
                    now,
                    plugin: "cleaner".to_owned(),
                    node: "bench".to_owned(),
                    epoch: 1,
                    config: "{}".to_owned(),
                    seed: 1,
                };
                let tick = self
                    .plugin
                    .tick(input, host, &Limits::default(), control)
                    .await;
                match tick.end {
                    TickEnd::Done(_) => Ok(false),
                    TickEnd::More(_) => Ok(true),
                    end => anyhow::bail!("the tick ended: {end}"),
                }
            }
            Way::Native => {
                let runtime = tokio::runtime::Handle::current();
                let tick = tokio::task::spawn_blocking(move || {
                    let mut native = Native {
                        host: RefCell::new(host),
                        runtime,
                        now,
                        stop: control.stop,
                    };
                    Cleaner::tick(&mut native, &Config::default())
                });
                let report = tick.await?;
                Ok(report
                    .map_err(|failure| anyhow::anyhow!("{failure:?}"))?
                    .more)
            }
        }
    }

    /// One delete after another, and a clean for every 2000: the loop of PicoMQ's
    /// own cleaner. Only of the first `count`; the seconds that they took.
    pub(crate) async fn one_after_another(
        &self,
        context: &Context,
        count: usize,
        mut delete: impl AsyncFnMut(u64) -> anyhow::Result<()>,
    ) -> anyhow::Result<Duration> {
        let dir = tempfile::tempdir()?;
        let url = database::with_snapshot(&dir.path().join("meta.db"), &self.payload).await?;
        let log = Log::open(&url, LogOptions::default(), context.clock.clone()).await?;
        let began = context.now();
        for batch in self.marked[..count.min(self.marked.len())].chunks(NATIVE_BATCH) {
            for &id in batch {
                delete(id).await?;
            }
            let objects = batch.iter().copied().map(ObjectId).collect();
            log.propose(vec![Command::CleanDestroyedObjects { objects }])
                .await?;
        }
        let took = context.since(began);
        log.close().await;
        Ok(took)
    }
}

/// One delete by the store.
pub(crate) async fn delete_one(store: &Store, id: u64) -> anyhow::Result<()> {
    let outcomes = store.delete(&[id], &|| Some(WAIT)).await;
    let (_, outcome) = outcomes.into_iter().next().context("an outcome")?;
    anyhow::ensure!(outcome == DeleteOutcome::Deleted, "{outcome:?}");
    Ok(())
}
