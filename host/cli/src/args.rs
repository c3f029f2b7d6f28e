//! The command line: commands, their flags, and what `--help` says.

mod author;
mod control;
mod supply;

use clap::{Arg, ArgAction, Command, builder::ValueParser};

use crate::exit;
use crate::settings::{self as s, Setting};
use crate::version;

const LOGGING: [Setting; 3] = [s::CONFIG, s::LOG_FORMAT, s::LOG_LEVEL];

/// The whole command line.
pub(crate) fn command() -> Command {
    Command::new("aedile")
        .version(version::TEXT)
        .about("Maintenance of a PicoMQ cluster, on one node at a time, by plugins in WebAssembly")
        .long_about(
            "Aedile runs the maintenance of a PicoMQ cluster: abandoned reservations expire, \
             destroyed objects leave object storage. A lease row in the metadata database elects \
             the one node that works; the jobs are WebAssembly plugins, four of them built in.\n\n\
             New here:              aedile demo\n\
             Before production:     aedile check, then aedile plan (neither writes anything)\n\
             In production:         aedile run, on two or more machines",
        )
        .after_long_help(exit::help())
        .after_help("Exit codes and examples: aedile --help, aedile COMMAND --help")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .max_term_width(100)
        .subcommand(run())
        .subcommand(plan())
        .subcommand(check())
        .subcommand(status())
        .subcommand(lease())
        .subcommand(log())
        .subcommand(parked())
        .subcommand(plugin())
        .subcommand(state())
        .subcommand(demo())
        .subcommand(hidden(
            "demo-writer",
            "The demo's PicoMQ-like node; takes orders on standard input",
        ))
        .subcommand(hidden(
            "demo-observer",
            "Notes every change of the lease row and of the nodes' rows",
        ))
        .subcommand(hidden(
            "demo-verdict",
            "Judges a demo from its database and directory alone",
        ))
}

fn named(name: &'static str, settings: &[Setting]) -> Command {
    Command::new(name)
        .args(s::args(settings))
        .args(s::args(&LOGGING))
}

fn run() -> Command {
    named(
        "run",
        &[
            s::META_URL,
            s::STORAGE,
            s::NODE,
            s::PLUGIN_DIR,
            s::STOP_FILE,
            s::ROLL_BACK_AFTER,
            s::TAKE_OVER,
            s::TTL,
            s::SNAPSHOT_EVERY,
            s::DELETE_RATE,
            s::HEARTBEAT,
            s::ENABLE,
            s::ORPHAN_GRACE,
            s::ORPHAN_BREAKER_COUNT,
            s::ORPHAN_BREAKER_PERCENT,
            s::TRUSTED_KEYS,
            s::REQUIRE_SIGNATURE,
            s::CONFIRM_EMPTY_STORE,
            s::UNTIL_IDLE,
            s::WAIT,
            s::JSON,
        ],
    )
    .about("Contend for the lease and do the maintenance while holding it")
    .long_about(
        "Contend for the lease and do the maintenance while holding it. Run it on two or more \
         machines: one leads, the others take over within seconds.\n\n\
         SIGTERM and SIGINT stop it cleanly: the ticks end, the lease is released, another node \
         takes it at once. A second signal ends the process at once; the lease then has to expire. \
         Log lines go to standard error.",
    )
    .after_long_help(
        "Examples:\n  \
         aedile run --meta-url sqlite:./pico.db --storage -2@file://./objects\n  \
         aedile run --meta-url postgres://pico@db/pico \\\n      \
         --storage='-2@s3://records?region=eu-central-1' --take-over\n  \
         aedile run --until-idle            one pass, then the exit code tells what is left\n  \
         aedile run --plugin-dir plugins.d  with plugins of your own",
    )
}

fn plan() -> Command {
    named("plan", &[
            s::META_URL,
            s::STORAGE,
            s::PLUGIN_DIR,
            s::STOP_FILE,
            s::ENABLE,
            s::ORPHAN_GRACE,
            s::ORPHAN_BREAKER_COUNT,
            s::ORPHAN_BREAKER_PERCENT,
            s::CONFIRM_EMPTY_STORE,
            s::TRUSTED_KEYS,
            s::REQUIRE_SIGNATURE,
            s::EVERY,
            s::JSON,
        ])
        .about("Show what a pass would delete and propose now; writes nothing")
        .long_about(
            "Show exactly what a pass would delete and propose now, with the reason and the bytes \
             of each, and what it would leave and why. It reads the database and looks at the \
             storage; it writes to neither. The first command to run against production.",
        )
        .after_long_help(
            "Examples:\n  \
             aedile plan --meta-url postgres://pico@db/pico --storage -2@s3://records?region=eu-central-1\n  \
             aedile plan --enable orphans,trimmed        what these would take, were they on\n  \
             aedile plan --json | jq '.totals'",
        )
}

