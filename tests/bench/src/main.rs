//! The command line: `aedile-tests-bench [NAME…]`.

use std::path::PathBuf;
use std::process::Command;

use aedile_tests_bench::child::{self, Task};
use aedile_tests_bench::{ALL, Context, Page, Scale, table};
use anyhow::Context as _;
use clap::{Parser, Subcommand};

/// Measures the product beside a baseline in the same run.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    inner: Option<Inner>,
    /// Benchmarks to run; all of them without one.
    names: Vec<String>,
    /// How large they are.
    #[arg(long, value_enum, default_value = "full")]
    scale: Scale,
    /// Write the page here as well; sections of others in it stay.
    #[arg(long)]
    write: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Inner {
    /// One task in a process of its own.
    #[command(hide = true)]
    Child {
        /// Which.
        task: Task,
        /// On what.
        input: String,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(Inner::Child { task, input }) = arguments.inner {
        return child::run(task, &input).await;
    }
    for name in &arguments.names {
        let names: Vec<_> = ALL.iter().map(|bench| bench.name).collect();
        anyhow::ensure!(
            names.contains(&name.as_str()),
            "no benchmark `{name}`; there are: {}",
            names.join(", ")
        );
    }
    let context = Context::new(arguments.scale, std::env::current_exe()?);
    let chosen = ALL.iter().filter(|bench| {
        arguments.names.is_empty() || arguments.names.iter().any(|name| name == bench.name)
    });
    let mut page = match &arguments.write {
        Some(path) if path.exists() => Page::parse(&std::fs::read_to_string(path)?),
        _ => Page::default(),
    };
    let mut missed = 0;
    for bench in chosen {
        let began = context.now();
        let figures = (bench.run)(&context)
            .await
            .with_context(|| format!("benchmark {}", bench.name))?;
        let ran = format!("{}, {:.0} s", now()?, context.since(began).as_secs_f64());
        println!("{} ({ran})\n{}", bench.name, table(&figures));
        missed += figures.iter().filter(|f| f.holds() == Some(false)).count();
        page.set(bench.name, bench.about, &ran, &figures);
        // After each: a run that is ended early leaves what it measured.
        if let Some(path) = &arguments.write {
            let names: Vec<_> = ALL.iter().map(|bench| bench.name).collect();
            std::fs::write(path, page.text(&machine()?, &names))?;
        }
    }
    if missed > 0 {
        println!("{missed} of the bars did not hold");
    }
    Ok(())
}

fn said(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(arguments).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// When it is, and how busy the machine.
fn now() -> anyhow::Result<String> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    Ok(format!(
        "ended {} at a load of {}",
        said("date", &["-u", "+%Y-%m-%d %H:%M UTC"])?,
        load.split(' ').next().unwrap_or("unknown")
    ))
}

/// Where this was measured, and what.
fn machine() -> anyhow::Result<[(&'static str, String); 2]> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    let cores = std::thread::available_parallelism()?;
    Ok([
        (
            "machine",
            format!("{cores} cores of {model}, {}", said("uname", &["-sr"])?),
        ),
        (
            "versions",
            format!(
                "aedile {}, {}",
                env!("CARGO_PKG_VERSION"),
                said("rustc", &["--version"])?
            ),
        ),
    ])
}
