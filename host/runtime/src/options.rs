//! What an operator can set.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::error::RuntimeError;
use crate::source::PluginSettings;

/// A plugin that ships inside the binary.
#[derive(Clone, Debug)]
pub struct Builtin {
    /// Its name, as its manifest has it.
    pub name: String,
    /// The module's bytes.
    pub bytes: Arc<[u8]>,
    /// What the operator set for it. Its grants are those that its manifest
    /// wants, whatever stands here.
    pub settings: PluginSettings,
}

/// Options of the runtime. Every field has a default that suits production.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Name of this node, as `aedile status` shows it. Default: `aedile`.
    pub node: String,
    /// Version of the program, for the heartbeat. Default: this crate's.
    pub version: String,
    /// Plugins that ship inside the binary.
    pub builtins: Vec<Builtin>,
    /// Directory that is watched for plugins; none: only the built-in ones.
    pub plugin_dir: Option<PathBuf>,
    /// How often the plugin directory is looked at when no event came.
    /// 100 ms to 1 h; default 2 s.
    pub rescan: Duration,
    /// How long a file must stand still before it is taken. 10 ms to 1 min;
    /// default 250 ms. Shorter risks taking a half-copied file.
    pub settle: Duration,
    /// The operator has confirmed that the store is the right one although no
    /// object of the catalog is in it. Default: false.
    pub confirm_empty_store: bool,
    /// How often this node writes its heartbeat row. 1 s to 1 h; default 30 s.
    pub heartbeat: Duration,
    /// How long a call waits until the view has caught up with the log's tail.
    /// 100 ms to 1 min; default 5 s.
    pub catch_up: Duration,
    /// Failures of one plugin in a row after which it is quarantined. 1 to
    /// 1000; default 5.
    pub failures: u32,
    /// How long a quarantined plugin waits before it is tried again. 1 s to
    /// 24 h; default 5 min.
    pub quarantine: Duration,
    /// How long a plugin that says that trying again is of no use waits.
    /// 1 s to 24 h; default 10 min.
    pub reject_wait: Duration,
    /// Seed of jitter and backoff; none: a random one.
    pub seed: Option<u64>,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            node: "aedile".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            builtins: Vec::new(),
            plugin_dir: None,
            rescan: Duration::from_secs(2),
            settle: Duration::from_millis(250),
            confirm_empty_store: false,
            heartbeat: Duration::from_secs(30),
            catch_up: Duration::from_secs(5),
            failures: 5,
            quarantine: Duration::from_secs(300),
            reject_wait: Duration::from_secs(600),
            seed: None,
        }
    }
}

impl RuntimeOptions {
    /// Check every range.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] names the first option that is out of its range.
    pub fn validate(&self) -> Result<(), RuntimeError> {
        let hour = Duration::from_secs(3600);
        let day = hour * 24;
        let millis = Duration::from_millis;
        let ranges: [(&'static str, Duration, Duration, Duration); 6] = [
            ("rescan", self.rescan, millis(100), hour),
            ("settle", self.settle, millis(10), millis(60_000)),
            ("heartbeat", self.heartbeat, millis(1_000), hour),
            ("catch-up", self.catch_up, millis(100), millis(60_000)),
            ("quarantine", self.quarantine, millis(1_000), day),
            ("reject-wait", self.reject_wait, millis(1_000), day),
        ];
        for (option, value, least, most) in ranges {
            if value < least || value > most {
                return Err(RuntimeError::Option {
                    option,
                    reason: format!(
                        "{} is out of the range {} to {}",
                        humantime::format_duration(value),
                        humantime::format_duration(least),
                        humantime::format_duration(most)
                    ),
                });
            }
        }
        if !(1..=1000).contains(&self.failures) {
            return Err(RuntimeError::Option {
                option: "failures",
                reason: format!("{} is out of the range 1 to 1000", self.failures),
            });
        }
        if self.node.is_empty() || self.node.len() > 128 {
            return Err(RuntimeError::Option {
                option: "node",
                reason: "a node's name has 1 to 128 bytes".to_owned(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_in_range() {
        RuntimeOptions::default().validate().expect("valid");
    }

    #[test]
    fn an_option_out_of_range_is_named() {
        let options = RuntimeOptions {
            settle: Duration::ZERO,
            ..RuntimeOptions::default()
        };
        let error = options.validate().expect_err("too short").to_string();
        assert!(
            error.contains("settle") && error.contains("10ms"),
            "{error}"
        );
    }
}
