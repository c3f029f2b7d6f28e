//! The rules of a manifest, checked in the plugin's own tests.

use serde::Deserialize;
use serde_json::Value;

use crate::{Plugin, duration};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Manifest {
    name: String,
    version: String,
    #[serde(default)]
    #[allow(dead_code)]
    description: String,
    grants: Vec<String>,
    schedule: Schedule,
    #[serde(default)]
    config_schema: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Schedule {
    interval: String,
    #[serde(default)]
    jitter: Option<String>,
}

/// Checks a plugin's manifest as a host does when it loads the module. Pass
/// `env!("CARGO_PKG_VERSION")` as the version that it must state.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_manifest<P: Plugin>(version: &str) -> Result<(), String> {
    let manifest: Manifest =
        serde_json::from_str(P::MANIFEST).map_err(|error| format!("manifest: {error}"))?;
    let name = &manifest.name;
    let fits = name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    if !fits {
        return Err(format!(
            "name `{name}`: 1 to 64 of a-z, 0-9 and -, beginning with a letter"
        ));
    }
    if manifest.version != version {
        return Err(format!("version {} is not {version}", manifest.version));
    }
    for grant in &manifest.grants {
        let known =
            matches!(grant.as_str(), "state" | "metrics") || FUNCTIONS.contains(&grant.as_str());
        if !known {
            return Err(format!("grant `{grant}` is not one of this world"));
        }
    }
    let Schedule { interval, jitter } = &manifest.schedule;
    if duration::parse(interval)?.is_zero() {
        return Err("schedule.interval is zero".to_owned());
    }
    if let Some(jitter) = jitter {
        duration::parse(jitter)?;
    }
    match manifest.config_schema {
        None | Some(Value::Object(_)) => Ok(()),
        Some(_) => Err("config-schema is no object".to_owned()),
    }
}

/// The functions that are grants of their own.
pub(super) const FUNCTIONS: [&str; 15] = [
    "commands.expire-reservations",
    "commands.clean-destroyed",
    "commands.put-kv",
    "commands.put-kv-if-absent",
    "commands.delete-kv",
    "commands.trim-stream",
    "commands.delete-stream",
    "commands.compact-away",
    "commands.transfer-stream",
    "storage.delete",
    "storage.list",
    "storage.head",
    "storage.read",
    "storage.find-orphans",
    "storage.delete-orphan",
];
