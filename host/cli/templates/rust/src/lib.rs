//! {{name}}: counts the keys that begin with a prefix, and notes each change.
//!
//! A plugin to start from. It has what most need: a configuration, a figure, a
//! note that outlives the leader, and nothing that is proposed twice. PicoMQ
//! names its streams by keys that begin with `/`: by default it counts those.

use aedile_plugin::{Answer, Failure, Host, Plugin, Put, Report};
use serde::Deserialize;

#[cfg(test)]
mod tests;

/// Keys in one page.
const PAGE: u32 = 1000;

/// The plugin.
#[derive(Debug)]
pub struct KeyCount;

/// What an operator can set. A misspelt key is an error, not a default.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What the counted keys begin with.
    pub prefix: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            prefix: "/".to_owned(),
        }
    }
}

impl Plugin for KeyCount {
    type Config = Config;

    const MANIFEST: &'static str = include_str!("../manifest.json");

    fn validate(config: &Config) -> Result<(), String> {
        if config.prefix.is_empty() {
            return Err("prefix: must not be empty".to_owned());
        }
        Ok(())
    }

    fn tick(host: &mut impl Host, config: &Config) -> Result<Report, Failure> {
        let keys = count(host, &config.prefix);
        host.gauge("keys", keys as f64);
        // What is to be remembered lies below the plugin's own prefix. The same
        // note a second time would be a log row for nothing.
        let (key, value) = (note(&host.plugin()), keys.to_string().into_bytes());
        if host.kv_get(&key).as_ref() == Some(&value) {
            return Ok(Report::idle());
        }
        for answer in host.put_kv(&[Put { key, value }])? {
            if let Answer::Rejected(reason) = answer {
                return Err(Failure::Reject(reason));
            }
        }
        Ok(Report {
            summary: format!("{keys} keys begin with {}", config.prefix),
            done: 1,
            failed: 0,
            more: false,
        })
    }
}

/// The key of the note.
fn note(plugin: &str) -> String {
    format!("aedile/kv/{plugin}/keys")
}

/// Counts page by page: an empty page is the last one.
fn count(host: &impl Host, prefix: &str) -> u64 {
    let (mut keys, mut after) = (0, None);
    loop {
        let page = host.kv_keys(prefix, after.as_deref(), PAGE);
        let Some(last) = page.last() else {
            return keys;
        };
        keys += page.len() as u64;
        after = Some(last.clone());
    }
}

aedile_plugin::export!(KeyCount);
