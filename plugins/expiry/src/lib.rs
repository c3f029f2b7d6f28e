//! Expires reservations that have lapsed: one command when there is one, none
//! when there is not.
//!
//! A reservation is an object id given out for an upload. An upload that never
//! commits leaves it behind; past its deadline the state may forget it. The
//! host fills in the time, so that neither this plugin nor a node's clock
//! decides what has lapsed.

#[cfg(test)]
mod tests;

use std::time::Duration;

use aedile_plugin::{Answer, Failure, Host, Plugin, Report};
use serde::Deserialize;

/// How far lapsed reservations are counted for the report.
const COUNTED: u32 = 2000;

/// The plugin.
#[derive(Debug)]
pub struct Expiry;

/// There is nothing to configure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl Plugin for Expiry {
    type Config = Config;
    const MANIFEST: &'static str = include_str!("../manifest.json");

    fn tick(host: &mut impl Host, _config: &Config) -> Result<Report, Failure> {
        let lapsed = host.lapsed_count(COUNTED);
        if lapsed == 0 {
            return Ok(Report::idle());
        }
        let report = |summary, done| Report {
            summary,
            done,
            ..Report::idle()
        };
        match host.expire_reservations()? {
            Answer::Applied => {
                host.count("expired", u64::from(lapsed));
                let (at_least, s) = (
                    if lapsed == COUNTED { "at least " } else { "" },
                    if lapsed == 1 { "" } else { "s" },
                );
                let summary = format!("expired {at_least}{lapsed} reservation{s}");
                Ok(report(summary, u64::from(lapsed)))
            }
            // Another holder, or a native node, was first.
            Answer::Redundant => Ok(Report::idle()),
            Answer::Unknown => Ok(report(
                "an expiry was sent, its answer is unknown".to_owned(),
                0,
            )),
            Answer::Rejected(rule) => Err(Failure::retry(
                Duration::ZERO,
                format!("the expiry was rejected: {rule}"),
            )),
        }
    }
}

aedile_plugin::export!(Expiry);
