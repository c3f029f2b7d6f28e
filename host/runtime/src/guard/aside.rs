//! Objects set aside: the holder's own memory of what cannot be deleted now.
//!
//! A page of the destroyed queue leaves these out, so that one object that can
//! never be deleted does not delay the others. A successor tries each once more.
//! What has failed to the end of its curve is due to be parked for good (see
//! [`crate::parked`]).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aedile_clock::BootInstant;

use crate::entropy::Entropy;
use crate::options::Retries;
use crate::parked::{CHUNK, ParkedObject};

/// Wait of an object that is held back: what it waits for is another object.
const HELD: Duration = Duration::from_secs(300);
/// Most objects that are remembered: beyond, an object is simply tried again.
const MOST: usize = 1 << 20;

/// Why an object is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The store could not or would not.
    Failed(String),
    /// Its mark contradicts the catalog.
    Conflict(String),
    /// A live composite that cannot be read may link it.
    Held(String),
    /// Its mark takes what it links, and that cannot be read.
    Unreadable(String),
}

impl Why {
    /// The text for people.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Failed(text)
            | Self::Conflict(text)
            | Self::Held(text)
            | Self::Unreadable(text) => text,
        }
    }
}

/// When an object is tried again.
#[derive(Clone, Copy, Debug)]
enum Next {
    At(BootInstant),
    /// Not in this pass.
    NotAgain,
    /// Not before an operator asks: it is to be parked, since then.
    Due(BootInstant),
}

#[derive(Clone, Debug)]
struct Entry {
    why: Why,
    tries: u32,
    next: Next,
}