fn check() -> Command {
    named(
        "check",
        &[
            s::META_URL,
            s::STORAGE,
            s::NODE,
            s::PLUGIN_DIR,
            s::STOP_FILE,
            s::ROLL_BACK_AFTER,
            s::TAKE_OVER,
            s::TTL,
            s::SNAPSHOT_EVERY,
            s::DELETE_RATE,
            s::HEARTBEAT,
            s::ENABLE,
            s::ORPHAN_GRACE,
            s::ORPHAN_BREAKER_COUNT,
            s::ORPHAN_BREAKER_PERCENT,
            s::TRUSTED_KEYS,
            s::REQUIRE_SIGNATURE,
            s::JSON,
        ],
    )
    .about("Check configuration, database, lease and storage: what is wrong and what to do")
    .long_about(
        "Check the configuration, the database (reachable, writable, the tables it expects, every \
         row decodes), the lease, the storage (reachable, the right bucket, what it does with a \
         delete) and the plugins. Each is ok, a warning or a failure with what to do about it. It \
         writes nothing; to see whether a bucket takes bulk deletes, it sends one for a key that \
         nobody has. The exit code is the class of the first failure, 0 if there is none.",
    )
    .after_long_help(
        "Example:\n  aedile check --meta-url sqlite:./pico.db --storage -2@file://./objects",
    )
}

fn status() -> Command {
    named("status", &[s::META_URL, s::EVERY, s::JSON])
        .about("Show who leads, what waits, which plugins run, and the last ticks")
        .long_about(
            "Show the lease (holder, epoch, time left), the log's index, what waits, the nodes with \
             their plugins by digest, and the last ticks that did something or failed. All of it \
             is read from the database; no node is asked.",
        )
        .after_long_help("Example:\n  aedile status --meta-url postgres://pico@db/pico --json")
}

fn lease() -> Command {
    Command::new("lease")
        .about("The lease that elects the node that works")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            named("show", &[s::META_URL, s::JSON])
                .about("Show the lease rows: holder, epoch, time left")
                .long_about(
                    "Show the lease rows: holder, epoch, and the time left by the database's clock. \
                     A holder of the form node-<id>-<epoch> is a PicoMQ node.",
                ),
        )
}

fn log() -> Command {
    Command::new("log")
        .about("The metadata log as this node reads it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            named("clear-divergence", &[s::META_URL, s::NODE, s::JSON])
                .about("Let a node that has diverged from the cluster read the log anew")
                .long_about(
                    "Forget that a node has diverged: that a snapshot of another node contradicted \
                     what it had applied. Find out first which of the two is right: `aedile status` \
                     names the snapshot and its first section that differs. The node then takes the \
                     stored snapshot for the truth; a running one does so by itself.",
                )
                .after_long_help("Example:\n  aedile log clear-divergence --node maintenance-1"),
        )
}

fn parked() -> Command {
    let objects = || {
        Arg::new("id")
            .value_name("ID")
            .action(ArgAction::Append)
            .value_parser(clap::value_parser!(u64))
            .help("Objects, by the numbers that `aedile parked list` shows")
    };
    Command::new("parked")
        .about("What cannot be deleted: list it, have it tried again, or have it forgotten")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            named("list", &[s::META_URL, s::EVERY, s::JSON])
                .about("List the parked objects with their reasons, and what was asked for")
                .long_about(
                    "List the objects that could not be deleted however often they were tried, \
                     with the reason of the last try. They stay as they are, on every node and \
                     across restarts, until you have them tried again or forgotten. Exit code 4 if \
                     a part of the list cannot be read.",
                ),
        )
        .subcommand(
            named("retry", &[s::META_URL, s::NODE])
                .about("Have parked objects tried again, after their reason was mended")
                .long_about(
                    "Have parked objects tried again from the beginning. The request is left in \
                     the metadata: the node that leads carries it out within seconds, or the next \
                     one that does.",
                )
                .arg(objects())
                .arg(
                    s::arg(&s::EVERY)
                        .help("Try all parked objects again")
                        .long_help(None::<&str>),
                )
                .after_long_help(
                    "Examples:\n  aedile parked retry 46 47\n  aedile parked retry --all",
                ),
        )
        .subcommand(
            named("forget", &[s::META_URL, s::NODE, s::LEAVE_BYTES])
                .about("Have the catalog forget parked objects although their bytes stay")
                .long_about(
                    "Take the marks of parked objects off the destroyed queue although their bytes \
                     were not deleted. The bytes stay in storage, and nothing names them any more: \
                     so it has to be confirmed with --leave-bytes, after a look at the keys that \
                     it prints without.",
                )
                .arg(objects().required(true))
                .after_long_help("Example:\n  aedile parked forget 46 --leave-bytes"),
        )
}

