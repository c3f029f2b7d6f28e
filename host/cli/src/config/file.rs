//! Reading `aedile.toml`.
//!
//! The file is read with the place of every key, so that a mistake is named by
//! file and line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use aedile_runtime::PluginSettings;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::builtins;
use crate::config::{ConfigError, Source};
use crate::settings::{self, Setting};

/// The file that is read if none is named and it is there.
pub(crate) const DEFAULT: &str = "aedile.toml";

/// What a configuration file sets.
#[derive(Debug, Default)]
pub(crate) struct File {
    /// Values by the name of the setting.
    pub(crate) values: BTreeMap<&'static str, (String, Source)>,
    /// Settings of the built-in plugins by name.
    pub(crate) plugins: BTreeMap<&'static str, PluginSettings>,
}

/// Read and check a file.
pub(crate) fn read(path: &Path) -> Result<File, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    parse(path, &text)
}

/// Check a file's text; `path` is for messages.
pub(crate) fn parse(path: &Path, text: &str) -> Result<File, ConfigError> {
    let at = Place { path, text };
    let table = DeTable::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        // The whole line may hold a secret: only the parser's sentence is shown.
        at.error(start..start, format!("not valid TOML: {}", error.message()))
    })?;
    let mut file = File::default();
    for (key, value) in table.get_ref() {
        let name: &str = key.get_ref();
        if name == "plugins" {
            plugins(at, value, &mut file)?;
            continue;
        }
        let setting = known(at, key.span(), name)?;
        let source = Source::File {
            path: path.to_owned(),
            line: at.line(&key.span()),
        };
        file.values
            .insert(setting.name, (scalar(at, setting, value)?, source));
    }
    Ok(file)
}

fn known(at: Place<'_>, span: Range<usize>, name: &str) -> Result<Setting, ConfigError> {
    if let Some(setting) = settings::ALL.iter().find(|setting| setting.name == name) {
        if setting.in_file {
            return Ok(*setting);
        }
        return Err(ConfigError::NotInFile {
            path: at.path.to_owned(),
            line: at.line(&span),
            setting: *setting,
        });
    }
    let names = settings::ALL
        .iter()
        .filter(|setting| setting.in_file)
        .map(|setting| setting.name);
    let hint = match nearest(name, names.clone().chain(["plugins"])) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!(
            "known are {}, and [plugins.NAME]",
            names.collect::<Vec<_>>().join(", ")
        ),
    };
    Err(at.unknown(&span, name, Some(hint)))
}

fn scalar(
    at: Place<'_>,
    setting: Setting,
    value: &Spanned<DeValue<'_>>,
) -> Result<String, ConfigError> {
    Ok(match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Boolean(truth) => truth.to_string(),
        _ => {
            let what = if setting.value.is_some() {
                "a text"
            } else {
                "true or false"
            };
            return Err(at.error(value.span(), format!("`{}` must be {what}", setting.name)));
        }
    })
}

fn plugins(
    at: Place<'_>,
    value: &Spanned<DeValue<'_>>,
    file: &mut File,
) -> Result<(), ConfigError> {
    let DeValue::Table(tables) = value.get_ref() else {
        return Err(at.error(
            value.span(),
            "`plugins` must be tables, as [plugins.cleaner]".to_owned(),
        ));
    };
    for (key, value) in tables {
        let name: &str = key.get_ref();
        let Some(known) = builtins::names().find(|known| *known == name) else {
            let near = nearest(name, builtins::names())
                .map(|known| format!("did you mean `plugins.{known}`?"));
            let hint = near.unwrap_or_else(|| {
                "only the built-in plugins are set up here; a plugin of --plugin-dir has its own file beside it".to_owned()
            });
            return Err(at.unknown(&key.span(), &format!("plugins.{name}"), Some(hint)));
        };
        let DeValue::Table(table) = value.get_ref() else {
            return Err(at.error(key.span(), format!("`plugins.{known}` must be a table")));
        };
        let line = || at.line(&key.span());
        if let Some((key, _)) = table
            .iter()
            .find(|(key, _)| key.get_ref().as_ref() == "grants")
        {
            return Err(at.error(
                key.span(),
                "a built-in plugin has the grants that it needs; remove `grants`".to_owned(),
            ));
        }
        let says = |name: &str| table.iter().any(|(key, _)| key.get_ref().as_ref() == name);
        let mut settings = toml::to_string(&plain(table))
            .map_err(|error| error.to_string())
            .and_then(|text| {
                aedile_runtime::source::parse_settings(&text).map_err(|error| error.to_string())
            })
            .map_err(|reason| ConfigError::Line {
                path: at.path.to_owned(),
                line: line(),
                reason: format!("[plugins.{known}]: {reason}"),
            })?;
        if !says("enabled") {
            settings.enabled = builtins::on_by_default(known);
        }
        file.plugins.insert(known, settings);
    }
    Ok(())
}

/// The same table without the places.
fn plain(table: &DeTable<'_>) -> toml::Table {
    table
        .iter()
        .map(|(key, value)| (key.get_ref().to_string(), plain_value(value.get_ref())))
        .collect()
}

