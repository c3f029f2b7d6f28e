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
mod templates;
mod version;

use std::path::{Path, PathBuf};
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
        ["log", "clear-divergence"] => commands::log::clear(config).await,
        ["lease", "show"] => commands::lease::show(config).await,
        ["parked", "list"] => commands::parked::list(config).await,
        ["parked", "retry"] => commands::parked::retry(config, leaf).await,
        ["parked", "forget"] => commands::parked::forget(config, leaf).await,
        ["plugin", "list"] => commands::plugin::list(config).await,
        ["plugin", "inspect"] => {
            let file = leaf.get_one::<PathBuf>("file").cloned().unwrap_or_default();
            commands::plugin::inspect(config, &file).await
        }
        ["plugin", "new"] => commands::author::new(config, text(leaf, "name")),
        ["plugin", "check"] => commands::author::check(config, leaf, path_of(leaf)).await,
        ["plugin", "test"] => commands::author::test(config, leaf, path_of(leaf)).await,
        ["plugin", "bench"] => commands::author::bench(config, leaf, path_of(leaf)).await,
        ["state", "export"] => commands::author::export(config, path_of(leaf)).await,
        ["plugin", "export"] => commands::control::export(config, leaf).await,
        ["plugin", "import"] => commands::control::import(config, leaf).await,
        ["plugin", "verify"] => commands::supply::verify(config, leaf).await,
        ["plugin", "push"] => commands::supply::push(config, leaf).await,
        ["plugin", "pull"] => commands::supply::pull(config, leaf).await,
        ["plugin", action] => match *action {
            "deploy" => commands::control::deploy(config, leaf).await,
            "show" => commands::control::show(config, leaf).await,
            "history" => commands::control::history(config, leaf).await,
            "diff" => commands::control::diff(config, leaf).await,
            "set" => commands::control::set(config, leaf).await,
            "enable" => commands::control::enable(config, leaf).await,
            "disable" => commands::control::disable(config, leaf).await,
            "grant" => commands::control::grant(config, leaf).await,
            "revoke" => commands::control::revoke(config, leaf).await,
            "rollback" => commands::control::rollback(config, leaf).await,
            "run" => commands::control::run(config, leaf).await,
            "reset" => commands::control::reset(config, leaf).await,
            "remove" => commands::control::remove(config, leaf).await,
            _ => anyhow::bail!("the command `{}` is not wired", path.join(" ")),
        },
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

/// An argument that the command demands.
fn text<'a>(leaf: &'a ArgMatches, id: &str) -> &'a str {
    leaf.get_one::<String>(id).map_or("", String::as_str)
}

/// The file that the command demands.
fn path_of(leaf: &ArgMatches) -> &Path {
    leaf.get_one::<PathBuf>("file")
        .map_or(Path::new(""), PathBuf::as_path)
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
