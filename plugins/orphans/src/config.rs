//! The configuration.

use serde::Deserialize;

/// How much a tick does. Every rule of what may go is the host's and is set
/// there, not here.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Config {
    /// Orphans deleted before the tick ends and asks for another, 1 to 50 000.
    /// Each costs one storage operation of the tick's limit.
    pub objects_per_tick: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            objects_per_tick: 10_000,
        }
    }
}

impl Config {
    /// Checks the range.
    ///
    /// # Errors
    /// The key that is out of its range, and the range.
    pub fn validate(&self) -> Result<(), String> {
        let value = self.objects_per_tick;
        if !(1..=50_000).contains(&value) {
            return Err(format!(
                "objects-per-tick is {value}; it must be 1 to 50000"
            ));
        }
        Ok(())
    }
}
