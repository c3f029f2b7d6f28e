//! Whether the store is the one that the catalog speaks of.
//!
//! In the wrong bucket every object is absent, and absent counts as deleted: the
//! catalog would forget bytes that exist elsewhere. So before the first delete of
//! a term a few live objects are looked up.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aedile_clock::BootInstant;
use aedile_state::{ObjectId, State};

/// Live objects that are looked up.
pub(crate) const SAMPLE: usize = 16;
/// How long a doubt stands before the store is looked at again: a directory
/// that was not mounted may be by then.
const AGAIN: Duration = Duration::from_secs(30);

/// What is known of the store in this term.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Nothing yet.
    #[default]
    Unknown,
    /// An object of the catalog is in it, or the operator confirmed it.
    Trusted,
    /// It may be the wrong one.
    Suspect(String),
}

#[derive(Debug, Default)]
struct Inner {
    trust: Trust,
    since: Option<BootInstant>,
}

/// The term's opinion of the store.
#[derive(Debug)]
pub(crate) struct StoreTrust {
    confirmed: bool,
    inner: Mutex<Inner>,
}

impl StoreTrust {
    pub(crate) fn new(confirmed: bool) -> Self {
        Self {
            confirmed,
            inner: Mutex::default(),
        }
    }

    /// Whether the operator has confirmed the store.
    pub(crate) fn confirmed(&self) -> bool {
        self.confirmed
    }

    /// What is known; a doubt that is old enough counts as nothing known.
    pub(crate) fn now(&self, now: BootInstant) -> Trust {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let old = inner.since.is_none_or(|since| now.since(since) >= AGAIN);
        match &inner.trust {
            Trust::Suspect(_) if old => Trust::Unknown,
            trust => trust.clone(),
        }
    }

    /// The doubt that stands; none if none does.
    pub(crate) fn doubt(&self) -> Option<String> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match &inner.trust {
            Trust::Suspect(text) => Some(text.clone()),
            Trust::Unknown | Trust::Trusted => None,
        }
    }

    /// The objects to look up.
    pub(crate) fn sample(state: &State) -> Vec<ObjectId> {
        state.sample_live(SAMPLE)
    }

    /// Judge by what was found of the sample, or, with no live object to look
    /// for, of the first chunk.
    pub(crate) fn judge(&self, live: &[ObjectId], found: Found, now: BootInstant) -> Trust {
        let trust = if found.present > 0 {
            Trust::Trusted
        } else if !live.is_empty() {
            Trust::Suspect(format!(
                "none of the {} live objects that were looked up ({}, …) is in the store: it is \
                 probably the wrong bucket or directory, or it is not mounted; check --storage. \
                 Nothing is deleted until one is found",
                live.len(),
                aedile_storage::object_key(live[0].0)
            ))
        } else if found.absent == 0 {
            Trust::Unknown
        } else if self.confirmed {
            Trust::Trusted
        } else {
            Trust::Suspect(format!(
                "the catalog has no live object to look for, and none of the first {} objects to \
                 delete is in the store: it may be the wrong bucket or directory; if it is the \
                 right one, confirm it with --confirm-empty-store",
                found.absent
            ))
        };
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.trust = trust.clone();
        inner.since = Some(now);
        trust
    }
}

/// How many of the objects that were looked up are in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) present: usize,
    pub(crate) absent: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_boot(Duration::from_secs(seconds))
    }

    #[test]
    fn one_object_found_is_enough_and_lasts() {
        let trust = StoreTrust::new(false);
        assert_eq!(trust.now(at(0)), Trust::Unknown);
        let live: Vec<_> = (0..16).map(ObjectId).collect();
        let found = Found {
            present: 1,
            absent: 15,
        };
        assert_eq!(trust.judge(&live, found, at(0)), Trust::Trusted);
        assert_eq!(trust.now(at(1_000_000)), Trust::Trusted);
        assert_eq!(trust.doubt(), None);
    }

    #[test]
    fn none_found_is_a_doubt_that_is_looked_at_again() {
        let trust = StoreTrust::new(true);
        let live = [ObjectId(46)];
        // The operator's word counts only where there is nothing to look for.
        let verdict = trust.judge(
            &live,
            Found {
                present: 0,
                absent: 1,
            },
            at(5),
        );
        let Trust::Suspect(text) = verdict else {
            panic!("a doubt")
        };
        assert!(text.contains("e2000000/DEFAULT/46"));
        assert!(matches!(trust.now(at(6)), Trust::Suspect(_)));
        assert_eq!(trust.now(at(35)), Trust::Unknown);
        assert!(trust.doubt().is_some());
    }

    #[test]
    fn without_a_live_object_the_first_chunk_decides() {
        let absent = Found {
            present: 0,
            absent: 3,
        };
        let careful = StoreTrust::new(false);
        assert_eq!(careful.judge(&[], Found::default(), at(0)), Trust::Unknown);
        let Trust::Suspect(text) = careful.judge(&[], absent, at(0)) else {
            panic!("a doubt")
        };
        assert!(text.contains("--confirm-empty-store"));
        let some = Found {
            present: 1,
            absent: 2,
        };
        assert_eq!(careful.judge(&[], some, at(60)), Trust::Trusted);
        assert_eq!(
            StoreTrust::new(true).judge(&[], absent, at(0)),
            Trust::Trusted
        );
    }
}
