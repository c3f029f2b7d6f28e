//! The configuration.

use std::time::Duration;

use serde::Deserialize;

/// The shortest time from pass to pass.
const SHORTEST: Duration = Duration::from_secs(60);

/// How the catalog is gone through. Every key has a default.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Config {
    /// Objects looked up in one tick, 1 to 20 000. Each is a request to the
    /// storage.
    pub objects_per_tick: u32,
    /// From the beginning of one pass to that of the next, at least a minute.
    #[serde(deserialize_with = "aedile_plugin::duration::deserialize")]
    pub pass_interval: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            objects_per_tick: 1000,
            pass_interval: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The key that is out of its range, and the range.
    pub fn validate(&self) -> Result<(), String> {
        if !(1..=20_000).contains(&self.objects_per_tick) {
            let value = self.objects_per_tick;
            return Err(format!(
                "objects-per-tick is {value}; it must be 1 to 20000"
            ));
        }
        if self.pass_interval < SHORTEST {
            return Err("pass-interval is too short; it must be at least 1m".to_owned());
        }
        Ok(())
    }
}
