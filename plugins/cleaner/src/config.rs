//! The configuration.

use serde::Deserialize;

/// How the queue is worked off. Every key has a default.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Config {
    /// Marks read from the queue at once, 1 to 2000.
    pub batch: u32,
    /// Marks that go into one delete and one clean, 1 to 1000: what a crash
    /// repeats.
    pub chunk: u32,
    /// Marks handled before the tick ends and asks for another, 1 to 100 000.
    /// Each chunk costs one command of the tick's limit, each mark with bytes one
    /// storage operation.
    pub objects_per_tick: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            batch: 2000,
            chunk: 1000,
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
            ("batch", self.batch, 2000),
            ("chunk", self.chunk, 1000),
            ("objects-per-tick", self.objects_per_tick, 100_000),
        ] {
            if value < 1 || value > most {
                return Err(format!("{key} is {value}; it must be 1 to {most}"));
            }
        }
        Ok(())
    }
}
