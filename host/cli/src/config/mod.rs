//! Configuration: flag over environment over file over default.
//!
//! Values are collected as text with the place that they came from, and parsed
//! here alone. A mistake therefore reads the same wherever it was made, and
//! names the flag, the variable, or the file and line.

mod error;
mod file;
mod source;
mod supply;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aedile_lease::LeaseOptions;
use aedile_log::MetaUrl;
use aedile_runtime::{OrphanOptions, PluginSettings};
use aedile_storage::StorageUri;
use clap::ArgMatches;
use clap::parser::ValueSource;

pub(crate) use error::ConfigError;
pub(crate) use source::Source;

use crate::settings::{self, Setting};
use crate::{builtins, secrets};

/// What was configured, not yet parsed.
#[derive(Debug, Default)]
pub(crate) struct Config {
    values: BTreeMap<&'static str, (String, Source)>,
    plugins: BTreeMap<&'static str, PluginSettings>,
    file: Option<PathBuf>,
}

impl Config {
    /// Collect flags, environment and file.
    pub(crate) fn load(matches: &ArgMatches) -> Result<Self, ConfigError> {
        let mut values = BTreeMap::new();
        for setting in settings::ALL {
            if let Some((text, source)) = given(matches, setting)? {
                values.insert(setting.name, (text, source));
            }
        }
        let named = values
            .get(settings::CONFIG.name)
            .map(|(path, _)| PathBuf::from(path));
        Self::with_file(values, named, Path::new(file::DEFAULT))
    }

    fn with_file(
        values: BTreeMap<&'static str, (String, Source)>,
        named: Option<PathBuf>,
        fallback: &Path,
    ) -> Result<Self, ConfigError> {
        let path = named.or_else(|| fallback.is_file().then(|| fallback.to_owned()));
        let file = match &path {
            Some(path) => file::read(path)?,
            None => file::File::default(),
        };
        let mut config = Self {
            values: file.values,
            plugins: file.plugins,
            file: path,
        };
        config.values.extend(values);
        for setting in settings::ALL.iter().filter(|setting| setting.secret) {
            if let Some(text) = config.text(*setting) {
                if *setting == settings::REGISTRY_PASSWORD {
                    secrets::register(text);
                }
                secrets::register_url(text);
            }
        }
        Ok(config)
    }

    /// The file that was read, if one was.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Where a setting came from; none if it has its default.
    pub(crate) fn source(&self, setting: Setting) -> Option<&Source> {
        self.values.get(setting.name).map(|(_, source)| source)
    }

    /// The text of a setting.
    pub(crate) fn text(&self, setting: Setting) -> Option<&str> {
        self.values.get(setting.name).map(|(text, _)| text.as_str())
    }

    /// Whether a switch is on.
    pub(crate) fn switch(&self, setting: Setting) -> Result<bool, ConfigError> {
        match self.text(setting) {
            None => Ok(false),
            Some("true" | "1" | "yes" | "on") => Ok(true),
            Some("false" | "0" | "no" | "off") => Ok(false),
            Some(text) => Err(self.wrong(setting, format!("`{text}` is neither true nor false"))),
        }
    }

    /// A duration within bounds.
    pub(crate) fn duration(
        &self,
        setting: Setting,
        least: Duration,
        most: Duration,
    ) -> Result<Option<Duration>, ConfigError> {
        let Some(text) = self.text(setting) else {
            return Ok(None);
        };
        let value = humantime::parse_duration(text).map_err(|error| {
            self.wrong(
                setting,
                format!("`{text}` is no duration with its unit, such as 10s or 1m ({error})"),
            )
        })?;
        if value < least || value > most {
            let reason = format!(
                "`{text}` is out of the range {} to {}",
                humantime::format_duration(least),
                humantime::format_duration(most)
            );
            return Err(self.wrong(setting, reason));
        }
        Ok(Some(value))
    }

