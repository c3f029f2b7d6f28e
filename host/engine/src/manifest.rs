//! What a plugin says about itself without being run.

use std::time::Duration;

use serde::Deserialize;

use crate::grant::{Grant, UnknownGrant};

/// Name of the custom section that carries the manifest.
pub const MANIFEST_SECTION: &str = "aedile:manifest";

/// Longest manifest, in bytes.
const MAX_BYTES: usize = 256 << 10;

/// What a plugin says about itself: JSON in the custom section
/// [`MANIFEST_SECTION`]. `plugins/README.md` describes the fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Its name: 1 to 64 of `a-z`, `0-9` and `-`, beginning with a letter.
    pub name: String,
    /// Its version: semantic, at most 64 bytes.
    pub version: String,
    /// One line for people; may be empty.
    pub description: String,
    /// What it wants to import.
    pub grants: Vec<Grant>,
    /// How often it wants to run.
    pub schedule: Schedule,
    /// JSON Schema of its configuration.
    pub config_schema: Option<serde_json::Value>,
}

/// How often a plugin wants to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// From one tick's start to the next; above zero.
    pub interval: Duration,
    /// Up to this much is added at random.
    pub jitter: Duration,
}

/// What is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// There is none.
    #[error(
        "it has no manifest: add the custom section `{MANIFEST_SECTION}` (in Rust, \
         `aedile_plugin::export!` does) with JSON as plugins/README.md describes"
    )]
    Missing,
    /// There are several, and they differ.
    #[error("it has {0} custom sections `{MANIFEST_SECTION}`; exactly one is wanted")]
    Several(usize),
    /// It is too large.
    #[error("the manifest has {0} bytes; at most {MAX_BYTES} are allowed")]
    TooLarge(usize),
    /// It is not the JSON that is wanted: the text names field, line and column.
    #[error("the manifest is wrong: {0}")]
    Json(String),
    /// A field has a value that it must not have.
    #[error("the manifest's `{field}` is wrong: {reason}")]
    Field {
        /// The field.
        field: &'static str,
        /// What it is and what it must be.
        reason: String,
    },
    /// It asks for a grant that does not exist.
    #[error("the manifest's `grants` is wrong: {0}")]
    Grant(UnknownGrant),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    name: String,
    version: String,
    #[serde(default)]
    description: String,
    grants: Vec<String>,
    schedule: RawSchedule,
    #[serde(default)]
    config_schema: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSchedule {
    interval: String,
    #[serde(default)]
    jitter: Option<String>,
}

impl Manifest {
    /// Read the section's bytes.
    ///
    /// # Errors
    /// The first mistake, with the field that it is in.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MAX_BYTES {
            return Err(ManifestError::TooLarge(bytes.len()));
        }
        let raw: Raw = serde_json::from_slice(bytes)
            .map_err(|error| ManifestError::Json(crate::text::line(&error.to_string())))?;
        check_name(&raw.name)?;
        check_version(&raw.version)?;
        let mut grants = Vec::with_capacity(raw.grants.len());
        for text in &raw.grants {
            let grant = text.parse().map_err(ManifestError::Grant)?;
            if !grants.contains(&grant) {
                grants.push(grant);
            }
        }
        let interval = duration("schedule.interval", &raw.schedule.interval)?;
        if interval.is_zero() {
            return Err(wrong(
                "schedule.interval",
                "it must be above zero".to_owned(),
            ));
        }
        let jitter = match &raw.schedule.jitter {
            Some(text) => duration("schedule.jitter", text)?,
            None => Duration::ZERO,
        };
        Ok(Self {
            name: raw.name,
            version: raw.version,
            description: crate::text::line(&raw.description),
            grants,
            schedule: Schedule { interval, jitter },
            config_schema: raw.config_schema,
        })
    }
}

fn wrong(field: &'static str, reason: String) -> ManifestError {
    ManifestError::Field { field, reason }
}

fn check_name(name: &str) -> Result<(), ManifestError> {
    let fits = (1..=64).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if fits {
        return Ok(());
    }
    Err(wrong(
        "name",
        format!(
            "`{}` must be 1 to 64 characters of a-z, 0-9 and `-`, and begin with a letter",
            crate::text::line_of(name, 64)
        ),
    ))
}

/// `major.minor.patch`, then perhaps `-pre` and `+build`.
fn check_version(version: &str) -> Result<(), ManifestError> {
    let (rest, build) = match version.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (version, None),
    };
    let (core, pre) = match rest.split_once('-') {
        Some((core, pre)) => (core, Some(pre)),
        None => (rest, None),
    };
    let numbers: Vec<&str> = core.split('.').collect();
    let number = |text: &&str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text.len() == 1 || !text.starts_with('0'))
    };
    let words = |text: Option<&str>| {
        text.is_none_or(|text| {
            text.split('.').all(|word| {
                !word.is_empty()
                    && word
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            })
        })
    };
    let fits = version.len() <= 64
        && numbers.len() == 3
        && numbers.iter().all(number)
        && words(pre)
        && words(build);
    if fits {
        return Ok(());
    }
    Err(wrong(
        "version",
        format!(
            "`{}` must be major.minor.patch, as 1.2.3 or 1.2.3-beta.1, of at most 64 characters",
            crate::text::line_of(version, 64)
        ),
    ))
}

