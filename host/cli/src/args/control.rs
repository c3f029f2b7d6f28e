//! The commands that change which plugins run, and how.

use clap::{Arg, ArgAction, Command, builder::ValueParser};

use super::named;
use crate::settings::{self as s, Setting};

/// Below `aedile plugin`.
pub(super) fn commands() -> [Command; 13] {
    [
        deploy(),
        show(),
        history(),
        diff(),
        set(),
        enable(),
        disable(),
        grant(),
        revoke(),
        rollback(),
        run(),
        reset(),
        remove(),
    ]
}

const CHANGE: [Setting; 4] = [s::META_URL, s::WHO, s::WHY, s::JSON];

fn change(name: &'static str, more: &[Setting]) -> Command {
    named(name, &CHANGE).args(s::args(more))
}

fn plugin() -> Arg {
    Arg::new("name")
        .value_name("NAME")
        .required(true)
        .help("The plugin, as `aedile plugin list` names it")
}

fn grants() -> Arg {
    Arg::new("grants")
        .value_name("GRANT")
        .required(true)
        .action(ArgAction::Append)
        .num_args(1..)
        .help(
            "Grants by their names, as `aedile plugin inspect` lists them; kv-prefix=PREFIX for keys \
             that begin so",
        )
}

/// How long to wait for the nodes.
pub(super) fn wait() -> Arg {
    s::arg(&s::WAIT)
        .help(
            "Wait so long until every live node runs it [default: 30s on a terminal, else not at all]",
        )
        .long_help(
            "Wait so long until every live node runs it [default: 30s on a terminal, else not at \
             all]\n\nA duration with its unit. Exit code 6 if a node does not run it by then: it is \
             named, with the reason. What was written stands.",
        )
}

/// A flag that may be given several times.
pub(super) fn several(setting: &Setting) -> Arg {
    s::arg(setting).action(ArgAction::Append)
}

const SCHEDULE: [Setting; 4] = [s::INTERVAL, s::CRON, s::ON_DEMAND, s::JITTER];

fn deploy() -> Command {
    change(
        "deploy",
        &[
            s::STORAGE,
            s::PLUGIN_CONFIG,
            s::FENCED,
            s::CANARY,
            s::TRUSTED_KEYS,
            s::REQUIRE_SIGNATURE,
            s::SIGN_FILE,
            s::PLAIN_HTTP,
            s::REGISTRY_USER,
            s::REGISTRY_PASSWORD,
            s::DRY_RUN,
        ],
    )
    .args(s::args(&SCHEDULE))
    .arg(several(&s::GRANT))
    .arg(several(&s::KV_PREFIX))
    .arg(several(&s::LIMIT))
    .arg(wait())
    .arg(
        Arg::new("file")
            .value_name("FILE|oci://REFERENCE")
            .required(true)
            .value_parser(ValueParser::os_string())
            .help("The module: a file, or a reference into a registry"),
    )
    .about("Deploy a module to every node, or a newer version of one")
    .long_about(
        "Deploy a module to every node of the cluster, or a newer version of one, without a restart. \
         Its name is the one in its manifest.\n\n\
         All of it is checked before anything is written: the module against the world of plugins, \
         the grants, the configuration against the schema in its manifest and by the plugin itself, \
         its memory against the limit, and one tick in a dry run on the state of this moment. Then \
         the module goes into the object storage, named by its SHA-256, and the revision into the \
         metadata: each node learns of it there, fetches the module, checks it again, and swaps it \
         in between two ticks.\n\n\
         What an earlier deploy set is kept: grants, configuration, schedule and limits need not be \
         given again. A module that wants a grant which it does not have is kept waiting for it \
         (needs-approval), and the version before it goes on. The same module with the same \
         settings changes nothing.",
    )
    .after_long_help(
        "Examples:\n  \
         aedile plugin deploy kv_ttl.wasm --grant commands.put-kv --grant commands.delete-kv\n  \
         aedile plugin deploy oci://ghcr.io/example/kv-ttl:0.1.0 --trusted-keys minisign.pub\n  \
         aedile plugin deploy kv_ttl.wasm --dry-run\n  \
         aedile plugin deploy kv_ttl.wasm --canary 10 --why \"OPS-7: shorter sweeps\"\n  \
         aedile plugin deploy retention.wasm --plugin-config retention.json --cron \"30 4 * * *\"",
    )
}

fn show() -> Command {
    named("show", &[s::META_URL, s::JSON])
        .arg(plugin())
        .about("Show what a plugin is to do, and what each node does of it")
        .long_about(
            "Show the newest revision of a plugin (module, grants, schedule, limits, configuration, \
             who and why), and what each node really runs, by digest.",
        )
        .after_long_help("Example:\n  aedile plugin show kv-ttl")
}

fn history() -> Command {
    named("history", &[s::META_URL, s::EVERY, s::JSON])
        .arg(plugin())
        .about("List the revisions of a plugin: what was done, by whom, and why")
        .long_about(
            "List the revisions of a plugin, newest first. A revision is never changed and never \
             removed. Exit code 4 if one of them cannot be read.",
        )
        .after_long_help("Example:\n  aedile plugin history kv-ttl")
}

