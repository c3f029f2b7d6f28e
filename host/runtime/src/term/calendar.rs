//! When a plugin with a cron expression is due, across holders.
//!
//! The time up to which its runs are done lies in the replicated map: whoever
//! leads next knows whether one was missed. However many were, one tick makes
//! up for them.

use std::time::Duration;

use aedile_clock::UnixMillis;
use aedile_log::Answer;
use aedile_state::{Command, State};

use crate::backend::{Backend, Trouble};
use crate::control;
use crate::guard::Guards;
use crate::timetable::Cron;

/// Where it is noted up to when a plugin's runs are done.
const DONE: &str = "aedile/plugin-cron/";

/// Shorter waits are slept through; longer ones are looked at again on the way:
/// the database's clock and this machine's drift apart.
const NEAR: Duration = Duration::from_secs(10);

/// When to look next, and whether the plugin is due then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) wait: Duration,
    /// The time that the run stands for; none: only look again.
    pub(crate) slot: Option<UnixMillis>,
    /// Until the run itself.
    pub(crate) left: Duration,
}

/// The next run after what is done.
pub(crate) fn next(cron: &Cron, done: UnixMillis, now: UnixMillis) -> Option<Next> {
    let slot = cron.after(done)?;
    let left = u64::try_from(slot.0.saturating_sub(now.0)).unwrap_or(0);
    let left = Duration::from_millis(left);
    Some(if left > NEAR {
        Next {
            wait: left * 9 / 10,
            slot: None,
            left,
        }
    } else {
        Next {
            wait: left,
            slot: Some(slot),
            left,
        }
    })
}

/// Up to when the runs of a plugin are done: as noted, else since it was
/// deployed; none if nothing is known.
pub(crate) fn done(state: &State, name: &str, revision: Option<u64>) -> Option<UnixMillis> {
    let noted = state
        .kv_get(&format!("{DONE}{name}"))
        .and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    let deployed = revision
        .and_then(|number| control::revision(state, name, number)?.ok())
        .map(|revision| revision.record.at_ms);
    // A schedule that was set later does not make up for what lies before it.
    noted.max(deployed).map(UnixMillis)
}

/// Note it.
pub(crate) async fn note<B: Backend>(guards: &Guards<B>, name: &str, done: UnixMillis) {
    let put = Command::PutKv {
        key: format!("{DONE}{name}"),
        value: done.0.to_string().into_bytes(),
    };
    match guards.propose("aedile", vec![put]).await {
        Ok(answers) if !answers.contains(&Answer::Unknown) => {}
        Err(Trouble::LeaseLost) => {}
        Ok(_) => tracing::warn!(plugin = name, "it is not known whether its run was noted"),
        Err(Trouble::Unavailable(reason)) => {
            tracing::warn!(plugin = name, %reason, "its run was not noted; another holder may run it once more");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(seconds: i64) -> UnixMillis {
        UnixMillis(seconds * 1000)
    }

    #[test]
    fn a_missed_run_is_due_at_once_and_once() {
        let hourly = Cron::parse("0 * * * *").expect("an expression");
        // Done up to 00:00; it is 05:30: five were missed.
        let now = ms(5 * 3600 + 1800);
        let due = next(&hourly, ms(0), now).expect("it comes");
        assert_eq!((due.wait, due.slot), (Duration::ZERO, Some(ms(3600))));
        // What the tick stands for is everything up to its own time.
        let after = next(&hourly, now, now).expect("it comes");
        assert_eq!(after.left, Duration::from_secs(1800));
        assert_eq!((after.slot, after.wait), (None, Duration::from_secs(1620)));
    }

    #[test]
    fn a_near_run_is_waited_for() {
        let every = Cron::parse("*/5 * * * * *").expect("an expression");
        let due = next(&every, ms(60), UnixMillis(61_000)).expect("it comes");
        assert_eq!(due.slot, Some(ms(65)));
        assert_eq!(due.wait, Duration::from_secs(4));
    }
}
