//! The small TOML file beside a module: what the operator grants and sets.

use std::time::Duration;

use aedile_engine::Limits;
use toml::{Table, Value};

use super::{PluginSettings, ScheduleSettings};
use crate::control::{HARMLESS, check_prefix};
use crate::timetable::check_cron;

/// A mistake in a settings file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// It is not TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// A key that nothing reads.
    #[error("unknown key `{key}`{}", suggestion.as_ref().map(|known| format!("; did you mean `{known}`?")).unwrap_or_default())]
    UnknownKey {
        /// The key with its table.
        key: String,
        /// A known key that resembles it.
        suggestion: Option<String>,
    },
    /// A value of the wrong type or out of its range.
    #[error("`{key}`: {reason}")]
    Value {
        /// The key with its table.
        key: String,
        /// What is wrong and what would be right.
        reason: String,
    },
}

const TOP: [&str; 7] = [
    "enabled",
    "fenced",
    "grants",
    "kv-prefixes",
    "schedule",
    "config",
    "limits",
];
const SCHEDULE: [&str; 4] = ["interval", "jitter", "cron", "on-demand"];
const LIMITS: [&str; 7] = [
    "memory",
    "cpu",
    "wall",
    "host-call-bytes",
    "log-bytes",
    "commands",
    "storage-operations",
];

impl Default for PluginSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            fenced: false,
            grants: HARMLESS.iter().map(|&grant| grant.to_owned()).collect(),
            kv_prefixes: Vec::new(),
            schedule: ScheduleSettings::default(),
            config: serde_json::Value::Object(serde_json::Map::new()),
            limits: Limits::default(),
        }
    }
}

/// Read a settings file.
///
/// # Errors
/// The first mistake, with the key that it is about.
pub fn parse_settings(text: &str) -> Result<PluginSettings, SettingsError> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        SettingsError::Syntax(error.to_string().trim_end().to_owned())
    })?;
    known(&table, "", &TOP)?;
    let mut settings = PluginSettings::default();
    if let Some(value) = table.get("enabled") {
        settings.enabled = value
            .as_bool()
            .ok_or_else(|| wrong("enabled", "must be true or false"))?;
    }
    if let Some(value) = table.get("fenced") {
        settings.fenced = value
            .as_bool()
            .ok_or_else(|| wrong("fenced", "must be true or false"))?;
    }
    if let Some(value) = table.get("grants") {
        settings.grants = strings("grants", value)?;
    }
    if let Some(value) = table.get("kv-prefixes") {
        settings.kv_prefixes = strings("kv-prefixes", value)?;
        for prefix in &settings.kv_prefixes {
            check_prefix(prefix).map_err(|reason| wrong("kv-prefixes", &reason))?;
        }
    }
    if let Some(value) = table.get("schedule") {
        let table = subtable("schedule", value)?;
        known(table, "schedule.", &SCHEDULE)?;
        settings.schedule.interval = duration(table, "schedule.interval", "interval")?;
        settings.schedule.jitter = duration(table, "schedule.jitter", "jitter")?;
        if let Some(value) = table.get("cron") {
            let text = value
                .as_str()
                .ok_or_else(|| wrong("schedule.cron", "must be a text: \"0 3 * * *\""))?;
            check_cron(text).map_err(|error| wrong("schedule.cron", &error))?;
            settings.schedule.cron = Some(text.to_owned());
        }
        if let Some(value) = table.get("on-demand") {
            settings.schedule.on_demand = value
                .as_bool()
                .ok_or_else(|| wrong("schedule.on-demand", "must be true or false"))?;
        }
        let ways = [
            settings.schedule.interval.is_some(),
            settings.schedule.cron.is_some(),
            settings.schedule.on_demand,
        ];
        if ways.into_iter().filter(|way| *way).count() > 1 {
            return Err(wrong(
                "schedule",
                "it is an interval, a cron expression, or on demand: one of the three",
            ));
        }
    }
    if let Some(value) = table.get("config") {
        settings.config = json(&Value::Table(subtable("config", value)?.clone()));
    }
    if let Some(value) = table.get("limits") {
        limits(subtable("limits", value)?, &mut settings.limits)?;
    }
    Ok(settings)
}

fn limits(table: &Table, limits: &mut Limits) -> Result<(), SettingsError> {
    known(table, "limits.", &LIMITS)?;
    if let Some(bytes) = size(table, "limits.memory", "memory")? {
        limits.memory = bytes;
    }
    if let Some(time) = duration(table, "limits.cpu", "cpu")? {
        limits.cpu = time;
    }
    if let Some(time) = duration(table, "limits.wall", "wall")? {
        limits.wall = time;
    }
    if let Some(bytes) = size(table, "limits.host-call-bytes", "host-call-bytes")? {
        limits.host_call_bytes = bytes;
    }
    if let Some(bytes) = size(table, "limits.log-bytes", "log-bytes")? {
        limits.log_bytes = bytes;
    }
    if let Some(count) = size(table, "limits.commands", "commands")? {
        limits.commands = count;
    }
    if let Some(count) = size(table, "limits.storage-operations", "storage-operations")? {
        limits.storage_operations = count;
    }
    limits
        .validate()
        .map_err(|error| wrong("limits", &error.to_string()))
}

fn known(table: &Table, place: &str, keys: &[&str]) -> Result<(), SettingsError> {
    for key in table.keys() {
        if !keys.contains(&key.as_str()) {
            return Err(SettingsError::UnknownKey {
                key: format!("{place}{key}"),
                suggestion: nearest(key, keys).map(|near| format!("{place}{near}")),
            });
        }
    }
    Ok(())
}