fn plugin() -> Command {
    Command::new("plugin")
        .about("The plugins: which run where, and what a file asks for")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            named("list", &[s::META_URL, s::JSON])
                .about("List the plugins of every node, and the built-in ones of this binary"),
        )
        .subcommand(
            named("inspect", &[s::JSON])
                .about("Show what a module is and which grants it needs; runs nothing")
                .long_about(
                    "Show name, version, digest, schedule and imports of a module, and the grants that \
                     it needs. Nothing of it runs. A file that no node would load is refused with the \
                     reason, with exit code 6.",
                )
                .arg(
                    Arg::new("file")
                        .value_name("FILE")
                        .required(true)
                        .value_parser(ValueParser::path_buf())
                        .help("The module, as dropped into --plugin-dir; a built-in plugin goes by its name"),
                )
                .after_long_help("Example:\n  aedile plugin inspect ./kv_ttl.wasm"),
        )
        .subcommands(author::commands())
        .subcommands(control::commands())
        .subcommands(supply::commands())
}

fn state() -> Command {
    named("state", &[s::META_URL, s::JSON])
        .about("Count what the metadata holds")
        .long_about("Count what the metadata holds: streams, nodes, objects and bytes, reservations, the destroyed queue by operation, keys.")
        .args_conflicts_with_subcommands(true)
        .subcommand(author::export())
}

fn demo() -> Command {
    named("demo", &[s::DIR, s::KEEP, s::JSON])
        .about("See the main job in a minute: three nodes, a killed leader, a hot swap, a verdict")
        .long_about(
            "See the main job in about a minute, on SQLite and a directory. Three nodes run as real \
             processes beside a writer that acts as a PicoMQ node: it uploads objects, abandons \
             some, deletes streams, and makes one mark that names a live object. The leader is \
             killed in the middle of its work; its successor is stopped cleanly; a plugin is dropped \
             into the plugin directory, then a newer build of it.\n\n\
             At the end a separate process reads database and directory and gives the verdict. A \
             bound that does not hold ends the demo with exit code 8.",
        )
        .after_long_help(
            "Examples:\n  \
             aedile demo\n  \
             aedile demo --dir ./demo          keep everything for a look\n  \
             aedile demo --json | jq .checks",
        )
}

/// A process of the demo. Its arguments are not configuration.
fn hidden(name: &'static str, about: &'static str) -> Command {
    Command::new(name).about(about).hide(true).arg(
        Arg::new("demo")
            .value_name("DIR")
            .required(true)
            .action(ArgAction::Set)
            .value_parser(ValueParser::path_buf())
            .help("The demo's directory"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves<'a>(command: &'a Command, path: String, found: &mut Vec<(String, &'a Command)>) {
        let mut any = false;
        for child in command.get_subcommands() {
            any = true;
            leaves(child, format!("{path} {}", child.get_name()), found);
        }
        if !any && !command.is_hide_set() {
            found.push((path, command));
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_flag_has_help_and_an_environment_variable() {
        let root = command();
        let mut found = Vec::new();
        leaves(&root, "aedile".to_owned(), &mut found);
        assert!(found.len() >= 30, "commands are missing from this test");
        for (path, command) in found {
            assert!(
                command.get_about().is_some(),
                "{path} says nothing about itself"
            );
            for arg in command.get_arguments() {
                if ["help", "version"].contains(&arg.get_id().as_str()) {
                    continue;
                }
                assert!(arg.get_help().is_some(), "{path} {}", arg.get_id());
                let positional = arg.is_positional();
                assert!(
                    positional || arg.get_env().is_some(),
                    "{path} {}",
                    arg.get_id()
                );
                assert!(
                    positional || arg.is_hide_env_values_set(),
                    "{path} {}",
                    arg.get_id()
                );
            }
        }
    }

    #[test]
    fn every_setting_is_a_flag_of_some_command() {
        let root = command();
        let mut found = Vec::new();
        leaves(&root, String::new(), &mut found);
        for setting in s::ALL {
            let used = found.iter().any(|(_, command)| {
                command
                    .get_arguments()
                    .any(|arg| arg.get_id() == setting.name)
            });
            assert!(used, "--{} belongs to no command", setting.name);
        }
    }

    #[test]
    fn help_of_run_names_the_variables_and_never_their_values() {
        let help = command()
            .find_subcommand_mut("run")
            .expect("run is a command")
            .render_long_help()
            .to_string();
        for expect in [
            "AEDILE_META_URL",
            "AEDILE_TTL",
            "[default: 10s]",
            "Examples:",
            "SIGTERM",
            "--until-idle",
        ] {
            assert!(help.contains(expect), "{expect} is not in\n{help}");
        }
    }

    #[test]
    fn help_lists_every_exit_code() {
        let help = command().render_long_help().to_string();
        for code in exit::Exit::ALL {
            assert!(
                help.contains(&format!("{}  {}", code.code(), code.about())),
                "{code:?}\n{help}"
            );
        }
    }
}
