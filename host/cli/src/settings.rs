//! Every setting in one table: its flag, its environment variable, its key in
//! `aedile.toml`, and what it means. Flags, `--help` and the file's keys are
//! all made from it, so none of them can lack one.

use clap::{Arg, ArgAction};

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Name of the flag and of the key in the file.
    pub(crate) name: &'static str,
    /// Name of the environment variable.
    pub(crate) env: &'static str,
    /// What `--help` calls its value; none for a switch.
    pub(crate) value: Option<&'static str>,
    /// Whether `aedile.toml` may set it.
    pub(crate) in_file: bool,
    /// Whether its value may hold a secret and is never repeated.
    pub(crate) secret: bool,
    /// The first paragraph of its help.
    pub(crate) help: &'static str,
    /// More, in `--help` only.
    pub(crate) more: &'static str,
}

macro_rules! settings {
    ($($id:ident = $name:literal, $env:literal, $value:expr, file: $file:literal, secret: $secret:literal, $help:literal, $more:literal;)*) => {
        $(pub(crate) const $id: Setting = Setting {
            name: $name, env: $env, value: $value, in_file: $file, secret: $secret, help: $help, more: $more,
        };)*
        /// All of them.
        pub(crate) const ALL: &[Setting] = &[$($id),*];
    };
}

