//! How long takeovers took, and what was swapped or restarted.

use std::collections::{BTreeMap, BTreeSet};

use super::{Bound, Check, Evidence};
use crate::demo::records::{Deed, DeedKind, Observed};

/// The lease row at one moment.
#[derive(Clone, Copy, Debug)]
struct Row<'a> {
    before: i64,
    holder: &'a str,
    epoch: u64,
    expires: i64,
}

fn rows(evidence: &Evidence) -> Vec<Row<'_>> {
    evidence
        .observed
        .iter()
        .filter_map(|line| match line {
            Observed::Lease {
                before,
                holder,
                epoch,
                expires,
                ..
            } => Some(Row {
                before: *before,
                holder,
                epoch: *epoch,
                expires: *expires,
            }),
            Observed::Node { .. } => None,
        })
        .collect()
}

/// When the lease was acquired after the epoch `epoch` ended: the first row of
/// a later one tells, as its expiry is its acquisition and the TTL.
fn acquired_after(rows: &[Row<'_>], epoch: u64, ttl_ms: i64) -> Option<i64> {
    let first = rows
        .iter()
        .find(|row| row.epoch > epoch && !row.holder.is_empty() && row.expires > 0)?;
    Some(first.expires - ttl_ms)
}

/// When the holder of an epoch was last seen to hold it.
fn last_held(rows: &[Row<'_>], epoch: u64) -> Option<i64> {
    let end = rows
        .iter()
        .position(|row| row.epoch > epoch || (row.epoch == epoch && row.expires == 0))?;
    rows.get(end).map(|row| row.before)
}

/// The takeovers against their bounds.
pub(super) fn checks(evidence: &Evidence) -> Vec<Check> {
    let rows = rows(evidence);
    let deed = |kind| evidence.deeds.iter().find(|deed: &&Deed| deed.deed == kind);
    let mut checks = Vec::new();
    let kill = deed(DeedKind::Kill);
    checks.push(Check::new(
        "killed-in-mid-drain",
        kill.map_or(0, |deed| deed.left as i64),
        Bound::AtLeast(1),
        kill.map_or("no leader was killed".to_owned(), |deed| {
            format!(
                "{} was killed with {} destroyed objects still in storage",
                deed.node, deed.left
            )
        }),
    ));
    let crash =
        kill.and_then(|deed| Some(acquired_after(&rows, deed.epoch, evidence.ttl_ms)? - deed.at));
    checks.push(
        Check::new(
            "takeover-after-crash",
            crash.unwrap_or(i64::MAX),
            Bound::AtMost(evidence.ttl_ms + evidence.interval_ms),
            describe(
                crash,
                "from the kill to the next acquisition; TTL and one attempt",
            ),
        )
        .in_ms(),
    );
    let clean = deed(DeedKind::Stop).and_then(|deed| {
        Some(acquired_after(&rows, deed.epoch, evidence.ttl_ms)? - last_held(&rows, deed.epoch)?)
    });
    checks.push(
        Check::new(
            "takeover-after-clean-stop",
            clean.map_or(i64::MAX, |took| took.max(0)),
            Bound::AtMost(evidence.interval_ms),
            describe(
                clean,
                "from the release to the next acquisition; one attempt",
            ),
        )
        .in_ms(),
    );
    checks
}

fn describe(took: Option<i64>, how: &str) -> String {
    if took.is_some() {
        how.to_owned()
    } else {
        format!("nobody took over; measured {how}")
    }
}

/// Swaps and restarts, from what the nodes' rows showed.
pub(super) fn swaps(evidence: &Evidence) -> Vec<Check> {
    let mut last: BTreeMap<(&str, i64, &str), (&str, &str)> = BTreeMap::new();
    let mut starts: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    let mut swaps = Vec::new();
    for line in &evidence.observed {
        let Observed::Node {
            node,
            started,
            plugins,
            ..
        } = line
        else {
            continue;
        };
        starts.entry(node).or_default().insert(*started);
        for (name, version, digest) in plugins {
            let now = (version.as_str(), digest.as_str());
            if let Some(before) = last.insert((node, *started, name), now)
                && before.1 != now.1
            {
                swaps.push(format!("{name} {} → {} on {node}", before.0, now.0));
            }
        }
    }
    let restarts: usize = starts
        .values()
        .map(|starts| starts.len().saturating_sub(1))
        .sum();
    let detail = if swaps.is_empty() {
        "no node swapped a module".to_owned()
    } else {
        swaps.join(", ")
    };
    vec![
        Check::new("swaps", swaps.len() as i64, Bound::Exactly(1), detail),
        Check::new(
            "restarts",
            restarts as i64,
            Bound::Exactly(0),
            format!("{} processes, none began twice", starts.len()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(before: i64, holder: &str, epoch: u64, expires: i64) -> Row<'_> {
        Row {
            before,
            holder,
            epoch,
            expires,
        }
    }

    #[test]
    fn an_acquisition_is_read_from_the_first_row_of_a_later_epoch() {
        let rows = [
            row(0, "a", 1, 10_000),
            row(2_500, "a", 1, 12_500),
            row(12_490, "b", 2, 22_600),
            row(15_000, "b", 2, 25_100),
        ];
        assert_eq!(acquired_after(&rows, 1, 10_000), Some(12_600));
        assert_eq!(last_held(&rows, 1), Some(12_490));
        assert_eq!(acquired_after(&rows, 2, 10_000), None);
    }

    #[test]
    fn a_release_ends_the_holding() {
        let rows = [
            row(0, "a", 1, 10_000),
            row(3_000, "a", 1, 0),
            row(4_000, "b", 2, 14_100),
        ];
        assert_eq!(last_held(&rows, 1), Some(3_000));
        assert_eq!(acquired_after(&rows, 1, 10_000), Some(4_100));
    }
}