fn nearest<'a>(key: &str, keys: &[&'a str]) -> Option<&'a str> {
    let plain = key.replace('_', "-");
    keys.iter()
        .map(|&known| (strsim::damerau_levenshtein(&plain, known), known))
        .filter(|&(distance, known)| distance <= 1 + known.len() / 3)
        .min()
        .map(|(_, known)| known)
}

fn wrong(key: &str, reason: &str) -> SettingsError {
    SettingsError::Value {
        key: key.to_owned(),
        reason: reason.to_owned(),
    }
}

fn subtable<'a>(key: &str, value: &'a Value) -> Result<&'a Table, SettingsError> {
    value
        .as_table()
        .ok_or_else(|| wrong(key, &format!("must be a table: [{key}]")))
}

fn strings(key: &str, value: &Value) -> Result<Vec<String>, SettingsError> {
    let list = || wrong(key, &format!("must be a list of texts: {key} = [\"…\"]"));
    value
        .as_array()
        .ok_or_else(list)?
        .iter()
        .map(|item| item.as_str().map(str::to_owned).ok_or_else(list))
        .collect()
}

fn duration(table: &Table, key: &str, name: &str) -> Result<Option<Duration>, SettingsError> {
    let Some(value) = table.get(name) else {
        return Ok(None);
    };
    let text = value
        .as_str()
        .ok_or_else(|| wrong(key, "must be a text with a unit: \"30s\", \"5m\""))?;
    humantime::parse_duration(text).map(Some).map_err(|error| {
        wrong(
            key,
            &format!("`{text}` is no duration ({error}); write \"30s\" or \"5m\""),
        )
    })
}

/// A number, or a text with a unit of bytes.
fn size<T: TryFrom<u64>>(table: &Table, key: &str, name: &str) -> Result<Option<T>, SettingsError> {
    let number = match table.get(name) {
        None => return Ok(None),
        Some(Value::Integer(number)) => u64::try_from(*number).ok(),
        Some(Value::String(text)) => bytes(text),
        Some(_) => None,
    };
    number
        .and_then(|number| T::try_from(number).ok())
        .map(Some)
        .ok_or_else(|| wrong(key, "must be a number, or a text such as \"64 MiB\""))
}

fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text.get(..end)?.parse().ok()?;
    let unit = match text.get(end..)?.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::String(text) => text.clone().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Boolean(truth) => (*truth).into(),
        Value::Datetime(time) => time.to_string().into(),
        Value::Array(items) => items.iter().map(json).collect(),
        Value::Table(table) => table
            .iter()
            .map(|(key, value)| (key.clone(), json(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read() {
        let settings = parse_settings(
            r#"
            enabled = false
            fenced = true
            grants = ["state", "commands.put-kv"]
            kv-prefixes = ["tmp/"]
            [schedule]
            interval = "30s"
            jitter = "3s"
            [limits]
            memory = "32 MiB"
            cpu = "2s"
            wall = "20s"
            host-call-bytes = "512KiB"
            log-bytes = 1024
            commands = 5
            storage-operations = 6
            [config]
            keep = 7
            [config.deep]
            list = [1, "two", true]
            "#,
        )
        .expect("valid");
        assert!(!settings.enabled && settings.fenced);
        assert_eq!(settings.grants, ["state", "commands.put-kv"]);
        assert_eq!(settings.kv_prefixes, ["tmp/"]);
        assert_eq!(settings.schedule.interval, Some(Duration::from_secs(30)));
        assert_eq!(settings.schedule.jitter, Some(Duration::from_secs(3)));
        assert_eq!(settings.limits.cpu, Duration::from_secs(2));
        assert_eq!(settings.limits.wall, Duration::from_secs(20));
        assert_eq!(
            settings.config,
            serde_json::json!({"keep": 7, "deep": {"list": [1, "two", true]}})
        );
    }

    #[test]
    fn nothing_set_grants_only_what_is_harmless() {
        let settings = parse_settings("").expect("valid");
        assert_eq!(settings.grants, HARMLESS);
        assert!(settings.enabled && !settings.fenced && settings.kv_prefixes.is_empty());
        assert_eq!(settings.config, serde_json::json!({}));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expect) in [
            ("grant = []", "did you mean `grants`?"),
            ("kv_prefixes = []", "did you mean `kv-prefixes`?"),
            (
                "[schedule]\nintervall = \"1s\"",
                "did you mean `schedule.interval`?",
            ),
            ("[limits]\nmem = 1", "unknown key `limits.mem`"),
            ("[schedule]\ninterval = 30", "must be a text with a unit"),
            ("[schedule]\ncron = \"often\"", "is no cron expression"),
            ("[schedule]\ncron = 3", "must be a text"),
            ("[schedule]\non-demand = 1", "must be true or false"),
            (
                "[schedule]\non-demand = true\ncron = \"* * * * *\"",
                "one of the three",
            ),
            ("[schedule]\ninterval = \"30 parsecs\"", "is no duration"),
            ("grants = \"state\"", "must be a list of texts"),
            ("enabled = 1", "must be true or false"),
            ("fenced = \"yes\"", "must be true or false"),
            ("kv-prefixes = [\"\"]", "empty prefix"),
            ("kv-prefixes = [\"aed\"]", "control range"),
            ("kv-prefixes = [\"aedile/\"]", "control range"),
            ("kv-prefixes = [\"aedile/plugins/\"]", "control range"),
            ("[limits]\nmemory = \"1 MB\"", "such as \"64 MiB\""),
            ("= 3", "not valid TOML"),
        ] {
            let error = parse_settings(text).expect_err(text).to_string();
            assert!(error.contains(expect), "{text}: {error}");
        }
    }
}