/// Whether an object that was set aside is ever tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tries {
    /// On this curve, and then parked.
    OnTheCurve(Retries),
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
        let before = entries.get(&id).map_or(0, |entry| entry.tries);
        let tries = before.saturating_add(1);
        let next = match (self.tries, &why) {
            (Tries::Once, _) => Next::NotAgain,
            (Tries::OnTheCurve(_), Why::Held(_)) => Next::At(now + entropy.spread(HELD)),
            (Tries::OnTheCurve(curve), Why::Unreadable(_)) if tries >= curve.unreadable => {
                Next::Due(now)
            }
            (Tries::OnTheCurve(curve), _) => match curve.wait(before) {
                Some(wait) => Next::At(now + entropy.spread(wait)),
                None => Next::Due(now),
            },
        };
        entries.insert(id, Entry { why, tries, next }).is_none()
    }

    /// Whether an object is set aside at this time.
    pub(crate) fn holds(&self, id: u64, now: BootInstant) -> bool {
        self.entries()
            .get(&id)
            .is_some_and(|entry| match entry.next {
                Next::At(until) => now < until,
                Next::NotAgain | Next::Due(_) => true,
            })
    }

    /// Forget what was held back: what it was held back for can be read now.
    pub(crate) fn release_held(&self) {
        self.entries()
            .retain(|_, entry| !matches!(entry.why, Why::Held(_)));
    }

    /// What is to be parked, by id; nothing until enough have gathered or the
    /// first has waited long enough, so that many go with one row. `since` is
    /// left for the caller, who knows the database's time.
    pub(crate) fn due(&self, now: BootInstant) -> Vec<ParkedObject> {
        let Tries::OnTheCurve(curve) = self.tries else {
            return Vec::new();
        };
        let entries = self.entries();
        let mut waited = false;
        let mut due: Vec<ParkedObject> = entries
            .iter()
            .filter_map(|(&id, entry)| {
                let Next::Due(since) = entry.next else {
                    return None;
                };
                waited |= now.since(since) >= curve.gather;
                Some(ParkedObject {
                    id,
                    reason: entry.why.text().to_owned(),
                    since: 0,
                    tries: entry.tries,
                })
            })
            .collect();
        if !waited && due.len() < CHUNK {
            return Vec::new();
        }
        due.sort_unstable_by_key(|parked| parked.id);
        due
    }

    /// These found no room where they were to be parked: they are tried on.
    pub(crate) fn tried_on(&self, ids: &[u64], now: BootInstant) {
        let Tries::OnTheCurve(curve) = self.tries else {
            return;
        };
        let mut entries = self.entries();
        for id in ids {
            if let Some(entry) = entries.get_mut(id) {
                entry.next = Next::At(now + curve.longest);
            }
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

    fn curve() -> Aside {
        Aside::new(Tries::OnTheCurve(Retries::default()))
    }

    #[test]
    fn the_curve_runs_from_a_second_to_an_hour_and_ends() {
        let entropy = Entropy::new(Some(3));
        let aside = curve();
        let gather = Retries::default().gather;
        let mut now = BootInstant::from_boot(Duration::from_secs(100));
        let mut expect = Duration::from_secs(1);
        // 1 s, 2 s, … 2048 s, and once an hour.
        for _ in 0..13 {
            aside.put(9, failed(), now, &entropy);
            assert!(aside.holds(9, now));
            assert!(aside.holds(9, now + expect * 3 / 4 - Duration::from_nanos(1)));
            assert_eq!(aside.due(now + gather), [], "not at its end yet");
            now = now + expect;
            assert!(!aside.holds(9, now));
            expect = (expect * 2).min(Duration::from_secs(3600));
        }
        aside.put(9, failed(), now, &entropy);
        assert!(aside.holds(9, now + Duration::from_secs(1_000_000)));
        assert_eq!(aside.due(now), [], "others may follow");
        let due = aside.due(now + gather);
        assert_eq!(
            (due[0].id, due[0].tries, due[0].reason.as_str()),
            (9, 14, "denied")
        );
        aside.forget(9);
        assert!(aside.list().is_empty());
    }

    #[test]
    fn what_is_not_mended_by_waiting_is_due_after_a_few_tries() {
        let entropy = Entropy::new(Some(3));
        let aside = curve();
        let now = BootInstant::from_boot(Duration::ZERO);
        let gather = Retries::default().gather;
        let unreadable = || Why::Unreadable("bad magic".to_owned());
        aside.put(1, unreadable(), now, &entropy);
        aside.put(1, unreadable(), now, &entropy);
        assert_eq!(aside.due(now + gather), []);
        aside.put(1, unreadable(), now, &entropy);
        assert_eq!(aside.due(now + gather).len(), 1);
        // What waits for another object is never parked.
        for _ in 0..100 {
            aside.put(2, Why::Held("a part".to_owned()), now, &entropy);
        }
        assert_eq!(aside.due(now + gather).len(), 1);
    }

    #[test]
    fn a_full_chunk_does_not_wait_and_what_finds_no_room_is_tried_on() {
        let entropy = Entropy::new(Some(3));
        let aside = Aside::new(Tries::OnTheCurve(Retries {
            unreadable: 1,
            ..Retries::default()
        }));
        let now = BootInstant::from_boot(Duration::ZERO);
        for id in 0..CHUNK as u64 {
            assert_eq!(aside.due(now), []);
            aside.put(id, Why::Unreadable("bad magic".to_owned()), now, &entropy);
        }
        assert_eq!(aside.due(now).len(), CHUNK);
        aside.tried_on(&[7], now);
        assert!(aside.holds(7, now) && !aside.holds(7, now + Duration::from_secs(3600)));
    }

    #[test]
    fn a_single_pass_tries_once() {
        let entropy = Entropy::new(Some(3));
        let start = BootInstant::from_boot(Duration::ZERO);
        let once = Aside::new(Tries::Once);
        once.put(1, failed(), start, &entropy);
        assert!(once.holds(1, start + Duration::from_secs(1_000_000)));
    }

    #[test]
    fn what_was_held_back_is_released_and_what_is_unmarked_forgotten() {
        let entropy = Entropy::new(Some(3));
        let start = BootInstant::from_boot(Duration::ZERO);
        let aside = curve();
        aside.put(1, Why::Held("a part".to_owned()), start, &entropy);
        aside.put(2, failed(), start, &entropy);
        aside.put(3, failed(), start, &entropy);
        aside.release_held();
        assert!(!aside.holds(1, start) && aside.holds(2, start));
        aside.retain(|id| id != 2);
        assert!(!aside.holds(2, start) && aside.holds(3, start));
    }
}
