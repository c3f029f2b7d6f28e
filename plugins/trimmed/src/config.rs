//! The configuration.

use serde::Deserialize;

/// How the streams are worked through. Every key has a default.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Config {
    /// Objects of one stream that go into one command, 1 to 1000.
    pub objects_per_command: u32,
    /// Objects handled before the tick ends and asks for another, 1 to 100 000.
    pub objects_per_tick: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            objects_per_command: 1000,
            objects_per_tick: 10_000,
        }
    }
}

impl Config {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The key that is out of its range, and the range.
    pub fn validate(&self) -> Result<(), String> {
        for (key, value, most) in [
            ("objects-per-command", self.objects_per_command, 1000),
            ("objects-per-tick", self.objects_per_tick, 100_000),
        ] {
            if value < 1 || value > most {
                return Err(format!("{key} is {value}; it must be 1 to {most}"));
            }
        }
        Ok(())
    }
}
