//! The commands of a plugin's author.

use clap::{Arg, Command, builder::ValueParser};

use super::control::several;
use super::named;
use crate::settings as s;

/// Below `aedile plugin`.
pub(super) fn commands() -> [Command; 4] {
    [new(), check(), test(), bench()]
}

fn module() -> Arg {
    file("The module; a built-in plugin goes by its name")
}

fn file(help: &'static str) -> Arg {
    Arg::new("file")
        .value_name("FILE")
        .required(true)
        .value_parser(ValueParser::path_buf())
        .help(help)
}

/// The flags of a deploy that change what a plugin may do.
fn set_up(command: Command) -> Command {
    command.args([&s::GRANT, &s::KV_PREFIX, &s::LIMIT].map(several))
}

fn check() -> Command {
    set_up(named("check", &[s::SETTINGS, s::PLUGIN_CONFIG, s::JSON]))
        .about("Check a module: all that a deploy checks and that needs no cluster")
        .long_about(
            "Check a module: its types against the world, its manifest, the memory that it wants, \
             whether it accepts its configuration, and one tick on an empty state. Exit code 6 if \
             a deploy would refuse it.",
        )
        .arg(module())
        .after_long_help("Example:\n  aedile plugin check ./kv_ttl.wasm --settings kv_ttl.toml")
}

fn test() -> Command {
    set_up(named(
        "test",
        &[
            s::STATE,
            s::STORAGE,
            s::AT,
            s::SETTINGS,
            s::PLUGIN_CONFIG,
            s::EXPECT,
            s::ATTACKS,
            s::CONFIRM_EMPTY_STORE,
            s::ORPHAN_GRACE,
            s::ORPHAN_BREAKER_COUNT,
            s::ORPHAN_BREAKER_PERCENT,
            s::EVERY,
            s::JSON,
        ],
    ))
    .about("Try a plugin on a captured state, then attack its idempotency; writes nothing")
    .long_about(
        "Try a plugin on a captured state, with the host, limits and guards of production. It \
         ticks until a tick changes nothing any more; what it did is told, and compared with \
         --expect.\n\n\
         A tick may end anywhere and run again on another node. So each tick is then run twice, \
         and stopped at every call that sends something: before the call, after it, in the middle \
         of its list, and with its answer lost. Another holder goes on from there, and must come \
         to the same end. Where it does not, the call and the difference are named. Exit code 6 \
         then, and where an expectation is not met.\n\n\
         Nothing is written: neither to the database nor to the storage.",
    )
    .arg(module())
    .after_long_help(
        "Examples:\n  \
         aedile plugin test ./kv_ttl.wasm --state cluster.state --at +2h\n  \
         aedile plugin test cleaner --state sqlite:./pico.db --storage ./objects --all\n  \
         aedile plugin test ./kv_ttl.wasm --state cluster.state --expect expect.json",
    )
}

fn bench() -> Command {
    set_up(named(
        "bench",
        &[
            s::STATE,
            s::STORAGE,
            s::AT,
            s::SETTINGS,
            s::PLUGIN_CONFIG,
            s::RUNS,
            s::CONFIRM_EMPTY_STORE,
            s::ORPHAN_GRACE,
            s::ORPHAN_BREAKER_COUNT,
            s::ORPHAN_BREAKER_PERCENT,
            s::JSON,
        ],
    ))
    .about("Measure what a tick costs, each figure beside its limit; writes nothing")
    .long_about(
        "Measure what a tick on a captured state costs: fuel (instructions, the same on every \
         machine), time, peak memory, what crosses the boundary, commands and requests to the \
         storage, each as a share of its limit. The first tick is taken, many times anew.",
    )
    .arg(module())
    .after_long_help(
        "Example:\n  aedile plugin bench ./kv_ttl.wasm --state cluster.state --json | jq .fuel",
    )
}

/// Below `aedile state`.
pub(super) fn export() -> Command {
    named("export", &[s::META_URL, s::JSON])
        .about("Write the state into a file, for `aedile plugin test --state`")
        .long_about(
            "Write the whole state at this moment into a file that `aedile plugin test` and `bench` \
             take as --state. It holds the cluster's keys and values: only you can read it. The \
             file must not be there yet.",
        )
        .arg(file("The file to write"))
        .after_long_help("Example:\n  aedile state export cluster.state --meta-url sqlite:./pico.db")
}

fn new() -> Command {
    named("new", &[s::LANG, s::JSON])
        .about("Write the project of a new plugin: it builds, tests and deploys as it is")
        .long_about(
            "Write the project of a new plugin: a small working one to change, with its tests, its \
             manifest, and all that it is built from. The commands that build, test and deploy it \
             are printed. Nothing is overwritten, and nothing is fetched.",
        )
        .arg(
            Arg::new("name")
                .value_name("NAME")
                .required(true)
                .help("Its name: 1 to 64 of a-z, 0-9 and -, beginning with a letter"),
        )
        .arg(
            s::arg(&s::DIR)
                .help("Folder of the project, new or empty [default: ./NAME]")
                .long_help(None::<&str>),
        )
        .after_long_help(
            "Examples:\n  \
             aedile plugin new night-watch\n  \
             aedile plugin new night-watch --lang python --dir ./plugins/night-watch",
        )
}