fn plain_value(value: &DeValue<'_>) -> toml::Value {
    match value {
        DeValue::String(text) => toml::Value::String(text.to_string()),
        // A number out of range stays a text and is refused where it is read.
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(
                |_| toml::Value::String(number.to_string()),
                toml::Value::Integer,
            ),
        DeValue::Float(number) => number.as_str().parse().map_or_else(
            |_| toml::Value::String(number.to_string()),
            toml::Value::Float,
        ),
        DeValue::Boolean(truth) => toml::Value::Boolean(*truth),
        DeValue::Datetime(time) => toml::Value::Datetime(*time),
        DeValue::Array(items) => toml::Value::Array(
            items
                .iter()
                .map(|item| plain_value(item.get_ref()))
                .collect(),
        ),
        DeValue::Table(table) => toml::Value::Table(plain(table)),
    }
}

/// The known name that resembles `name`, if one does.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase().replace('_', "-");
    known
        .map(|known| {
            (
                strsim::damerau_levenshtein(&known.to_lowercase().replace('_', "-"), &lower),
                known,
            )
        })
        .min()
        .filter(|(distance, known)| *distance <= (known.len() / 3).max(1))
        .map(|(_, known)| known)
}

/// A file's text and where it came from.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Place<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn error(&self, span: Range<usize>, reason: String) -> ConfigError {
        ConfigError::Line {
            path: PathBuf::from(self.path),
            line: self.line(&span),
            reason,
        }
    }

    fn unknown(&self, span: &Range<usize>, key: &str, hint: Option<String>) -> ConfigError {
        ConfigError::UnknownKey {
            path: PathBuf::from(self.path),
            line: self.line(span),
            key: key.to_owned(),
            hint,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn refused(text: &str) -> String {
        parse(Path::new("/etc/aedile.toml"), text)
            .expect_err(text)
            .to_string()
    }

    #[test]
    fn values_keep_their_place() {
        let file = parse(
            Path::new("a.toml"),
            "\nttl = \"20s\"\nsnapshot-every = 64\ntake-over = true\n",
        )
        .expect("valid");
        let (value, source) = &file.values["ttl"];
        assert_eq!(
            (value.as_str(), source.to_string()),
            ("20s", "a.toml:2".to_owned())
        );
        assert_eq!(file.values["snapshot-every"].0, "64");
        assert_eq!(file.values["take-over"].0, "true");
    }

    #[test]
    fn a_mistake_is_named_by_file_and_line() {
        for (text, expect) in [
            (
                "meta_url = \"x\"",
                "/etc/aedile.toml:1: unknown key `meta_url`; did you mean `meta-url`?",
            ),
            (
                "\n\nstorag = \"x\"",
                ":3: unknown key `storag`; did you mean `storage`?",
            ),
            ("colour = 1", "known are meta-url, storage"),
            (
                "until-idle = true",
                "`until-idle` cannot be set in a file; give --until-idle or set AEDILE_UNTIL_IDLE",
            ),
            ("ttl = 3.5", ":1: `ttl` must be a text"),
            ("take-over = []", "`take-over` must be true or false"),
            ("ttl = \"1s\"\nttl = \"2s\"", ":2: not valid TOML"),
            ("ttl = ", ":1: not valid TOML"),
            (
                "[plugins.claener]",
                ":1: unknown key `plugins.claener`; did you mean `plugins.cleaner`?",
            ),
            ("[plugins.custom]", "has its own file beside it"),
            (
                "[plugins.cleaner]\ngrants = []",
                ":2: a built-in plugin has the grants",
            ),
            (
                "ttl = \"1s\"\n[plugins.cleaner.schedule]\nintervall = \"1s\"",
                "did you mean `schedule.interval`?",
            ),
            ("plugins = 1", "must be tables"),
        ] {
            let error = refused(text);
            assert!(error.contains(expect), "{text}: {error}");
        }
    }

    #[test]
    fn a_secret_in_a_broken_line_is_not_repeated() {
        let error = refused("meta-url = \"postgres://u:hunter2@h/d\" x");
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn built_in_plugins_are_set_up() {
        let file = parse(
            Path::new("a.toml"),
            "[plugins.cleaner]\nenabled = false\n[plugins.cleaner.schedule]\ninterval = \"5s\"\n",
        )
        .expect("valid");
        let cleaner = &file.plugins["cleaner"];
        assert!(!cleaner.enabled);
        assert_eq!(cleaner.schedule.interval, Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_destructive_plugin_is_off_until_the_file_says_so() {
        let of = |text: &str| parse(Path::new("a.toml"), text).expect(text).plugins;
        let silent = of("[plugins.orphans.schedule]\ninterval = \"2h\"\n[plugins.cleaner]\n");
        assert!(!silent["orphans"].enabled && silent["cleaner"].enabled);
        assert!(of("[plugins.trimmed]\nenabled = true\n")["trimmed"].enabled);
    }

    #[test]
    fn the_reference_file_sets_what_is_the_default() {
        let text = include_str!("../../reference.toml");
        let commented = parse(Path::new("reference.toml"), text).expect("valid as it is");
        assert!(
            commented.values.is_empty(),
            "every line of the reference is a comment"
        );
        // Each `# key = value` line, taken live, must be a known key.
        let live: String = text
            .lines()
            .filter_map(|line| line.strip_prefix("#: "))
            .map(|line| format!("{line}\n"))
            .collect();
        let file = parse(Path::new("reference.toml"), &live).expect("valid when uncommented");
        let missing: Vec<_> = settings::ALL
            .iter()
            .filter(|setting| setting.in_file && !file.values.contains_key(setting.name))
            .map(|setting| setting.name)
            .collect();
        assert!(missing.is_empty(), "not in reference.toml: {missing:?}");
    }
}
