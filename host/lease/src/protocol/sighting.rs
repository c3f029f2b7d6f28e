//! What is known of the row from reading it.

use std::time::Duration;

use aedile_clock::BootInstant;

use super::{Claim, Row, Rules};
use crate::{Seen, is_native};

/// No TTL longer than this is believed.
const LONGEST_TTL: Duration = Duration::from_secs(300);

/// The row as last read, and for how long it has been so.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sighting {
    pub(super) row: Row,
    /// The latest instant at which the first reading can have happened.
    first: BootInstant,
    /// The earliest instant at which the last reading can have happened.
    last: BootInstant,
    /// The latest instant at which the last reading can have happened.
    read: BootInstant,
}

/// What is known of the row and of those who hold it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sightings {
    pub(super) last: Option<Sighting>,
    /// The greatest epoch seen: no later term of ours may repeat it.
    pub(super) greatest: u64,
    /// The longest TTL known.
    patience: Duration,
}

impl Sightings {
    pub(super) fn new(rules: &Rules) -> Self {
        Self {
            last: None,
            greatest: 0,
            patience: rules.ttl.max(rules.others_ttl),
        }
    }

    /// Take note of a row that was read between `sent` and `now`.
    pub(super) fn note(&mut self, row: Row, sent: BootInstant, now: BootInstant) {
        self.greatest = self.greatest.max(row.epoch);
        let mut first = now;
        if let Some(before) = &self.last {
            let same_term = before.row.holder == row.holder && before.row.epoch == row.epoch;
            if same_term && before.row.expires_at_ms == row.expires_at_ms {
                first = before.first;
            } else if same_term && row.expires_at_ms > before.row.expires_at_ms {
                // A renewal. Holders renew four times in a TTL, so the time the
                // row was seen unchanged says how long theirs is at least.
                let unchanged = before.last.since(before.first);
                self.patience = self.patience.max(4 * unchanged).min(LONGEST_TTL);
            }
        }
        self.last = Some(Sighting {
            row,
            first,
            last: sent.max(first),
            read: now,
        });
    }

    /// Whether, and why, this row may be taken.
    pub(super) fn claim(&self, rules: &Rules) -> Option<Claim> {
        let seen = self.last.as_ref()?;
        if seen.row.holder == rules.holder {
            Some(Claim::Own)
        } else if seen.row.expires_at_ms < seen.row.now_ms {
            Some(Claim::Lapsed)
        } else if rules.take_over && is_native(&seen.row.holder) {
            Some(Claim::Native)
        } else if seen.last.since(seen.first) >= self.patience {
            Some(Claim::Unchanged)
        } else {
            None
        }
    }

    /// The instant from which the row can be taken unless it changes.
    pub(super) fn takeable(&self) -> Option<BootInstant> {
        let seen = self.last.as_ref()?;
        let left = seen.left();
        if left.is_zero() {
            return Some(seen.read);
        }
        Some((seen.read + left).min(seen.first + self.patience))
    }

    /// What the owner is shown.
    pub(super) fn seen(&self) -> Option<Seen> {
        let seen = self.last.as_ref()?;
        Some(Seen {
            holder: seen.row.holder.clone(),
            epoch: seen.row.epoch,
            expires_in: seen.left(),
            native: is_native(&seen.row.holder),
        })
    }

    /// The native node that holds the lease, if one does.
    pub(super) fn native(&self) -> Option<&str> {
        let seen = self.last.as_ref()?;
        (!seen.left().is_zero() && is_native(&seen.row.holder)).then_some(&seen.row.holder)
    }
}

impl Sighting {
    /// Until the database's clock has passed the expiry: a lease that lapses in
    /// this very millisecond is still held.
    fn left(&self) -> Duration {
        let left = self.row.expires_at_ms.saturating_sub(self.row.now_ms);
        u64::try_from(left.saturating_add(1)).map_or(Duration::ZERO, Duration::from_millis)
    }
}
