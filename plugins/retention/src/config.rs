//! The rules.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// The shortest age. The times of objects come from the nodes' clocks.
const SHORTEST_AGE: Duration = Duration::from_secs(3600);

/// The shortest time after which a stream without a name counts as abandoned.
const SHORTEST_UNNAMED: Duration = Duration::from_secs(24 * 3600);

/// The configuration. Without a rule and without `delete-unnamed-after` there
/// is nothing to do, and that is refused.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// How long and how much of which streams is kept.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// Delete closed streams that no name leads to and whose newest data is
    /// older than this, at least a day. None: no stream is deleted.
    #[serde(default, deserialize_with = "optional")]
    pub delete_unnamed_after: Option<Duration>,
    /// Streams trimmed or deleted in one tick, 1 to 9000.
    #[serde(default = "streams_per_tick")]
    pub streams_per_tick: u32,
}

/// What is kept of the streams whose names begin with a prefix. What is beyond
/// either bound goes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    /// What the names begin with.
    pub streams: String,
    /// What is older goes; at least an hour.
    #[serde(default, deserialize_with = "optional")]
    pub max_age: Option<Duration>,
    /// What exceeds this goes, the oldest first.
    #[serde(default)]
    pub max_bytes: Option<u64>,
}

fn streams_per_tick() -> u32 {
    1000
}

fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    aedile_plugin::duration::deserialize(from).map(Some)
}

impl Config {
    /// The rule of a name: that with the longest prefix.
    pub(crate) fn rule(&self, name: &str) -> Option<usize> {
        let rules = self.rules.iter().enumerate();
        rules
            .filter(|(_, rule)| name.starts_with(&rule.streams))
            .max_by_key(|(_, rule)| rule.streams.len())
            .map(|(at, _)| at)
    }

    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// The key that is wrong, and how.
    pub fn validate(&self) -> Result<(), String> {
        if self.rules.is_empty() && self.delete_unnamed_after.is_none() {
            return Err(
                r#"rules is empty; write {"streams":"/logs/","max-age":"7d"}, or set delete-unnamed-after"#
                    .to_owned(),
            );
        }
        for (at, rule) in self.rules.iter().enumerate() {
            let prefix = &rule.streams;
            if !prefix.starts_with('/') {
                return Err(format!(
                    "rules: {prefix:?} is no name of streams; they begin with /"
                ));
            }
            if self.rules[..at]
                .iter()
                .any(|other| other.streams == *prefix)
            {
                return Err(format!("rules: {prefix} has two rules"));
            }
            if rule.max_age.is_none() && rule.max_bytes.is_none() {
                return Err(format!("rules: {prefix} has neither max-age nor max-bytes"));
            }
            if rule.max_age.is_some_and(|age| age < SHORTEST_AGE) {
                return Err(format!(
                    "rules: the max-age of {prefix} must be at least 1h"
                ));
            }
            if rule.max_bytes == Some(0) {
                return Err(format!("rules: the max-bytes of {prefix} is 0"));
            }
        }
        if self
            .delete_unnamed_after
            .is_some_and(|age| age < SHORTEST_UNNAMED)
        {
            return Err("delete-unnamed-after must be at least 1d".to_owned());
        }
        if !(1..=9000).contains(&self.streams_per_tick) {
            let value = self.streams_per_tick;
            return Err(format!("streams-per-tick is {value}; it must be 1 to 9000"));
        }
        Ok(())
    }
}
