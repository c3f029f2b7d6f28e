//! What the engine itself costs.

use std::sync::Arc;

use aedile_clock::SystemClock;
use aedile_engine::{Control, Engine, EngineOptions, Grants, Limits, TickInput};
use aedile_tests_engine::{Double, module};

use crate::bare::{Bare, bare_error};
use crate::child::{self, Task};
use crate::{Bar, Context, Figure, Samples, Unit};

pub(super) const ABOUT: &str = "An empty tick is timed from the call to its end, in a task as a \
term runs it: a fresh store and instance, the call, and what they leave. The baseline is the same \
with wasmtime alone: store, instance, call, and dropping them, without limits, watch or meter; \
each in turn. Nearly all of that is the kernel's: memory and stack are mapped and given back, and \
each page that is touched faults in. The host's part is the difference of a tick and the bare one \
after it. Idle plugins are loaded in a process of its own, each compiled anew from the module of \
`kv-ttl` (Rust, 90 KB), and tick once.";

const MIB: f64 = 1024.0 * 1024.0;
/// Plugins of which the last bar speaks.
const MANY: f64 = 1000.0;

pub(super) async fn run(context: &Context) -> anyhow::Result<Vec<Figure>> {
    let ticks = context.size(20_000, 5_000, 20);
    let plugins = context.size(1000, 100, 3);
    let empty = tokio::spawn(empty_ticks(context.clone(), ticks)).await??;
    let added = empty.differences();
    let report = child::spawn(&context.binary, Task::Plugins, &plugins.to_string()).await?;
    let each = report.resident as f64 / plugins as f64;
    let one = |value: f64| std::iter::once(value).collect::<Samples>();
    Ok(vec![
        Figure::new("an empty tick", Unit::Microseconds, empty.ticks)
            .beside("wasmtime alone", empty.bare),
        Figure::new("the host's part of it", Unit::Microseconds, added)
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

/// Times of empty ticks, and of bare ones between them, in µs.
#[derive(Default)]
struct Empty {
    ticks: Samples,
    bare: Samples,
}

impl Empty {
    fn differences(&self) -> Samples {
        let pairs = self.ticks.iter().zip(self.bare.iter());
        pairs.map(|(tick, bare)| tick - bare).collect()
    }
}

async fn empty_ticks(context: Context, ticks: usize) -> anyhow::Result<Empty> {
    let module = module("empty", "");
    let bare = Bare::new(&module)?;
    let engine = Engine::new(EngineOptions::default(), Arc::new(SystemClock))?;
    let plugin = engine.load(module, &Grants::all()).await?;
    let mut empty = Empty::default();
    for tick in 0..ticks {
        let host = Box::new(Double::default());
        let (input, control) = (input(&plugin), control());
        let began = context.now();
        let ended = plugin.tick(input, host, &Limits::default(), control).await;
        let took = context.since(began);
        drop(ended);
        let began = context.now();
        bare.tick().await.map_err(bare_error)?;
        let bare = context.since(began);
        // The first ones warm up.
        if tick >= ticks / 10 {
            empty.ticks.push(took.as_secs_f64() * 1e6);
            empty.bare.push(bare.as_secs_f64() * 1e6);
        }
    }
    Ok(empty)
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
