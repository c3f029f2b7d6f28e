//! The command line: `aedile-tests-bench [NAME…]`.

use std::path::PathBuf;
use std::process::Command;

use aedile_tests_bench::child::{self, Task};
use aedile_tests_bench::{ALL, Context, Scale, document, table};
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
    /// Write the page here as well.
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
    let (start, mut sections, mut missed) = (context.now(), Vec::new(), 0);
    for bench in chosen {
        let began = context.now();
        let figures = (bench.run)(&context)
            .await
            .with_context(|| format!("benchmark {}", bench.name))?;
        println!(
            "{} ({:.0} s)\n{}",
            bench.name,
            context.since(began).as_secs_f64(),
            table(&figures)
        );
        missed += figures.iter().filter(|f| f.holds() == Some(false)).count();
        sections.push((bench.name, bench.about, figures));
        // After each: a run that is ended early leaves what it measured.
        if let Some(path) = &arguments.write {
            let took = context.since(start).as_secs_f64();
            std::fs::write(path, document(&machine(took)?, &sections))?;
        }
    }
    if missed > 0 {
        println!("{missed} of the bars did not hold");
    }
    Ok(())
}

/// Where and when this was measured.
fn machine(took: f64) -> anyhow::Result<Vec<(&'static str, String)>> {
    let said = |program: &str, arguments: &[&str]| -> anyhow::Result<String> {
        let output = Command::new(program).args(arguments).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism()?;
    Ok(vec![
        ("date", said("date", &["-u", "+%Y-%m-%d %H:%M UTC"])?),
        (
            "machine",
            format!("{cores} cores of {model}, {}", said("uname", &["-sr"])?),
        ),
        (
            "load at the end",
            load.split(' ').next().unwrap_or("unknown").to_owned(),
        ),
        (
            "versions",
            format!(
                "aedile {}, {}",
                env!("CARGO_PKG_VERSION"),
                said("rustc", &["--version"])?
            ),
        ),
        ("command", format!("`make bench`, {took:.0} s")),
    ])
}