settings! {
    META_URL = "meta-url", "AEDILE_META_URL", Some("URL"), file: true, secret: true,
        "The metadata database, as PicoMQ's own --meta-url",
        "sqlite:PATH, sqlite://PATH, or postgres://USER:PASSWORD@HOST:PORT/DATABASE. \
         A password is better kept in the environment than on the command line; \
         it is masked wherever Aedile prints the URL.";
    STORAGE = "storage", "AEDILE_STORAGE", Some("BUCKET-ID@URI"), file: true, secret: true,
        "The object storage, as PicoMQ's own --storage",
        "-2@file://./objects, or -2@s3://bucket?region=…&endpoint=…&pathStyle=true. \
         The value may begin with a dash, with or without an equals sign before it; \
         the bucket id may be left out. Credentials for S3 come from AWS_ACCESS_KEY_ID, \
         AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.";
    NODE = "node", "AEDILE_NODE", Some("NAME"), file: true, secret: false,
        "Name of this node in status and history [default: the host name]",
        "1 to 128 characters. The name under which the lease is held has a random \
         part besides, so that two starts are never mistaken for each other.";
    PLUGIN_DIR = "plugin-dir", "AEDILE_PLUGIN_DIR", Some("DIR"), file: true, secret: false,
        "Directory of plugins, watched while running [default: only the built-in ones]",
        "Each NAME.wasm in it runs; NAME.toml beside it holds grants, schedule and \
         configuration. A newer file replaces the older one between two ticks.";
    STOP_FILE = "stop-file", "AEDILE_STOP_FILE", Some("FILE"), file: true, secret: false,
        "File that stops plugins on this node while it is there [default: none]",
        "It names plugins, one a line, or * for all. These do not tick here while the file is \
         there; one that ticks is asked to end. It needs neither the log nor the database. It must \
         belong to the user that runs Aedile or to root, and only its owner may write it.";
    ROLL_BACK_AFTER = "roll-back-after", "AEDILE_ROLL_BACK_AFTER", Some("FAILURES"), file: true, secret: false,
        "Failures of a deployed plugin's first ticks that take it back [default: 3]",
        "A whole number from 0 to 1000; 0 never takes one back. A version that has ticked well \
         once stays, whatever comes later.";
    TAKE_OVER = "take-over", "AEDILE_TAKE_OVER", None, file: true, secret: false,
        "Take the lease from a PicoMQ node that holds it",
        "PicoMQ nodes always contend for the lease and one that leads renews for \
         ever. With this, a healthy and caught-up Aedile takes the lease from it; the \
         node goes on serving and leads again when Aedile is gone. A lease that \
         another Aedile holds is never taken.";
    TTL = "ttl", "AEDILE_TTL", Some("DURATION"), file: true, secret: false,
        "How long the lease lasts without renewal [default: 10s]",
        "A duration with its unit, such as 10s or 1m, from 2s to 5m. A crashed holder \
         is succeeded after at most this and a quarter of it; an attempt is made every \
         quarter of it.";
    SNAPSHOT_EVERY = "snapshot-every", "AEDILE_SNAPSHOT_EVERY", Some("ROWS"), file: true, secret: false,
        "Write a snapshot of the metadata every so many log rows [default: never]",
        "Leave it out beside PicoMQ nodes: they write the snapshots.";
    DELETE_RATE = "delete-rate", "AEDILE_DELETE_RATE", Some("KEYS"), file: true, secret: false,
        "Delete at most so many objects a second from the storage [default: what it takes]",
        "A whole number from 1 to 1000000, for a provider with a limit of its own. Each \
         object of a bulk delete counts. Without it, deletes slow down by themselves when \
         the storage throttles.";
    CONFIRM_EMPTY_STORE = "confirm-empty-store", "AEDILE_CONFIRM_EMPTY_STORE", None, file: false, secret: false,
        "Confirm that the storage is the right one although no object of the catalog is in it",
        "Without it, nothing is deleted while the storage looks like the wrong bucket. \
         It is given for one start, so the file cannot set it.";
    ENABLE = "enable", "AEDILE_ENABLE", Some("NAMES"), file: false, secret: false,
        "Enable built-in plugins that are off by themselves: orphans, scrub, trimmed",
        "Their names with commas between them. In the file it is `enabled = true` below \
         [plugins.orphans] and its like; kv-ttl and retention have to be told there what to do. \
         Read docs/safety.md before; `aedile plan --enable orphans,trimmed` shows what they \
         would take.";
    ORPHAN_GRACE = "orphan-grace", "AEDILE_ORPHAN_GRACE", Some("DURATION"), file: true, secret: false,
        "How long bytes must have been an orphan before they are deleted [default: 24h]",
        "A duration with its unit, from 1m to 365d. It must be longer than any node may take to \
         commit an upload after its reservation has lapsed. 0s is for tests: an upload that \
         commits late loses its data.";
    ORPHAN_BREAKER_COUNT = "orphan-breaker-count", "AEDILE_ORPHAN_BREAKER_COUNT", Some("COUNT"), file: true, secret: false,
        "Orphans up to which a sweep is never held back [default: 1000]",
        "More than this many that are more than --orphan-breaker-percent of the data objects in \
         the storage: nothing is deleted until one of the two is raised.";
    ORPHAN_BREAKER_PERCENT = "orphan-breaker-percent", "AEDILE_ORPHAN_BREAKER_PERCENT", Some("PERCENT"), file: true, secret: false,
        "Share of orphans up to which a sweep is never held back [default: 10]",
        "A whole number from 0 to 100. See --orphan-breaker-count.";
    HEARTBEAT = "heartbeat", "AEDILE_HEARTBEAT", Some("DURATION"), file: true, secret: false,
        "How often this node writes its row for `aedile status` [default: 30s]",
        "A duration with its unit, from 1s to 1h. One small row in aedile_node.";
    TRUSTED_KEYS = "trusted-keys", "AEDILE_TRUSTED_KEYS", Some("KEYS"), file: true, secret: false,
        "Whose signatures of modules count: minisign public keys [default: nothing is checked]",
        "With commas between them; each is a key as minisign prints it (RW…), or a file with \
         such keys. With keys, a signature that does not verify is refused, at deploy and again \
         on every node when it loads the module.";
    REQUIRE_SIGNATURE = "require-signature", "AEDILE_REQUIRE_SIGNATURE", None, file: true, secret: false,
        "Refuse modules that are not signed with one of the trusted keys",
        "It needs --trusted-keys. The built-in modules are part of the binary and are not asked \
         for a signature; one in --plugin-dir has it in NAME.wasm.minisig beside it.";
    PLAIN_HTTP = "plain-http", "AEDILE_PLAIN_HTTP", None, file: true, secret: false,
        "Speak plain HTTP with the registry instead of TLS",
        "For a registry on this machine. A password goes over it as it is.";
    REGISTRY_USER = "registry-user", "AEDILE_REGISTRY_USER", Some("USER"), file: true, secret: false,
        "User at the registry [default: what `docker login` noted for it, else nobody]",
        "The note is read from config.json in DOCKER_CONFIG or ~/.docker. Credential helpers are \
         not run.";
    REGISTRY_PASSWORD = "registry-password", "AEDILE_REGISTRY_PASSWORD", Some("PASSWORD"), file: false, secret: true,
        "Password or token of --registry-user",
        "Better kept in the environment than on the command line. It is never printed.";
    OUTPUT = "output", "AEDILE_OUTPUT", Some("FILE"), file: false, secret: false,
        "Where the module goes [default: NAME.wasm, after the plugin]",
        "A file that is there is not overwritten.";
    LEAVE_BYTES = "leave-bytes", "AEDILE_LEAVE_BYTES", None, file: false, secret: false,
        "Confirm that the bytes of the objects that are forgotten stay in storage",
        "Nothing names them any more then: they are what an orphan sweep looks for.";
    UNTIL_IDLE = "until-idle", "AEDILE_UNTIL_IDLE", None, file: false, secret: false,
        "Make one pass, trying each object once, then end",
        "Exit code 0 if nothing is left; 7 if all that is left are conflicts and parked \
         objects, which no further pass would change.";
    WAIT = "wait", "AEDILE_WAIT", Some("DURATION"), file: false, secret: false,
        "With --until-idle: how long to wait for the lease [default: without end]",
        "A duration with its unit. Exit code 9 if another holder did not give it up in time.";
    CONFIG = "config", "AEDILE_CONFIG", Some("FILE"), file: false, secret: false,
        "Configuration file [default: ./aedile.toml if there is one]",
        "Its keys are the long flags without the dashes, as `meta-url = \"…\"`; \
         [plugins.cleaner] and its like set up the built-in plugins. A flag wins \
         over the environment, the environment over the file.";
    LOG_FORMAT = "log-format", "AEDILE_LOG_FORMAT", Some("text|json"), file: true, secret: false,
        "How log lines look [default: text]",
        "They go to standard error; json writes one object a line.";
    LOG_LEVEL = "log-level", "AEDILE_LOG_LEVEL", Some("LEVEL"), file: true, secret: false,
        "What is logged: error, warn, info, debug or trace [default: info for run, else warn]",
        "Parts can be set apart, as in info,aedile_lease=debug.";
    JSON = "json", "AEDILE_JSON", None, file: false, secret: false,
        "Print JSON instead of text",
        "One object on standard output. Its keys are stable.";
    EVERY = "all", "AEDILE_ALL", None, file: false, secret: false,
        "List everything instead of the first 20 of each kind",
        "";
    LANG = "lang", "AEDILE_LANG", Some("LANGUAGE"), file: false, secret: false,
        "Language of the new plugin: rust, c, js or python [default: rust]",
        "Go is not supported yet.";
    STATE = "state", "AEDILE_STATE", Some("DATABASE|FILE"), file: false, secret: true,
        "The captured state: a database, or a file of `aedile state export`",
        "A database as --meta-url takes it, a SQLite file by its path, or an exported file. It \
         is only read. Without it, the state is empty.";
    AT = "at", "AEDILE_AT", Some("TIME"), file: false, secret: false,
        "Time of the ticks [default: that of the capture]",
        "2026-12-31T23:59:59Z, Unix milliseconds, or +90m for so much after the capture.";
    SETTINGS = "settings", "AEDILE_SETTINGS", Some("FILE"), file: false, secret: false,
        "The plugin's grants, configuration and limits [default: NAME.toml beside NAME.wasm]",
        "The file that `aedile run --plugin-dir` reads. Without one, the plugin gets the grants \
         that its manifest wants, an empty configuration and the default limits.";
    EXPECT = "expect", "AEDILE_EXPECT", Some("FILE"), file: false, secret: false,
        "What must come of it: JSON, a part of what --json prints",
        "An object may leave out what does not matter; a list has to be whole, in its order.";
    ATTACKS = "attacks", "AEDILE_ATTACKS", Some("COUNT"), file: false, secret: false,
        "Attacks on its idempotency, spread over its calls [default: 400]",
        "Each tick is run twice, and stopped at every call that sends something. 0 makes none.";
    RUNS = "runs", "AEDILE_RUNS", Some("COUNT"), file: false, secret: false,
        "Ticks that are timed [default: 100]",
        "A whole number from 1 to 1000000. Each is a first one on the captured state.";
    WHO = "who", "AEDILE_WHO", Some("NAME"), file: false, secret: false,
        "Who does this, for the history [default: USER@HOST]",
        "1 to 128 characters. Every action on a plugin keeps it.";
    WHY = "why", "AEDILE_WHY", Some("TEXT"), file: false, secret: false,
        "Why, for the history",
        "Up to 500 characters: a ticket, or a sentence.";
    GRANT = "grant", "AEDILE_GRANT", Some("GRANT"), file: false, secret: false,
        "Grant this to the plugin; may be given several times",
        "As `aedile plugin inspect FILE` lists them: state, metrics, commands.put-kv, … The first \
         two are granted by themselves. A destructive grant is given by its own name, or not at all: \
         nothing grants several at once.";
    KV_PREFIX = "kv-prefix", "AEDILE_KV_PREFIX", Some("PREFIX"), file: false, secret: false,
        "Let it write keys that begin so, besides its own; may be given several times",
        "Its own are those below aedile/kv/NAME/. No prefix reaches into the rest of aedile/.";
    PLUGIN_CONFIG = "plugin-config", "AEDILE_PLUGIN_CONFIG", Some("FILE|JSON"), file: false, secret: false,
        "The plugin's configuration: a JSON object, or a file with one",
        "A value that begins with { is JSON, any other is a file's path; - is standard input. It is \
         checked against the schema of the plugin's manifest, and by the plugin itself. It \
         replaces the whole configuration. No secrets: everybody with access to the metadata \
         reads it.";
    INTERVAL = "every", "AEDILE_EVERY", Some("DURATION"), file: false, secret: false,
        "Run it this often [default: as its manifest says]",
        "A duration with its unit, from 100ms to 365d, from the beginning of a tick to that of \
         the next.";
    CRON = "cron", "AEDILE_CRON", Some("EXPRESSION"), file: false, secret: false,
        "Run it at these times, in UTC by the database's clock",
        "Five fields, as in \"30 4 * * *\": minute, hour, day of the month, month, day of the week. \
         Runs that were missed are made up for by one.";
    ON_DEMAND = "on-demand", "AEDILE_ON_DEMAND", None, file: false, secret: false,
        "Run it only when `aedile plugin run` asks for it",
        "";
    JITTER = "jitter", "AEDILE_JITTER", Some("DURATION"), file: false, secret: false,
        "Add up to this much at random to each interval",
        "A duration with its unit, from 0s to 365d.";
    LIMIT = "limit", "AEDILE_LIMIT", Some("NAME=VALUE"), file: false, secret: false,
        "Change a limit of its ticks, as memory=32MiB; may be given several times",
        "memory, cpu, wall, host-call-bytes, log-bytes, commands, storage-operations. Bytes take a \
         unit (KiB, MiB, GiB), times take one too (500ms, 5s). NAME=default takes a change back.";
    FENCED = "fenced", "AEDILE_FENCED", None, file: false, secret: false,
        "Let its commands land only while the term of the node that runs it stands",
        "Decided by the lease row, in the transaction that appends them.";
    CANARY = "canary", "AEDILE_CANARY", Some("TICKS"), file: false, secret: false,
        "Let it plan beside the version that runs for so many ticks before it takes over",
        "A whole number from 1 to 10000. Nothing of it is applied meanwhile; `aedile plugin show` \
         tells in what the two differ. It takes over by itself if no tick fails.";
    SIGN_FILE = "sign-file", "AEDILE_SIGN_FILE", Some("FILE"), file: false, secret: false,
        "The module's minisign signature [default: FILE.minisig if it is there]",
        "Made by `minisign -Sm plugin.wasm`. Every node checks it again before it loads the module.";
    DRY_RUN = "dry-run", "AEDILE_DRY_RUN", None, file: false, secret: false,
        "Check everything and show what would be done; write nothing",
        "";
    REVISION = "to", "AEDILE_TO", Some("REVISION"), file: false, secret: false,
        "Go back to this revision [default: the last one that wanted something else]",
        "A number, as `aedile plugin history` lists them.";
    DIR = "dir", "AEDILE_DIR", Some("DIR"), file: false, secret: false,
        "Where the demo works: a new or empty directory [default: a temporary one]",
        "A directory that was named is kept.";
    KEEP = "keep", "AEDILE_DEMO_KEEP", None, file: false, secret: false,
        "Keep the temporary directory",
        "It holds the database, the objects, the nodes' logs, and the files that the \
         verdict is computed from.";
}

