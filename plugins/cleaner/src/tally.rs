//! What a tick did, counted.

use std::fmt::Write;

use aedile_plugin::{Answer, DeleteOutcome, Host, Mark, ObjectId, Operation, Refusal, Report};

/// Counts of one tick. Every mark handled is in exactly one of `kept`,
/// `deleted`, `absent` and the four of what was left.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Marks that keep their data.
    pub(crate) kept: u64,
    /// Marks cleaned, by this tick or by somebody before it.
    pub(crate) cleaned: u64,
    /// The host's check on the store failed.
    pub(crate) store_suspect: bool,
    deleted: u64,
    absent: u64,
    throttled: u64,
    retry: u64,
    denied: u64,
    refused: u64,
    unclean: u64,
    unknown: u64,
    /// The first object that was left, and why.
    example: Option<(ObjectId, String)>,
}

/// Whether bytes have to go before the mark may.
pub(crate) fn has_bytes(mark: &Mark) -> bool {
    mark.operation != Operation::KeepData
}

impl Tally {
    /// Takes an outcome of a delete; true if the bytes are gone.
    pub(crate) fn deleted(&mut self, id: ObjectId, outcome: DeleteOutcome) -> bool {
        let (count, why) = match outcome {
            DeleteOutcome::Deleted => {
                self.deleted += 1;
                return true;
            }
            DeleteOutcome::Absent => {
                self.absent += 1;
                return true;
            }
            DeleteOutcome::Throttled => (&mut self.throttled, "throttled".to_owned()),
            DeleteOutcome::Retry(text) => (&mut self.retry, text),
            DeleteOutcome::Denied(text) => (&mut self.denied, format!("denied: {text}")),
            DeleteOutcome::Refused(refusal) => {
                self.store_suspect |= matches!(refusal, Refusal::StoreSuspect(_));
                (&mut self.refused, refusal_text(refusal))
            }
        };
        *count += 1;
        self.example.get_or_insert((id, why));
        false
    }

    /// Takes the answer to a clean.
    pub(crate) fn answered(&mut self, id: ObjectId, answer: Answer) {
        match answer {
            Answer::Applied | Answer::Redundant => self.cleaned += 1,
            // The next tick sees whether it was applied.
            Answer::Unknown => self.unknown += 1,
            Answer::Rejected(rule) => {
                self.unclean += 1;
                self.example
                    .get_or_insert((id, format!("clean rejected: {rule}")));
            }
        }
    }

    fn left(&self) -> u64 {
        self.throttled + self.retry + self.denied + self.refused + self.unclean
    }

    /// Adds to the plugin's counters what this tick did.
    pub(crate) fn count(&self, host: &mut impl Host) {
        for (name, by) in [
            ("cleaned", self.cleaned),
            ("deleted", self.deleted),
            ("absent", self.absent),
            ("kept", self.kept),
            ("throttled", self.throttled),
            ("retried_later", self.retry),
            ("denied", self.denied),
            ("refused", self.refused),
            ("clean_rejected", self.unclean),
        ] {
            if by > 0 {
                host.count(name, by);
            }
        }
    }

    /// One line about what was left; none if nothing was.
    pub(crate) fn left_line(&self) -> Option<String> {
        let (id, why) = self.example.as_ref()?;
        Some(format!("left {}; object {id}: {why}", self.left()))
    }

    /// The report. Another tick at once makes sense only after one that got
    /// something done: otherwise it would meet the same failures.
    pub(crate) fn report(&self, waiting: bool) -> Report {
        Report {
            summary: self.summary(),
            done: self.cleaned,
            failed: self.left(),
            more: waiting && self.cleaned > 0,
        }
    }

    fn summary(&self) -> String {
        let mut line = String::new();
        if self.cleaned > 0 || self.unknown > 0 {
            let parts = [
                ("deleted", self.deleted),
                ("absent", self.absent),
                ("kept", self.kept),
            ];
            let _ = write!(line, "cleaned {}", self.cleaned);
            write_parts(&mut line, &parts);
        }
        if self.unknown > 0 {
            let _ = write!(line, ", {} with an unknown answer", self.unknown);
        }
        if self.left() > 0 {
            let parts = [
                ("throttled", self.throttled),
                ("to retry", self.retry),
                ("denied", self.denied),
                ("refused", self.refused),
                ("clean rejected", self.unclean),
            ];
            let comma = if line.is_empty() { "" } else { ", " };
            let _ = write!(line, "{comma}left {}", self.left());
            write_parts(&mut line, &parts);
        }
        line
    }
}

/// Appends ` (3 deleted, 1 absent)`, without what is zero.
fn write_parts(line: &mut String, parts: &[(&str, u64)]) {
    let parts: Vec<_> = parts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    let _ = write!(line, " ({})", parts.join(", "));
}

fn refusal_text(refusal: Refusal) -> String {
    match refusal {
        Refusal::NotMarked => "refused: it is not in the queue any more".to_owned(),
        Refusal::KeepData => "refused: its mark keeps the data".to_owned(),
        Refusal::Conflict(text) => format!("conflict: {text}"),
        Refusal::Parked(text) => format!("parked: {text}"),
        Refusal::StoreSuspect(text) => format!("the store is in doubt: {text}"),
    }
}