fn diff() -> Command {
    let revision = |id: &'static str, text: &'static str| {
        Arg::new(id)
            .value_name(text)
            .value_parser(clap::value_parser!(u64))
    };
    named("diff", &[s::META_URL, s::JSON])
        .arg(plugin())
        .arg(revision("one", "A").help("The one revision [default: the one before the newest]"))
        .arg(revision("other", "B").help("The other [default: the newest]"))
        .about("Show in what two revisions of a plugin differ")
        .after_long_help(
            "Examples:\n  \
             aedile plugin diff kv-ttl            the newest against the one before\n  \
             aedile plugin diff kv-ttl 3 5",
        )
}

fn set() -> Command {
    change(
        "set",
        &[
            s::STORAGE,
            s::PLUGIN_CONFIG,
            s::FENCED,
            s::DRY_RUN,
        ],
    )
    .args(s::args(&SCHEDULE))
    .arg(several(&s::LIMIT))
    .arg(wait())
    .arg(plugin())
    .about("Change configuration, schedule or limits of a plugin while it runs")
    .long_about(
        "Change configuration, schedule or limits of a plugin; the next tick has them. What is not \
         named stays. For a module out of the object storage, a new configuration is checked as for \
         a deploy, so --storage is needed then. Grants are changed by `aedile plugin grant` and `revoke`.",
    )
    .after_long_help(
        "Examples:\n  \
         aedile plugin set cleaner --every 5s\n  \
         aedile plugin set kv-ttl --plugin-config '{\"rules\": []}' --limit memory=32MiB\n  \
         aedile plugin set kv-ttl --limit memory=default",
    )
}

fn enable() -> Command {
    change("enable", &[])
        .arg(plugin())
        .arg(wait())
        .about("Let a plugin run again")
        .after_long_help("Example:\n  aedile plugin enable kv-ttl --why \"the store is back\"")
}

fn disable() -> Command {
    change("disable", &[])
        .arg(plugin())
        .arg(wait())
        .about("Let a plugin rest on every node; a tick that runs ends first")
        .after_long_help("Example:\n  aedile plugin disable kv-ttl --why \"the store is full\"")
}

fn grant() -> Command {
    change("grant", &[])
        .args([plugin(), grants()])
        .arg(wait())
        .about("Give a plugin grants: what it may read and do")
        .long_about(
            "Give a plugin grants, or keys to write: kv-prefix=PREFIX. It has what it both wants and is granted: a grant that its module \
             does not ask for has no effect. Destructive ones can take live data out of the catalog; \
             they are given by name, one by one.",
        )
        .after_long_help("Example:\n  aedile plugin grant kv-ttl commands.put-kv commands.delete-kv")
}

fn revoke() -> Command {
    change("revoke", &[])
        .args([plugin(), grants()])
        .arg(wait())
        .about("Take grants from a plugin")
        .long_about(
            "Take grants from a plugin. A module that wants one of them does not run any more: it \
             waits for approval, and so does every older version that wants it.",
        )
        .after_long_help("Example:\n  aedile plugin revoke kv-ttl commands.put-kv")
}

fn rollback() -> Command {
    change("rollback", &[s::REVISION])
        .arg(plugin())
        .arg(wait())
        .about("Go back to an earlier revision of a plugin")
        .long_about(
            "Go back to an earlier revision of a plugin: its module, configuration, schedule and \
             limits. It is a new revision, so the history stays. Grants that were taken since are \
             not given back, and a plugin that is disabled stays so.",
        )
        .after_long_help(
            "Examples:\n  \
             aedile plugin rollback kv-ttl\n  \
             aedile plugin rollback kv-ttl --to 3 --why \"deletes too early\"",
        )
}

fn run() -> Command {
    named("run", &[s::META_URL, s::WHO, s::JSON])
        .arg(plugin())
        .about("Have a plugin's next tick run now, on the node that leads")
        .long_about(
            "Have a plugin's next tick run now. The request is left in the metadata: the node that \
             leads runs the tick within seconds, or the next one that does. Several requests that \
             wait are one tick.",
        )
        .after_long_help("Example:\n  aedile plugin run kv-ttl")
}

fn reset() -> Command {
    change("reset", &[])
        .arg(plugin())
        .arg(wait())
        .about("Let a built-in plugin run the module of its own binary again")
        .long_about(
            "Let a built-in plugin run the module that is in each node's binary again, with the \
             schedule, limits and configuration that an operator set; a module that was deployed in \
             its place is no longer used.",
        )
        .after_long_help("Example:\n  aedile plugin reset cleaner")
}

fn remove() -> Command {
    change("remove", &[])
        .arg(plugin())
        .arg(wait())
        .about("Take a plugin off every node; its history stays")
        .long_about(
            "Take a deployed plugin off every node. Its history stays, and so do the keys that it \
             wrote. A built-in one runs from its binary again, as the nodes' own configuration says: \
             to stop it, disable it.",
        )
        .after_long_help("Example:\n  aedile plugin remove kv-ttl --why \"replaced by retention\"")
}