    /// A whole number within bounds.
    pub(crate) fn count(
        &self,
        setting: Setting,
        least: usize,
        most: usize,
    ) -> Result<Option<usize>, ConfigError> {
        let Some(text) = self.text(setting) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) if (least..=most).contains(&value) => Ok(Some(value)),
            _ => Err(self.wrong(
                setting,
                format!("`{text}` is no whole number from {least} to {most}"),
            )),
        }
    }

    /// That a setting is needed and not set.
    pub(crate) fn missing(&self, setting: Setting) -> ConfigError {
        ConfigError::Missing { setting }
    }

    /// The metadata database.
    pub(crate) fn meta_url(&self) -> Result<MetaUrl, ConfigError> {
        let text = self.required(settings::META_URL)?;
        text.parse().map_err(|error: aedile_log::LogError| {
            self.wrong(settings::META_URL, error.to_string())
        })
    }

    /// The object storage.
    pub(crate) fn storage(&self) -> Result<StorageUri, ConfigError> {
        let text = self.required(settings::STORAGE)?;
        text.parse().map_err(|error: aedile_storage::StorageError| {
            self.wrong(settings::STORAGE, error.to_string())
        })
    }

    /// The node's name.
    pub(crate) fn node(&self) -> Result<String, ConfigError> {
        let name = match self.text(settings::NODE) {
            Some(name) => name.to_owned(),
            None => nix::unistd::gethostname()
                .ok()
                .and_then(|name| name.into_string().ok())
                .filter(|name| !name.is_empty())
                .ok_or(ConfigError::Missing {
                    setting: settings::NODE,
                })?,
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > 128 || !name.chars().all(plain) {
            return Err(self.wrong(
                settings::NODE,
                format!(
                    "`{}` is no name of 1 to 128 letters, digits, `-`, `_` and `.`",
                    name.escape_debug()
                ),
            ));
        }
        Ok(name)
    }

    /// The stop file, which need not be there.
    pub(crate) fn stop_file(&self) -> Option<PathBuf> {
        self.text(settings::STOP_FILE).map(PathBuf::from)
    }

    /// Failures of first ticks that take a deployed plugin back.
    pub(crate) fn roll_back_after(&self) -> Result<Option<u32>, ConfigError> {
        let Some(text) = self.text(settings::ROLL_BACK_AFTER) else {
            return Ok(None);
        };
        match text.trim().parse() {
            Ok(failures @ 0..=1000) => Ok(Some(failures)),
            _ => Err(self.wrong(
                settings::ROLL_BACK_AFTER,
                "it must be a whole number from 0 to 1000".to_owned(),
            )),
        }
    }

    /// The plugin directory, which must exist.
    pub(crate) fn plugin_dir(&self) -> Result<Option<PathBuf>, ConfigError> {
        let Some(path) = self.text(settings::PLUGIN_DIR).map(PathBuf::from) else {
            return Ok(None);
        };
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => Ok(Some(path)),
            Ok(_) => Err(self.wrong(
                settings::PLUGIN_DIR,
                format!("{} is not a directory", path.display()),
            )),
            Err(error) => Err(self.wrong(
                settings::PLUGIN_DIR,
                format!(
                    "the directory {} cannot be read: {error}; create it or correct the path",
                    path.display()
                ),
            )),
        }
    }

    /// How long the lease lasts.
    pub(crate) fn ttl(&self) -> Result<Duration, ConfigError> {
        let ttl = self.duration(
            settings::TTL,
            Duration::from_secs(2),
            Duration::from_secs(300),
        )?;
        Ok(ttl.unwrap_or_else(|| LeaseOptions::default().ttl))
    }

    /// How often the heartbeat row is written.
    pub(crate) fn heartbeat(&self) -> Result<Option<Duration>, ConfigError> {
        self.duration(
            settings::HEARTBEAT,
            Duration::from_secs(1),
            Duration::from_secs(3600),
        )
    }

    /// How long the lease is waited for.
    pub(crate) fn wait(&self) -> Result<Option<Duration>, ConfigError> {
        self.duration(
            settings::WAIT,
            Duration::ZERO,
            Duration::from_secs(7 * 24 * 3600),
        )
    }

    /// Every how many rows a snapshot is written.
    pub(crate) fn snapshot_every(&self) -> Result<Option<u64>, ConfigError> {
        let Some(text) = self.text(settings::SNAPSHOT_EVERY) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(rows @ 16..=10_000_000) => Ok(Some(rows)),
            _ => Err(self.wrong(
                settings::SNAPSHOT_EVERY,
                format!(
                    "`{text}` is no number of rows from 16 to 10000000; leave it out to write none"
                ),
            )),
        }
    }

    /// How many objects are deleted in a second, at most.
    pub(crate) fn delete_rate(&self) -> Result<Option<NonZeroU32>, ConfigError> {
        let Some(text) = self.text(settings::DELETE_RATE) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(keys @ 1..=1_000_000) => Ok(NonZeroU32::new(keys)),
            _ => Err(self.wrong(
                settings::DELETE_RATE,
                format!(
                    "`{text}` is no number of objects a second from 1 to 1000000; leave it out to set no limit"
                ),
            )),
        }
    }

    /// What was set for a built-in plugin.
    pub(crate) fn plugin(&self, name: &str) -> PluginSettings {
        self.plugins
            .get(name)
            .cloned()
            .unwrap_or_else(|| PluginSettings {
                enabled: builtins::on_by_default(name),
                ..PluginSettings::default()
            })
    }

    /// Built-in plugins that are off by themselves and were enabled for this
    /// start.
    pub(crate) fn enabled(&self) -> Result<Vec<&'static str>, ConfigError> {
        let text = self.text(settings::ENABLE).unwrap_or_default();
        text.split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(|name| {
                builtins::off().find(|known| *known == name).ok_or_else(|| {
                    let known: Vec<_> = builtins::off().collect();
                    self.wrong(
                        settings::ENABLE,
                        format!(
                            "`{}` is no built-in plugin that is off by itself; those are {}",
                            name.escape_debug(),
                            known.join(", ")
                        ),
                    )
                })
            })
            .collect()
    }

    /// The rules of the sweep for orphans.
    pub(crate) fn orphans(&self) -> Result<OrphanOptions, ConfigError> {
        let defaults = OrphanOptions::default();
        let grace = self.duration(
            settings::ORPHAN_GRACE,
            Duration::ZERO,
            OrphanOptions::LONGEST_GRACE,
        )?;
        if let Some(grace) = grace.filter(|grace| *grace < OrphanOptions::SHORTEST_GRACE)
            && !grace.is_zero()
        {
            return Err(self.wrong(
                settings::ORPHAN_GRACE,
                format!(
                    "`{}` is neither 0s nor at least {}",
                    humantime::format_duration(grace),
                    humantime::format_duration(OrphanOptions::SHORTEST_GRACE)
                ),
            ));
        }
        Ok(OrphanOptions {
            grace: grace.unwrap_or(defaults.grace),
            breaker_count: self
                .number(settings::ORPHAN_BREAKER_COUNT, u64::MAX)?
                .unwrap_or(defaults.breaker_count),
            breaker_percent: self
                .number(settings::ORPHAN_BREAKER_PERCENT, 100)?
                .and_then(|percent| u8::try_from(percent).ok())
                .unwrap_or(defaults.breaker_percent),
        })
    }

    /// A whole number up to a bound.
    fn number(&self, setting: Setting, most: u64) -> Result<Option<u64>, ConfigError> {
        let Some(text) = self.text(setting) else {
            return Ok(None);
        };
        match text.parse::<u64>() {
            Ok(number) if number <= most => Ok(Some(number)),
            _ => Err(self.wrong(setting, format!("`{text}` is no number from 0 to {most}"))),
        }
    }

    /// A mistake in a setting's value.
    pub(crate) fn wrong(&self, setting: Setting, reason: String) -> ConfigError {
        ConfigError::Value {
            place: source::place(setting, self.source(setting)),
            reason: secrets::mask(&reason).into_owned(),
        }
    }

    fn required(&self, setting: Setting) -> Result<&str, ConfigError> {
        let text = self.text(setting).ok_or(ConfigError::Missing { setting })?;
        if text.starts_with("--") {
            // The value was left out and the next flag was taken for it.
            return Err(self.wrong(
                setting,
                "its value is missing: the next flag follows it at once".to_owned(),
            ));
        }
        Ok(text)
    }
}