/// A whole number and a unit.
fn duration(field: &'static str, text: &str) -> Result<Duration, ManifestError> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit_ms = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let most = Duration::from_secs(366 * 86_400);
    number
        .parse::<u64>()
        .ok()
        .zip(unit_ms)
        .and_then(|(number, unit_ms)| number.checked_mul(unit_ms))
        .map(Duration::from_millis)
        .filter(|duration| *duration <= most)
        .ok_or_else(|| {
            wrong(
                field,
                format!(
                    "`{}` must be a whole number and a unit, as 250ms, 1s, 5m, 2h or 7d, \
                     and at most 366d",
                    crate::text::line_of(text, 64)
                ),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{
        "name": "cleaner", "version": "1.2.3-beta.1", "description": "a\u001b[2Jb",
        "grants": ["state", "storage.delete", "state"],
        "schedule": { "interval": "5m", "jitter": "250ms" },
        "config-schema": { "type": "object" }
    }"#;

    #[test]
    fn every_field_is_read() {
        let manifest = Manifest::parse(GOOD.as_bytes()).expect("valid");
        assert_eq!(manifest.name, "cleaner");
        assert_eq!(manifest.version, "1.2.3-beta.1");
        assert_eq!(manifest.description, "a\\u{1b}[2Jb");
        assert_eq!(manifest.grants, [Grant::State, Grant::Storage("delete")]);
        let schedule = Schedule {
            interval: Duration::from_secs(300),
            jitter: Duration::from_millis(250),
        };
        assert_eq!(manifest.schedule, schedule);
        assert!(manifest.config_schema.is_some());
    }

    #[test]
    fn what_is_optional_may_be_missing() {
        let text = r#"{"name":"a","version":"0.0.1","grants":[],"schedule":{"interval":"1s"}}"#;
        let manifest = Manifest::parse(text.as_bytes()).expect("valid");
        assert_eq!(manifest.schedule.jitter, Duration::ZERO);
        assert!(manifest.description.is_empty() && manifest.config_schema.is_none());
    }

    #[test]
    fn mistakes_are_named() {
        for (old, new, expected) in [
            (
                "\"description\"",
                "\"descripton\"",
                "unknown field `descripton`",
            ),
            ("\"jitter\"", "\"jiter\"", "unknown field `jiter`"),
            (
                "\"grants\": [\"state\", \"storage.delete\", \"state\"],",
                "",
                "missing field `grants`",
            ),
            ("\"cleaner\"", "\"Cleaner\"", "`name`"),
            ("\"cleaner\"", "\"\"", "`name`"),
            ("\"cleaner\"", "\"9lives\"", "begin with a letter"),
            ("\"cleaner\"", "\"a/../b\"", "`name`"),
            ("1.2.3-beta.1", "1.2", "`version`"),
            ("1.2.3-beta.1", "01.2.3", "`version`"),
            ("1.2.3-beta.1", "1.2.3-", "`version`"),
            ("1.2.3-beta.1", "1.2.3+a b", "`version`"),
            (
                "storage.delete",
                "storage.destroy",
                "`storage.destroy` is no grant",
            ),
            (
                "5m",
                "0s",
                "`schedule.interval` is wrong: it must be above zero",
            ),
            ("5m", "5", "as 250ms, 1s, 5m, 2h or 7d"),
            ("5m", "1.5s", "`schedule.interval`"),
            ("5m", "99999999999999999999d", "`schedule.interval`"),
            ("250ms", "400d", "`schedule.jitter`"),
            ("\"5m\"", "5", "invalid type"),
            ("{", "[", "manifest is wrong"),
        ] {
            let text = GOOD.replacen(old, new, 1);
            assert_ne!(text, GOOD);
            let error = Manifest::parse(text.as_bytes()).expect_err(new).to_string();
            assert!(error.contains(expected), "{new}: {error}");
        }
    }

    #[test]
    fn a_manifest_is_bounded() {
        let long = vec![b' '; MAX_BYTES + 1];
        assert_eq!(
            Manifest::parse(&long),
            Err(ManifestError::TooLarge(MAX_BYTES + 1))
        );
        let deep = "[".repeat(100_000);
        assert!(Manifest::parse(deep.as_bytes()).is_err());
        assert!(Manifest::parse(&[0xff, 0xfe]).is_err());
    }
}
