//! Objects set aside: the holder's own memory of what cannot be deleted now.
//!
//! A page of the destroyed queue leaves these out, so that one object that can
//! never be deleted does not delay the others. A successor tries each once more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aedile_clock::BootInstant;

use crate::entropy::Entropy;

/// First wait of an object; it doubles with each further failure.
const FIRST: Duration = Duration::from_secs(1);
/// Longest wait of an object.
const LONGEST: Duration = Duration::from_secs(3600);
/// Most objects that are remembered: beyond, an object is simply tried again.
const MOST: usize = 1 << 20;

/// Why an object is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The store could not or would not.
    Failed(String),
    /// Its mark contradicts the catalog.
    Conflict(String),
    /// This version does not handle it.
    Parked(String),
}

impl Why {
    /// The text for people.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Failed(text) | Self::Conflict(text) | Self::Parked(text) => text,
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    why: Why,
    tries: u32,
    /// None: for as long as the holder lives.
    until: Option<BootInstant>,
}

/// Whether an object that was set aside is ever tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tries {
    /// On the curve from a second to an hour.
    OnTheCurve,
    /// Once: a single pass.
    Once,
}

/// The objects that are set aside.
#[derive(Debug)]
pub(crate) struct Aside {
    tries: Tries,
    entries: Mutex<HashMap<u64, Entry>>,
}

impl Aside {
    pub(crate) fn new(tries: Tries) -> Self {
        Self {
            tries,
            entries: Mutex::new(HashMap::new()),
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Set an object aside, longer than the last time; whether it is a new one.
    pub(crate) fn put(&self, id: u64, why: Why, now: BootInstant, entropy: &Entropy) -> bool {
        let mut entries = self.entries();
        if entries.len() >= MOST && !entries.contains_key(&id) {
            return false;
        }
        let tries = entries.get(&id).map_or(0, |entry| entry.tries);
        let until = match (&why, self.tries) {
            // A composite stays one: nothing changes until it is handled.
            (Why::Parked(_), _) | (_, Tries::Once) => None,
            _ => Some(now + entropy.spread((FIRST * (1 << tries.min(12))).min(LONGEST))),
        };
        let entry = Entry {
            why,
            tries: tries.saturating_add(1),
            until,
        };
        entries.insert(id, entry).is_none()
    }

    /// Whether an object is set aside at this time.
    pub(crate) fn holds(&self, id: u64, now: BootInstant) -> bool {
        self.entries()
            .get(&id)
            .is_some_and(|entry| entry.until.is_none_or(|until| now < until))
    }

    /// Why an object was set aside, if it is parked.
    pub(crate) fn parked(&self, id: u64) -> Option<String> {
        match self.entries().get(&id) {
            Some(Entry {
                why: Why::Parked(text),
                ..
            }) => Some(text.clone()),
            _ => None,
        }
    }

    /// Forget an object: it is gone, or its mark is.
    pub(crate) fn forget(&self, id: u64) {
        self.entries().remove(&id);
    }

    /// Forget what is no longer marked.
    pub(crate) fn retain(&self, marked: impl Fn(u64) -> bool) {
        self.entries().retain(|&id, _| marked(id));
    }

    /// What is set aside, by id.
    pub(crate) fn list(&self) -> Vec<(u64, Why)> {
        let mut list: Vec<_> = self
            .entries()
            .iter()
            .map(|(&id, entry)| (id, entry.why.clone()))
            .collect();
        list.sort_unstable_by_key(|&(id, _)| id);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> Why {
        Why::Failed("denied".to_owned())
    }

    #[test]
    fn the_curve_runs_from_a_second_to_an_hour() {
        let entropy = Entropy::new(Some(3));
        let aside = Aside::new(Tries::OnTheCurve);
        let mut now = BootInstant::from_boot(Duration::from_secs(100));
        let mut expect = Duration::from_secs(1);
        for _ in 0..40 {
            aside.put(9, failed(), now, &entropy);
            assert!(aside.holds(9, now));
            assert!(aside.holds(9, now + expect * 3 / 4 - Duration::from_nanos(1)));
            now = now + expect;
            assert!(!aside.holds(9, now));
            expect = (expect * 2).min(LONGEST);
        }
        aside.forget(9);
        assert!(aside.list().is_empty());
    }

    #[test]
    fn a_single_pass_tries_once_and_a_parked_object_stays() {
        let entropy = Entropy::new(Some(3));
        let start = BootInstant::from_boot(Duration::ZERO);
        let later = start + Duration::from_secs(1_000_000);
        let once = Aside::new(Tries::Once);
        once.put(1, failed(), start, &entropy);
        assert!(once.holds(1, later));
        let curve = Aside::new(Tries::OnTheCurve);
        curve.put(2, Why::Parked("composite".to_owned()), start, &entropy);
        assert!(curve.holds(2, later) && curve.parked(2).is_some());
        curve.retain(|id| id != 2);
        assert!(!curve.holds(2, start));
    }
}
