//! Drives the host's sweep for orphans, and asks the host to delete those that
//! it found old enough.
//!
//! An orphan is a data object in the store that no view of the catalog knows
//! and no composite links: an upload that was never committed, or a part whose
//! composite is gone. What is one, how old it must be and when a sweep may take
//! anything at all is decided by the host; this plugin only gives it time, and
//! stops when told that something stands against it.

mod config;
mod tally;
#[cfg(test)]
mod tests;

use aedile_plugin::{Failure, Host, Plugin, Report, Sweep};

pub use config::Config;
use tally::Tally;

/// The plugin.
#[derive(Debug)]
pub struct Orphans;

impl Plugin for Orphans {
    type Config = Config;
    const MANIFEST: &'static str = include_str!("../manifest.json");

    fn validate(config: &Config) -> Result<(), String> {
        config.validate()
    }

    fn tick(host: &mut impl Host, config: &Config) -> Result<Report, Failure> {
        let mut tally = Tally::default();
        let end = sweep(host, config, &mut tally);
        tally.count(host);
        if let Some(line) = tally.left_line() {
            host.warn(&line);
        }
        match end {
            Ok(End::Waiting) => Ok(tally.report(true, None)),
            Ok(End::Swept(sweep)) => {
                // Set by a whole sweep only: one that was cut short or failed
                // says nothing of how many there are.
                host.gauge("orphans", sweep.candidates as f64);
                host.gauge("orphan_bytes", sweep.bytes as f64);
                if let Some(held) = &sweep.held {
                    host.warn(&format!("nothing is deleted: {held}"));
                }
                Ok(tally.report(false, Some(&sweep)))
            }
            // What was done must not go unreported; the next tick meets the
            // same failure with nothing done.
            Err(failure) if tally.gone() == 0 => Err(failure),
            Err(failure) => {
                let reason = match &failure {
                    Failure::Retry(retry) => &retry.reason,
                    Failure::Reject(text) => text,
                };
                host.warn(&format!("stopped early: {reason}"));
                Ok(tally.report(false, None))
            }
        }
    }
}

/// How a tick's part of a sweep ended.
enum End {
    /// The tick's budget is used up; the sweep goes on in the next one.
    Waiting,
    /// It has come to its end: this is what it said last.
    Swept(Sweep),
}

fn sweep(host: &mut impl Host, config: &Config, tally: &mut Tally) -> Result<End, Failure> {
    while !host.should_stop() && tally.asked() < config.objects_per_tick {
        let sweep = host.find_orphans()?;
        if !sweep.complete {
            continue;
        }
        if sweep.ripe.is_empty() {
            return Ok(End::Swept(sweep));
        }
        let outcomes = host.delete_orphan(&sweep.ripe)?;
        tally.outcomes(&sweep.ripe, outcomes);
        if tally.store_suspect {
            return Ok(End::Swept(sweep));
        }
    }
    Ok(End::Waiting)
}

aedile_plugin::export!(Orphans);
