//! When a plugin's next tick is due, and what its failures cost it.

use std::time::Duration;

use crate::entropy::Entropy;

/// First wait after a failure; it doubles with each further one.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// Longest wait between two tries outside quarantine.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// The regular rhythm of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rhythm {
    pub(crate) interval: Duration,
    pub(crate) jitter: Duration,
}

impl Rhythm {
    /// What is left to wait after a tick that took `took`.
    pub(crate) fn wait(&self, took: Duration, entropy: &Entropy) -> Duration {
        (self.interval + entropy.up_to(self.jitter)).saturating_sub(took)
    }
}

/// What failures cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Failures in a row after which the circuit opens.
    pub(crate) failures: u32,
    /// How long it stays open before one tick is tried.
    pub(crate) quarantine: Duration,
    /// How long a plugin waits that says that trying again is of no use.
    pub(crate) reject_wait: Duration,
}

/// How a tick failed, as far as the policy cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The plugin asks to be called again, not before this long.
    Retry(Duration),
    /// The plugin says that an operator must act.
    Reject,
    /// It trapped, exceeded a limit, or the host failed it.
    Fault,
}

/// How a plugin has been doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Failures in a row.
    pub(crate) failures: u32,
    /// Of those, the ones that count towards quarantine.
    faults: u32,
    /// Whether the circuit is open.
    pub(crate) quarantined: bool,
    /// Why the last failure happened; none after a success.
    pub(crate) error: Option<String>,
}

impl Record {
    /// A tick went well: the circuit closes.
    pub(crate) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// A tick failed: how long to wait before the next. After `failures` faults
    /// in a row the circuit opens; the one tick after `quarantine` is the trial
    /// that closes it or opens it again.
    pub(crate) fn failed(
        &mut self,
        failure: Failure,
        error: String,
        policy: &Policy,
        entropy: &Entropy,
    ) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.error = Some(error);
        let doublings = self.failures.saturating_sub(1).min(16);
        let backoff = entropy.spread((FIRST_BACKOFF * (1 << doublings)).min(LONGEST_BACKOFF));
        // A plugin that asks for patience (a store that throttles) is not at
        // fault; it is never quarantined for it.
        if let Failure::Retry(after) = failure {
            return backoff.max(after.min(policy.quarantine));
        }
        self.faults = self.faults.saturating_add(1);
        self.quarantined = self.faults >= policy.failures;
        if self.quarantined {
            return entropy.spread(policy.quarantine);
        }
        match failure {
            Failure::Reject => entropy.spread(policy.reject_wait),
            Failure::Retry(_) | Failure::Fault => backoff,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy {
        failures: 3,
        quarantine: Duration::from_secs(300),
        reject_wait: Duration::from_secs(600),
    };

    fn between(wait: Duration, most: u64) -> bool {
        let most = Duration::from_secs(most);
        wait <= most && wait >= most * 3 / 4
    }

    #[test]
    fn faults_double_and_open_the_circuit() {
        let entropy = Entropy::new(Some(1));
        let mut record = Record::default();
        let fail = |record: &mut Record| {
            record.failed(Failure::Fault, "trap".to_owned(), &POLICY, &entropy)
        };
        assert!(between(fail(&mut record), 1));
        assert!(between(fail(&mut record), 2));
        assert!(!record.quarantined);
        assert!(between(fail(&mut record), 300));
        assert!(record.quarantined);
        // The trial fails: open again. It succeeds: closed, and all is forgotten.
        assert!(between(fail(&mut record), 300));
        record.succeeded();
        assert_eq!(record, Record::default());
        assert!(between(fail(&mut record), 1));
    }

    #[test]
    fn asking_for_patience_is_no_fault() {
        let entropy = Entropy::new(Some(1));
        let mut record = Record::default();
        for _ in 0..50 {
            let wait = record.failed(
                Failure::Retry(Duration::from_secs(7)),
                "throttled".to_owned(),
                &POLICY,
                &entropy,
            );
            assert!(wait >= Duration::from_secs(7) && wait <= Duration::from_secs(60));
        }
        assert!(!record.quarantined);
        // A plugin cannot put itself to sleep for ever.
        let wait = record.failed(
            Failure::Retry(Duration::MAX),
            "for ever".to_owned(),
            &POLICY,
            &entropy,
        );
        assert_eq!(wait, POLICY.quarantine);
    }

    #[test]
    fn a_reject_waits_longer() {
        let entropy = Entropy::new(Some(1));
        let mut record = Record::default();
        let wait = record.failed(Failure::Reject, "set `keep`".to_owned(), &POLICY, &entropy);
        assert!(between(wait, 600));
        assert_eq!(record.error.as_deref(), Some("set `keep`"));
    }

    #[test]
    fn the_rhythm_counts_the_tick_itself() {
        let entropy = Entropy::new(Some(1));
        let rhythm = Rhythm {
            interval: Duration::from_secs(10),
            jitter: Duration::from_secs(2),
        };
        for _ in 0..100 {
            let wait = rhythm.wait(Duration::from_secs(4), &entropy);
            assert!(wait >= Duration::from_secs(6) && wait <= Duration::from_secs(8));
        }
        assert_eq!(
            rhythm.wait(Duration::from_secs(60), &entropy),
            Duration::ZERO
        );
    }
}
