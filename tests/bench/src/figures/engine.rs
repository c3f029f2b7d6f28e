//! What the engine itself costs.

use std::sync::Arc;

use aedile_clock::SystemClock;
use aedile_engine::{Control, Engine, EngineOptions, Grants, Limits, TickInput};
use aedile_tests_engine::{Double, module};

use crate::child::{self, Task};
use crate::{Bar, Context, Figure, Samples, Unit};

pub(super) const ABOUT: &str = "An empty tick is timed from the call to its end, in a task as a \
term runs it: a fresh store and instance, the call, and what they leave. Idle plugins are loaded \
in a process of its own, each compiled anew from the module of `kv-ttl` (Rust, 90 KB), and tick \
once.";

const MIB: f64 = 1024.0 * 1024.0;
/// Plugins of which the last bar speaks.
const MANY: f64 = 1000.0;

pub(super) async fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let ticks = context.size(20_000, 5_000, 20);
    let plugins = context.size(1000, 100, 3);
    let empty = tokio::spawn(empty_ticks(context.clone(), ticks)).await??;
    let report = child::spawn(&context.binary, Task::Plugins, &plugins.to_string()).await?;
    let each = report.resident as f64 / plugins as f64;
    let one = |value: f64| std::iter::once(value).collect::<Samples>();
    Ok(vec![
        Figure::new("an empty tick, the host's part", Unit::Microseconds, empty)
            .must(Bar::AtMost(25.0, "the goal")),
        Figure::new(
            format!("resident memory of an idle plugin, of {plugins}"),
            Unit::Mebibytes,
            one(each / MIB),
        )
        .must(Bar::AtMost(1.0, "the goal")),
        Figure::new(
            format!("resident memory of 1000 idle plugins, by {plugins}"),
            Unit::Mebibytes,
            one(each * MANY / MIB),
        )
        .must(Bar::AtMost(1024.0, "the goal")),
    ])
}

async fn empty_ticks(context: Context, ticks: usize) -> anyhow::Result<Samples> {
    let engine = Engine::new(EngineOptions::default(), Arc::new(SystemClock))?;
    let plugin = engine.load(module("empty", ""), &Grants::all()).await?;
    let mut samples = Samples::default();
    for tick in 0..ticks {
        let host = Box::new(Double::default());
        let (input, control) = (input(&plugin), control());
        let began = context.now();
        let ended = plugin.tick(input, host, &Limits::default(), control).await;
        let took = context.since(began);
        drop(ended);
        // The first ones warm up.
        if tick >= ticks / 10 {
            samples.push(took.as_secs_f64() * 1e6);
        }
    }
    Ok(samples)
}

/// A tick's input.
pub(crate) fn input(plugin: &aedile_engine::Plugin) -> TickInput {
    TickInput {
        now: 1_796_000_000_000,
        plugin: plugin.manifest().name.clone(),
        node: "bench".to_owned(),
        epoch: 1,
        config: r#"{"rules":[{"prefix":"tmp/","ttl":"1h"}]}"#.to_owned(),
        seed: 1,
    }
}

/// A term that stands.
pub(crate) fn control() -> Control {
    Control {
        authority: Arc::new(|| true),
        stop: tokio_util::sync::CancellationToken::new(),
    }
}