/// What flags or the environment give for a setting. An empty variable counts
/// as one that is not set, as compose files leave them.
fn given(matches: &ArgMatches, setting: &Setting) -> Result<Option<(String, Source)>, ConfigError> {
    if !matches!(matches.try_contains_id(setting.name), Ok(true)) {
        return Ok(None);
    }
    let source = match matches.value_source(setting.name) {
        Some(ValueSource::CommandLine) => Source::Flag,
        Some(ValueSource::EnvVariable) => Source::Env,
        _ => return Ok(None),
    };
    let Some(value) = matches
        .try_get_raw(setting.name)
        .ok()
        .flatten()
        .and_then(Iterator::last)
    else {
        return Ok(None);
    };
    text(value, setting, source)
}

fn text(
    value: &OsStr,
    setting: &Setting,
    source: Source,
) -> Result<Option<(String, Source)>, ConfigError> {
    let place = || source::place(*setting, Some(&source));
    let Some(value) = value.to_str() else {
        return Err(ConfigError::Value {
            place: place(),
            reason: "the value is not UTF-8".to_owned(),
        });
    };
    match (value.is_empty(), &source) {
        (true, Source::Env) => Ok(None),
        (true, _) => Err(ConfigError::Value {
            place: place(),
            reason: "the value is empty".to_owned(),
        }),
        (false, _) => Ok(Some((value.to_owned(), source))),
    }
}

/// Variables that look like ours and are none, with what was probably meant.
/// They are not refused: an environment may hold `AEDILE_…` of others.
pub(crate) fn misspelt_variables() -> Vec<(String, &'static str)> {
    let known = || settings::ALL.iter().map(|setting| setting.env);
    std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with("AEDILE") && !known().any(|known| known == name))
        .filter_map(|name| {
            let meant = file::nearest(&name, known())?;
            Some((name, meant))
        })
        .collect()
}

#[cfg(test)]
mod tests;
