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
    CONFIRM_EMPTY_STORE = "confirm-empty-store", "AEDILE_CONFIRM_EMPTY_STORE", None, file: false, secret: false,
        "Confirm that the storage is the right one although no object of the catalog is in it",
        "Without it, nothing is deleted while the storage looks like the wrong bucket. \
         It is given for one start, so the file cannot set it.";
    HEARTBEAT = "heartbeat", "AEDILE_HEARTBEAT", Some("DURATION"), file: true, secret: false,
        "How often this node writes its row for `aedile status` [default: 30s]",
        "A duration with its unit, from 1s to 1h. One small row in aedile_node.";
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
         [plugins.cleaner] and [plugins.expiry] set up the built-in plugins. A flag wins \
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
    DIR = "dir", "AEDILE_DEMO_DIR", Some("DIR"), file: false, secret: false,
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
