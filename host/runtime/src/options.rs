//! What an operator can set.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aedile_supply::Trust;

use crate::error::RuntimeError;
use crate::guard::OrphanOptions;
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

/// How an object that cannot be deleted is tried again, and when it is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Wait after the first failure; each further one doubles it. 1 ms to
    /// `longest`; default 1 s.
    pub first: Duration,
    /// Longest wait, up to 24 h; default 1 h. An object that fails after it is
    /// parked.
    pub longest: Duration,
    /// Tries after which a composite whose links cannot be read is parked: no
    /// waiting mends it. 1 to 1000; default 3.
    pub unreadable: u32,
    /// How long an object that is to be parked waits for others, so that many
    /// take one log row. Up to 1 h; default 15 s.
    pub gather: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(3600),
            unreadable: 3,
            gather: Duration::from_secs(15),
        }
    }
}

impl Retries {
    /// The wait after so many earlier failures; none at the end of the curve.
    pub(crate) fn wait(&self, before: u32) -> Option<Duration> {
        let doubled = |times: u32| {
            let factor = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
            self.first.saturating_mul(factor).min(self.longest)
        };
        let last = before.checked_sub(1).map(doubled);
        (last != Some(self.longest)).then(|| doubled(before))
    }
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
    /// Whose signatures of modules count, and whether one must be there. Default:
    /// nobody's, and none. The built-in plugins are not asked for one.
    pub trust: Trust,
    /// How often the plugin directory is looked at when no event came.
    /// 100 ms to 1 h; default 2 s.
    pub rescan: Duration,
    /// How long a file must stand still before it is taken. 10 ms to 1 min;
    /// default 250 ms. Shorter risks taking a half-copied file.
    pub settle: Duration,
    /// The operator has confirmed that the store is the right one although no
    /// object of the catalog is in it. Default: false.
    pub confirm_empty_store: bool,
    /// The rules of the sweep for orphans, where the plugin `orphans` runs.
    pub orphans: OrphanOptions,
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
    /// How objects that cannot be deleted are tried again.
    pub retries: Retries,
    /// Failures in a row of a deployed revision's first ticks after which it is
    /// taken back by itself; 0 never takes one back. Up to 1000; default 3.
    pub roll_back_after: u32,
    /// File that names plugins which are not to tick on this node while it is
    /// there; none: there is no such file.
    pub stop_file: Option<PathBuf>,
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
            trust: Trust::default(),
            rescan: Duration::from_secs(2),
            settle: Duration::from_millis(250),
            confirm_empty_store: false,
            orphans: OrphanOptions::default(),
            heartbeat: Duration::from_secs(30),
            catch_up: Duration::from_secs(5),
            failures: 5,
            quarantine: Duration::from_secs(300),
            reject_wait: Duration::from_secs(600),
            retries: Retries::default(),
            roll_back_after: 3,
            stop_file: None,
            seed: None,
        }
    }
}

impl RuntimeOptions {
    /// Names of the plugins that the binary has.
    pub(crate) fn builtin_names(&self) -> std::collections::BTreeSet<String> {
        self.builtins
            .iter()
            .map(|builtin| builtin.name.clone())
            .collect()
    }

    /// Check every range.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] names the first option that is out of its range.
    pub fn validate(&self) -> Result<(), RuntimeError> {
        let hour = Duration::from_secs(3600);
        let day = hour * 24;
        let millis = Duration::from_millis;
        let retries = &self.retries;
        let ranges: [(&'static str, Duration, Duration, Duration); 9] = [
            ("rescan", self.rescan, millis(100), hour),
            ("settle", self.settle, millis(10), millis(60_000)),
            ("heartbeat", self.heartbeat, millis(1_000), hour),
            ("catch-up", self.catch_up, millis(100), millis(60_000)),
            ("quarantine", self.quarantine, millis(1_000), day),
            ("reject-wait", self.reject_wait, millis(1_000), day),
            ("retries.longest", retries.longest, millis(1), day),
            ("retries.first", retries.first, millis(1), retries.longest),
            ("retries.gather", retries.gather, Duration::ZERO, hour),
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
        for (option, value) in [
            ("failures", self.failures),
            ("retries.unreadable", retries.unreadable),
        ] {
            if !(1..=1000).contains(&value) {
                return Err(RuntimeError::Option {
                    option,
                    reason: format!("{value} is out of the range 1 to 1000"),
                });
            }
        }
        if self.roll_back_after > 1000 {
            return Err(RuntimeError::Option {
                option: "roll-back-after",
                reason: format!("{} is out of the range 0 to 1000", self.roll_back_after),
            });
        }
        self.orphans.validate()?;
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