/// The flags of a set of settings.
pub(crate) fn args(settings: &[Setting]) -> impl Iterator<Item = Arg> + '_ {
    settings.iter().map(arg)
}

/// The flag of one setting. Values are taken as they are: parsing them is the
/// configuration's, so that one mistake reads the same from a flag, the
/// environment and the file, and a secret is not repeated.
pub(crate) fn arg(setting: &Setting) -> Arg {
    let arg = Arg::new(setting.name)
        .long(setting.name)
        .env(setting.env)
        .hide_env_values(true)
        .value_parser(clap::builder::ValueParser::os_string())
        .action(ArgAction::Set)
        .help(setting.help);
    let arg = match setting.value {
        Some(value) => arg.value_name(value).allow_hyphen_values(true),
        None => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_name("true|false")
            .hide_possible_values(true),
    };
    if setting.more.is_empty() {
        arg
    } else {
        arg.long_help(format!("{}\n\n{}", setting.help, setting.more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_help_and_an_environment_variable_of_its_name() {
        for setting in ALL {
            assert!(setting.help.len() > 10, "{}", setting.name);
            let name = setting.name.to_uppercase().replace('-', "_");
            let name = name.trim_start_matches("DEMO_");
            assert!(
                setting.env == format!("AEDILE_{name}")
                    || setting.env == format!("AEDILE_DEMO_{name}"),
                "{}",
                setting.env
            );
        }
    }

    #[test]
    fn no_two_settings_share_a_name() {
        let mut names: Vec<_> = ALL
            .iter()
            .flat_map(|setting| [setting.name, setting.env])
            .collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
