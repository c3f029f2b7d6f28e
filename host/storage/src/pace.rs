//! How fast a store is asked: half as fast when it throttles, slowly faster
//! again when it does not.

use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aedile_clock::BootInstant;

/// The first rest after a throttled request; it doubles with each further one.
const FIRST_REST: Duration = Duration::from_millis(100);
const LONGEST_REST: Duration = Duration::from_secs(1);

/// After so many requests in a row that were throttled as a whole, the rest of
/// a call is not sent any more.
const GIVE_UP: u32 = 4;

/// Requests that were sent together are throttled together: they count once.
const ONE_BLOW: Duration = Duration::from_millis(50);

/// The pace of one store, shared by all that delete from it.
#[derive(Debug)]
pub(crate) struct Pace {
    keys_per_second: Option<NonZeroU32>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Part of the configured concurrency that is used, above 0 and up to 1.
    share: f64,
    /// Throttled as a whole, in a row.
    blows: u32,
    last_blow: Option<BootInstant>,
    rest_until: Option<BootInstant>,
    /// When the rate cap lets the next request go.
    next_at: Option<BootInstant>,
}

impl Pace {
    pub(crate) fn new(keys_per_second: Option<NonZeroU32>) -> Self {
        Self {
            keys_per_second,
            state: Mutex::new(State {
                share: 1.0,
                blows: 0,
                last_blow: None,
                rest_until: None,
                next_at: None,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many of so many requests may be in flight; at least one.
    pub(crate) fn of(&self, most: usize) -> usize {
        // Whole numbers of this size are exact, and the share is at most 1.
        let allowed = (most as f64 * self.state().share).ceil();
        (allowed as usize).clamp(1, most.max(1))
    }

    /// Part of the configured concurrency in use, above 0 and up to 1.
    pub(crate) fn share(&self) -> f64 {
        self.state().share
    }

    /// How long nothing is to be sent.
    pub(crate) fn rest(&self, now: BootInstant) -> Option<Duration> {
        let state = self.state();
        let until = state.rest_until.max(state.next_at)?;
        Some(until.since(now)).filter(|left| !left.is_zero())
    }

    /// The most keys that one request may name.
    pub(crate) fn chunk(&self, most: usize) -> usize {
        let cap = self.keys_per_second.map_or(most, |rate| {
            usize::try_from(rate.get()).unwrap_or(usize::MAX)
        });
        most.min(cap)
    }

    /// A request with so many keys is sent.
    pub(crate) fn sent(&self, now: BootInstant, keys: usize) {
        let Some(rate) = self.keys_per_second else {
            return;
        };
        let cost = Duration::from_secs_f64(keys as f64 / f64::from(rate.get()));
        let mut state = self.state();
        let from = state.next_at.map_or(now, |next| next.max(now));
        state.next_at = Some(from + cost);
    }

    pub(crate) fn gave_up(&self) -> bool {
        self.state().blows >= GIVE_UP
    }

    /// A call begins: what an earlier one gave up is tried again.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        state.blows = state.blows.min(GIVE_UP - 1);
    }

    /// A request was throttled; `some` of its objects were not.
    pub(crate) fn throttled(&self, now: BootInstant, some: bool) {
        let mut state = self.state();
        let same_blow = state
            .last_blow
            .is_some_and(|last| now.since(last) < ONE_BLOW);
        if same_blow {
            return;
        }
        state.last_blow = Some(now);
        state.share = (state.share / 2.0).max(1.0 / 64.0);
        state.blows = if some { 0 } else { state.blows + 1 };
        let rest = FIRST_REST * 2_u32.pow(state.blows.min(GIVE_UP).saturating_sub(1));
        state.rest_until = Some(now + rest.min(LONGEST_REST));
    }

    /// A request was not throttled, one of `most` that may be in flight.
    pub(crate) fn eased(&self, most: usize) {
        let mut state = self.state();
        state.blows = 0;
        state.share = (state.share + 0.25 / most.max(1) as f64).min(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> BootInstant {
        BootInstant::from_boot(Duration::from_millis(ms))
    }

    #[test]
    fn it_halves_and_grows_back() {
        let pace = Pace::new(None);
        assert_eq!(pace.of(8), 8);
        pace.throttled(at(1_000), true);
        assert_eq!(pace.of(8), 4);
        pace.throttled(at(1_010), true);
        assert_eq!(pace.of(8), 4, "sent together, throttled together");
        pace.throttled(at(2_000), true);
        assert_eq!((pace.of(8), pace.of(1)), (2, 1));
        for _ in 0..1_000 {
            pace.eased(8);
        }
        assert_eq!(pace.of(8), 8);
    }

    #[test]
    fn it_rests_longer_each_time_and_gives_up() {
        let pace = Pace::new(None);
        let mut now = 1_000;
        for rest in [100, 200, 400, 800] {
            assert!(!pace.gave_up());
            pace.throttled(at(now), false);
            assert_eq!(pace.rest(at(now)), Some(Duration::from_millis(rest)));
            now += rest;
            assert_eq!(pace.rest(at(now)), None);
        }
        assert!(pace.gave_up());
        pace.begin();
        assert!(!pace.gave_up(), "the next call tries");
        pace.throttled(at(now + 1_000), false);
        assert!(pace.gave_up(), "and gives up at once");
        pace.eased(4);
        assert!(!pace.gave_up());
    }

    #[test]
    fn the_rate_is_kept_over_requests() {
        let pace = Pace::new(NonZeroU32::new(500));
        assert_eq!((pace.chunk(1_000), pace.chunk(100)), (500, 100));
        let mut now = 1_000;
        let mut sent = 0;
        while now < 11_000 {
            match pace.rest(at(now)) {
                Some(rest) => now += u64::try_from(rest.as_millis()).expect("short").max(1),
                None => {
                    pace.sent(at(now), 100);
                    sent += 100;
                }
            }
        }
        assert_eq!(sent, 5_000);
        assert_eq!(pace.rest(at(60_000)), None);
        pace.sent(at(60_000), 100);
        let rest = pace.rest(at(60_000));
        assert_eq!(
            rest,
            Some(Duration::from_millis(200)),
            "no credit from idling"
        );
    }
}
