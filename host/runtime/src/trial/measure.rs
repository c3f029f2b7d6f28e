//! What a plugin's ticks cost, each figure beside its limit.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aedile_engine::{Engine, EngineError, EngineOptions};
use serde::{Deserialize, Serialize};

use super::attack::Attack;
use super::watched::{Boundary, Journal, lock};
use super::{Ground, Subject, TrialError};
use crate::backend::Backend as _;

/// A figure beside its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// What is measured; the limit's own name where it has one.
    pub what: String,
    /// In which unit.
    pub unit: String,
    /// How much of it.
    pub used: f64,
    /// How much is allowed; none where nothing bounds it.
    pub limit: Option<f64>,
}

impl Share {
    /// The used part of the limit, in percent.
    pub fn percent(&self) -> Option<f64> {
        self.limit
            .filter(|limit| *limit > 0.0)
            .map(|limit| 100.0 * self.used / limit)
    }
}

/// What a plugin's ticks cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The plugin's name.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// Digest of its module.
    pub digest: String,
    /// Ticks that were timed, each on the captured state.
    pub runs: usize,
    /// Time to compile it.
    pub load_ms: f64,
    /// How the ticks ended, in one word.
    pub outcome: String,
    /// What the first tick said, or what went wrong.
    pub text: String,
    /// Median of the CPU time of a tick, in microseconds.
    pub cpu_us: f64,
    /// The time below which 99 of 100 ticks lie, in microseconds.
    pub cpu_p99_us: f64,
    /// Median of the time from start to end of a tick, in microseconds.
    pub wall_us: f64,
    /// Instructions of one tick, in wasmtime's unit of fuel: the same on every
    /// machine.
    pub fuel: u64,
    /// What crosses the boundary in one tick.
    pub boundary: Boundary,
    /// Each figure beside its limit.
    pub shares: Vec<Share>,
}

impl Measured {
    /// Whether its tick failed.
    pub fn failed(&self) -> bool {
        !matches!(self.outcome.as_str(), "done" | "more")
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The plugin does not load.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// The engine that counts instructions does not start.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Measure `runs` ticks, each a first one on the captured state, and one more
/// whose instructions are counted.
///
/// # Errors
/// The plugin does not load, or an engine does not start.
pub async fn measure(
    ground: &Ground,
    subject: &Subject,
    runs: usize,
) -> Result<Measured, MeasureError> {
    let began = ground.clock.boot();
    let attack = Attack::prepare(ground, subject).await?;
    let load = ground.clock.boot().since(began);
    let mut cpu = Vec::with_capacity(runs);
    let mut wall = Vec::with_capacity(runs);
    let mut measured = Measured {
        runs,
        load_ms: load.as_secs_f64() * 1e3,
        ..Measured::default()
    };
    let mut peak = 0;
    for run in 0..runs.max(1) {
        let ticked = once(&attack, run > 0).await;
        if run == 0 {
            measured.outcome = ticked.0.end.outcome.to_owned();
            measured.text = ticked.0.end.text.clone();
            measured.boundary = ticked.1;
        }
        peak = peak.max(ticked.0.peak_memory);
        cpu.push(ticked.0.cpu);
        wall.push(ticked.0.took);
    }
    cpu.sort_unstable();
    wall.sort_unstable();
    measured.cpu_us = micros(quantile(&cpu, 50));
    measured.cpu_p99_us = micros(quantile(&cpu, 99));
    measured.wall_us = micros(quantile(&wall, 50));
    let counting = EngineOptions {
        count_fuel: true,
        ..EngineOptions::default()
    };
    let counted = Ground {
        engine: Arc::new(Engine::new(counting, ground.clock.clone())?),
        ..ground.clone()
    };
    let counted = Attack::prepare(&counted, subject).await?;
    let (ticked, _) = once(&counted, true).await;
    measured.fuel = ticked.usage.fuel;
    let plugin = &attack.loaded.plugin;
    measured.plugin.clone_from(&plugin.manifest().name);
    measured.version = plugin.manifest().version.to_string();
    measured.digest = plugin.digest().to_owned();
    let limits = &subject.settings.limits;
    let share = |what: &str, unit: &str, used: f64, limit: Option<f64>| Share {
        what: what.to_owned(),
        unit: unit.to_owned(),
        used,
        limit,
    };
    measured.shares = vec![
        share("fuel", "instructions", measured.fuel as f64, None),
        share(
            "cpu",
            "ms",
            measured.cpu_p99_us / 1e3,
            Some(millis(limits.cpu)),
        ),
        share(
            "wall",
            "ms",
            micros(quantile(&wall, 99)) / 1e3,
            Some(millis(limits.wall)),
        ),
        share("memory", "bytes", peak as f64, Some(limits.memory as f64)),
        share(
            "host-call-bytes",
            "bytes",
            measured.boundary.largest as f64,
            Some(limits.host_call_bytes as f64),
        ),
        share(
            "to the host",
            "bytes",
            measured.boundary.to_host as f64,
            None,
        ),
        share(
            "to the plugin",
            "bytes",
            measured.boundary.to_plugin as f64,
            None,
        ),
        share(
            "log-bytes",
            "bytes",
            measured.boundary.log as f64,
            Some(limits.log_bytes as f64),
        ),
        share(
            "commands",
            "commands",
            ticked.usage.commands as f64,
            Some(limits.commands as f64),
        ),
        share(
            "storage-operations",
            "requests",
            ticked.usage.storage_operations as f64,
            Some(limits.storage_operations as f64),
        ),
        share(
            "module",
            "bytes",
            subject.bytes.len() as f64,
            Some(EngineOptions::default().module_bytes as f64),
        ),
    ];
    Ok(measured)
}

/// One tick of a new holder on the captured state.
async fn once(attack: &Attack<'_>, quiet: bool) -> (crate::term::Ticked, Boundary) {
    let journal = match quiet {
        true => Journal::quiet(),
        false => Journal::default(),
    };
    let journal = Arc::new(Mutex::new(journal));
    let guards = attack.holder(attack.start());
    let view = guards.backend.latest();
    let ticked = attack.tick(&guards, &journal, view).await;
    let boundary = lock(&journal).boundary.clone();
    (ticked, boundary)
}

fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).copied().unwrap_or_default()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
