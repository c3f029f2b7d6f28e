//! Where plugins come from: the binary, the log, and a watched directory.

use std::time::Duration;

use serde::{Deserialize, Serialize};

mod deployed;
mod directory;
mod load;
mod settings;
mod watch;

pub(crate) use deployed::SELF;
pub(crate) use load::{Granting, Loaded, Trial, load};
pub use settings::{SettingsError, parse_settings};
pub(crate) use watch::{LOADING, Origin, PluginSet, Sources};

/// When a plugin's ticks are due; what is not set is the manifest's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleSettings {
    /// Time between the beginnings of two ticks.
    pub interval: Option<Duration>,
    /// Up to this much is added at random.
    pub jitter: Option<Duration>,
    /// A cron expression, in UTC by the database's clock, instead of an interval.
    pub cron: Option<String>,
    /// Only when an operator asks for a tick.
    pub on_demand: bool,
}

/// What an operator sets for one plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginSettings {
    /// Whether it runs.
    pub enabled: bool,
    /// Whether its commands land only while the term stands: decided by the
    /// lease row, in the transaction that appends them.
    pub fenced: bool,
    /// What it is granted, as text: `state`, `commands.put-kv`, …
    pub grants: Vec<String>,
    /// Prefixes besides its own below which it may write keys.
    pub kv_prefixes: Vec<String>,
    /// Its schedule.
    pub schedule: ScheduleSettings,
    /// Its configuration: a JSON object.
    pub config: serde_json::Value,
    /// Its limits.
    pub limits: aedile_engine::Limits,
}

/// A plugin that does not run, or not as the file beside it says, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The file, or the name of a built-in plugin.
    pub origin: String,
    /// The plugin's name, if it is known.
    pub plugin: Option<String>,
    /// What is wrong and what to do.
    pub text: String,
    /// Whether an older version goes on running.
    pub keeps_running: bool,
}
