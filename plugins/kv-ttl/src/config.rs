//! The rules.

use std::time::Duration;

use serde::Deserialize;

/// Where Aedile's own keys are. No rule may reach them.
const CONTROL: &str = "aedile/";

/// The configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Which keys live how long. No key may fall under two rules.
    pub rules: Vec<Rule>,
    /// Keys looked at in one tick, 1 to 1 000 000. The next tick goes on where
    /// this one ended.
    #[serde(default = "keys_per_tick")]
    pub keys_per_tick: u32,
    /// Commands proposed in one tick, 2 to 9000. Deleting a key takes two.
    #[serde(default = "changes_per_tick")]
    pub changes_per_tick: u32,
}

/// A time-to-live for the keys that begin with a prefix.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What the keys begin with.
    pub prefix: String,
    /// How long a key may stay unchanged, like `30s`, `1h`, `7d`.
    #[serde(deserialize_with = "aedile_plugin::duration::deserialize")]
    pub ttl: Duration,
}

fn keys_per_tick() -> u32 {
    20_000
}

fn changes_per_tick() -> u32 {
    2000
}

impl Config {
    /// The rules in the order of their prefixes. As no prefix begins with
    /// another, the keys of one rule all come before those of the next.
    pub(crate) fn sorted(&self) -> Vec<&Rule> {
        let mut rules: Vec<_> = self.rules.iter().collect();
        rules.sort_by(|one, other| one.prefix.cmp(&other.prefix));
        rules
    }

    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// The key that is wrong, and how.
    pub fn validate(&self) -> Result<(), String> {
        if self.rules.is_empty() {
            return Err(r#"rules is empty; write {"prefix":"…","ttl":"1h"}"#.to_owned());
        }
        for rule in &self.rules {
            let prefix = &rule.prefix;
            if prefix.is_empty() {
                return Err("rules: a prefix is empty; it would cover every key".to_owned());
            }
            if prefix.starts_with(CONTROL) || CONTROL.starts_with(prefix.as_str()) {
                return Err(format!("rules: {prefix} reaches Aedile's own keys"));
            }
            if rule.ttl.is_zero() {
                return Err(format!("rules: the ttl of {prefix} is zero"));
            }
        }
        for pair in self.sorted().windows(2) {
            if pair[1].prefix.starts_with(&pair[0].prefix) {
                let (one, other) = (&pair[0].prefix, &pair[1].prefix);
                return Err(format!("rules: {other} falls under {one} as well"));
            }
        }
        range("keys-per-tick", self.keys_per_tick, 1, 1_000_000)?;
        range("changes-per-tick", self.changes_per_tick, 2, 9000)
    }
}

fn range(key: &str, value: u32, least: u32, most: u32) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{key} is {value}; it must be {least} to {most}"))
}
