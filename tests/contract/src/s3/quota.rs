//! So many keys a second, as S3 grants them to a partition.

use aedile_clock::BootInstant;

/// A bucket of grants that fills up to a second's worth.
#[derive(Debug)]
pub(super) struct Quota {
    keys_per_second: f64,
    saved: f64,
    at: BootInstant,
}

impl Quota {
    pub(super) fn new(keys_per_second: f64, now: BootInstant) -> Self {
        Self {
            keys_per_second,
            saved: keys_per_second,
            at: now,
        }
    }

    pub(super) fn grants(&mut self, keys: usize, now: BootInstant) -> bool {
        let since = now.since(self.at).as_secs_f64();
        self.saved = (self.saved + since * self.keys_per_second).min(self.keys_per_second);
        self.at = now;
        let grants = self.saved >= keys as f64;
        if grants {
            self.saved -= keys as f64;
        }
        grants
    }
}
