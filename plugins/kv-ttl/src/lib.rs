//! Deletes keys of the replicated key-value map that have not changed for
//! longer than a time-to-live.
//!
//! The map keeps no times, so this plugin keeps them: for each key below a
//! rule's prefix, one entry of 10 bytes under `aedile/kv/<plugin>/seen/` says
//! when a tick first saw it with its present value. A tick walks the keys and
//! those entries side by side, as both are sorted:
//!
//! | the key is | its entry is | then |
//! |---|---|---|
//! | there | missing, or of another value | note the time |
//! | there, older than its time-to-live | there | delete both |
//! | there, younger | there | nothing |
//! | gone, or no rule's any more | there | delete the entry |
//!
//! So a tick in which nothing was written and nothing has lapsed proposes
//! nothing. All that a tick needs is in the replicated map: after a takeover,
//! another node goes on with the same times.
//!
//! `config` holds the rules, `seen` an entry, `look` finds out what is to be
//! done, `act` does it.

mod act;
mod config;
mod look;
mod seen;
#[cfg(test)]
mod tests;

use aedile_plugin::{Failure, Host, Plugin, Report};

pub use config::{Config, Rule};

/// The plugin.
#[derive(Debug)]
pub struct KvTtl;

impl Plugin for KvTtl {
    type Config = Config;

    #[cfg(not(feature = "next"))]
    const MANIFEST: &'static str = include_str!("../manifest.json");
    #[cfg(feature = "next")]
    const MANIFEST: &'static str = include_str!("../manifest-next.json");

    fn validate(config: &Config) -> Result<(), String> {
        config.validate()
    }

    fn tick(host: &mut impl Host, config: &Config) -> Result<Report, Failure> {
        let plan = look::look(host, config);
        let done = act::act(host, &plan)?;
        if done.deleted > 0 {
            host.count("deleted", done.deleted);
        }
        #[cfg(feature = "next")]
        if let Some(census) = &plan.census {
            host.gauge("keys", census.keys as f64);
            host.gauge("oldest_seconds", census.oldest.as_secs_f64());
        }
        Ok(Report {
            summary: summary(&plan, &done),
            done: done.deleted,
            failed: done.failed,
            more: plan.more && done.failed == 0,
        })
    }
}

/// One line, empty if nothing was deleted: noting times is not worth a record.
fn summary(plan: &look::Plan, done: &act::Done) -> String {
    if done.deleted == 0 {
        return String::new();
    }
    let keys = |count| format!("{count} key{}", if count == 1 { "" } else { "s" });
    let line = format!("deleted {}", keys(done.deleted));
    #[cfg(feature = "next")]
    if let Some(census) = &plan.census {
        let oldest = aedile_plugin::duration::format(census.oldest);
        return format!(
            "{line}; {} left, the oldest {oldest} old",
            keys(census.keys)
        );
    }
    let _ = plan;
    line
}

aedile_plugin::export!(KvTtl);
