//! What is measured in a process of its own, because memory is a process's: the
//! benchmarks' binary started again.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use aedile_clock::{SharedClock, SystemClock};
use aedile_engine::{Engine, EngineOptions, Grants, Limits, Plugin, TickEnd};
use aedile_log::{Log, LogOptions, MetaUrl, Reader};
use aedile_state::State;
use aedile_tests_engine::Double;
use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::figures::engine;

/// A plugin in Rust as it ships.
const KV_TTL: &[u8] = include_bytes!("../../../host/cli/modules/kv_ttl.wasm");

/// What a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Task {
    /// Decode a snapshot's payload, which lies in a file.
    Decode,
    /// Open a client of a database, as `aedile run` does.
    Open,
    /// Read a database's state, as `aedile status` does.
    Read,
    /// Load so many plugins and let each tick once.
    Plugins,
}

impl Task {
    fn word(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// What it took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Seconds.
    pub seconds: f64,
    /// Bytes that became resident and stayed.
    pub resident: u64,
    /// Resident bytes at their peak, of the whole process.
    pub peak: u64,
    /// Live objects in the state, to tell that it is the one.
    pub objects: usize,
}

/// Do it in this process and print what it took.
///
/// # Errors
/// The task's.
pub async fn run(task: Task, input: &str) -> anyhow::Result<()> {
    let clock: SharedClock = Arc::new(SystemClock);
    let payload = match task {
        Task::Decode => std::fs::read(input)?,
        Task::Open | Task::Read | Task::Plugins => Vec::new(),
    };
    let before = resident("VmRSS")?;
    let start = clock.boot();
    let (seconds, objects, resident) = match task {
        Task::Decode => {
            let state = State::decode_snapshot(&payload)?;
            told(&clock, start, before, &state)?
        }
        Task::Open => {
            let url: MetaUrl = input.parse()?;
            let log = Log::open(&url, LogOptions::default(), clock.clone()).await?;
            let told = told(&clock, start, before, &log.view().state)?;
            log.close().await;
            told
        }
        Task::Read => {
            let url: MetaUrl = input.parse()?;
            let reader = Reader::open(&url, &clock).await?;
            let view = reader.view().await?;
            let told = told(&clock, start, before, &view.state)?;
            reader.close().await;
            told
        }
        Task::Plugins => {
            let plugins = plugins(&clock, input.parse()?).await?;
            let seconds = clock.boot().since(start).as_secs_f64();
            let resident = resident("VmRSS")?.saturating_sub(before);
            (seconds, plugins.len(), resident)
        }
    };
    let report = Report {
        seconds,
        resident,
        peak: self::resident("VmHWM")?,
        objects,
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

/// Plugins that have ticked once and are idle, each compiled anew.
async fn plugins(clock: &SharedClock, count: usize) -> anyhow::Result<Vec<Plugin>> {
    let engine = Engine::new(EngineOptions::default(), clock.clone())?;
    let mut plugins = Vec::with_capacity(count);
    for _ in 0..count {
        let plugin = engine.load(KV_TTL, &Grants::all()).await?;
        let (input, control) = (engine::input(&plugin), engine::control());
        let host = Box::new(Double::default());
        let tick = plugin.tick(input, host, &Limits::default(), control).await;
        anyhow::ensure!(matches!(tick.end, TickEnd::Done(_)), "{}", tick.end);
        plugins.push(plugin);
    }
    Ok(plugins)
}

fn told(
    clock: &SharedClock,
    start: aedile_clock::BootInstant,
    before: u64,
    state: &State,
) -> anyhow::Result<(f64, usize, u64)> {
    let seconds = clock.boot().since(start).as_secs_f64();
    let resident = resident("VmRSS")?.saturating_sub(before);
    Ok((seconds, state.counts().live_objects(), resident))
}

/// A line of `/proc/self/status`, in bytes.
fn resident(name: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")
        .context("resident memory is read from /proc, which Linux has")?;
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .with_context(|| format!("{name} in /proc/self/status"))?;
    Ok(kilobytes * 1024)
}

/// Do it in a child of this binary.
///
/// # Errors
/// The child failed; what it said went to this process's standard error.
pub async fn spawn(binary: &Path, task: Task, input: &str) -> anyhow::Result<Report> {
    let output = tokio::process::Command::new(binary)
        .args(["child", &task.word(), input])
        .stderr(Stdio::inherit())
        .output()
        .await?;
    anyhow::ensure!(
        output.status.success(),
        "the child ended with {}",
        output.status
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}
