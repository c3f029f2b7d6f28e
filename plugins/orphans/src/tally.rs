//! What a tick did, counted.

use std::fmt::Write;

use aedile_plugin::{DeleteOutcome, Host, ObjectId, Refusal, Report, Sweep};

/// Counts of one tick. Every orphan asked for is in exactly one of them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The host refused because of the store or the sweep as a whole.
    pub(crate) store_suspect: bool,
    deleted: u64,
    absent: u64,
    /// Known again, or for another reason no orphan any more.
    spared: u64,
    failed: u64,
    /// The first object that could not be deleted, and why.
    example: Option<(ObjectId, String)>,
}

impl Tally {
    /// Takes the outcomes of a delete. An id without one counts as failed.
    pub(crate) fn outcomes(&mut self, ids: &[ObjectId], outcomes: Vec<DeleteOutcome>) {
        let mut outcomes = outcomes.into_iter();
        for &id in ids {
            let failed = match outcomes.next() {
                Some(DeleteOutcome::Deleted) => {
                    self.deleted += 1;
                    continue;
                }
                Some(DeleteOutcome::Absent) => {
                    self.absent += 1;
                    continue;
                }
                Some(DeleteOutcome::Refused(Refusal::StoreSuspect(text))) => {
                    self.store_suspect = true;
                    text
                }
                Some(DeleteOutcome::Refused(_)) => {
                    self.spared += 1;
                    continue;
                }
                Some(DeleteOutcome::Throttled) => "throttled".to_owned(),
                Some(DeleteOutcome::Retry(text)) => text,
                Some(DeleteOutcome::Denied(text)) => format!("denied: {text}"),
                None => "the host did not say".to_owned(),
            };
            self.failed += 1;
            self.example.get_or_insert((id, failed));
        }
    }

    /// Orphans asked for so far.
    pub(crate) fn asked(&self) -> u64 {
        self.gone() + self.spared + self.failed
    }

    /// Orphans whose bytes are gone.
    pub(crate) fn gone(&self) -> u64 {
        self.deleted + self.absent
    }

    /// Adds to the plugin's counters what this tick did.
    pub(crate) fn count(&self, host: &mut impl Host) {
        for (name, by) in [
            ("deleted", self.deleted),
            ("absent", self.absent),
            ("spared", self.spared),
            ("failed", self.failed),
        ] {
            if by > 0 {
                host.count(name, by);
            }
        }
    }

    /// One line about what could not be deleted; none if all could.
    pub(crate) fn left_line(&self) -> Option<String> {
        let (id, why) = self.example.as_ref()?;
        Some(format!("left {}; object {id}: {why}", self.failed))
    }

    /// The report.
    pub(crate) fn report(&self, more: bool, sweep: Option<&Sweep>) -> Report {
        let mut line = String::new();
        if self.gone() > 0 {
            let _ = write!(line, "deleted {} orphans", self.gone());
        }
        for (count, what) in [(self.spared, "known again"), (self.failed, "left")] {
            if count > 0 {
                let comma = if line.is_empty() { "" } else { ", " };
                let _ = write!(line, "{comma}{count} {what}");
            }
        }
        if let Some(held) = sweep.and_then(|sweep| sweep.held.as_ref()) {
            let comma = if line.is_empty() { "" } else { "; " };
            let _ = write!(line, "{comma}nothing is deleted: {held}");
        }
        Report {
            summary: line,
            done: self.gone(),
            failed: self.failed,
            more,
        }
    }
}
