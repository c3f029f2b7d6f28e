//! The command line of Aedile: configuration, commands, signals, the demo.
//!
//! The only place where adapters are built and where errors become text and
//! exit codes. Read in this order: `args` (what can be said), `settings` (every
//! flag, variable and key in one table), `config` (what was said, and where),
//! `commands` (one file each), `demo`, `exit` (codes by class).

mod args;
mod builtins;
mod commands;
mod config;
mod demo;
mod exit;
mod logging;
mod output;
mod secrets;
mod settings;
mod signals;
mod version;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ArgMatches;
use clap::error::ErrorKind;

use crate::config::Config;
use crate::exit::Exit;
use crate::output::style::Style;

fn main() -> ExitCode {
    let matches = match args::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return usage(&error),
    };
    let exit = match begin(&matches) {
        Ok(exit) => exit,
        Err(error) => {
            report(&error);
            exit::class(&error)
        }
    };
    ExitCode::from(exit.code())
}

/// What the parser of the command line has to say: help, or a mistake.
fn usage(error: &clap::Error) -> ExitCode {
    let asked_for = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    let _ = error.print();
    ExitCode::from(if asked_for { Exit::Ok } else { Exit::Usage }.code())
}

/// Print an error and what caused it, on one line each. A cause that its error
/// has told already is left out.
fn report(error: &anyhow::Error) {
    let style = Style::stderr();
    let mut told = String::new();
    for (depth, cause) in error.chain().enumerate() {
        let text = secrets::mask(&cause.to_string()).into_owned();
        if depth > 0 && told.contains(&text) {
            continue;
        }
        if depth == 0 {
            eprintln!("{} {text}", style.bad("error:"));
        } else {
            eprintln!("  because: {text}");
        }
        told.push_str(&text);
    }
}

fn begin(matches: &ArgMatches) -> anyhow::Result<Exit> {
    let (path, leaf) = leaf(matches);
    if let Some(role) = part_of_demo(&path) {
        logging::start(&Config::default(), "info")?;
        let root = leaf.get_one::<PathBuf>("demo").cloned().unwrap_or_default();
        return block_on(demo::part(role, &root));
    }
    let config = Config::load(leaf)?;
    logging::start(&config, if path == ["run"] { "info" } else { "warn" })?;
    block_on(run(&path, leaf, &config))
}

async fn run(path: &[&str], leaf: &ArgMatches, config: &Config) -> anyhow::Result<Exit> {
    match path {
        ["run"] => commands::run::run(config).await,
        ["plan"] => commands::plan::run(config).await,
        ["check"] => commands::check::run(config).await,
        ["status"] => commands::status::run(config).await,
        ["lease", "show"] => commands::lease::show(config).await,
        ["plugin", "list"] => commands::plugin::list(config).await,
        ["plugin", "inspect"] => {
            let file = leaf.get_one::<PathBuf>("file").cloned().unwrap_or_default();
            commands::plugin::inspect(config, &file).await
        }
        ["state"] => commands::state::run(config).await,
        ["demo"] => demo::run(config).await,
        _ => anyhow::bail!("the command `{}` is not wired", path.join(" ")),
    }
}

fn part_of_demo(path: &[&str]) -> Option<demo::Role> {
    match path {
        ["demo-writer"] => Some(demo::Role::Writer),
        ["demo-observer"] => Some(demo::Role::Observer),
        ["demo-verdict"] => Some(demo::Role::Verdict),
        _ => None,
    }
}

/// The command that was given, and its own arguments.
fn leaf(matches: &ArgMatches) -> (Vec<&str>, &ArgMatches) {
    let mut path = Vec::new();
    let mut at = matches;
    while let Some((name, next)) = at.subcommand() {
        path.push(name);
        at = next;
    }
    (path, at)
}

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(work)
}
