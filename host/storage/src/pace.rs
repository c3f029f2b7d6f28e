//! How fast a store is asked.
//!
//! Two governors, shared by all calls. The *window* bounds the requests in
//! flight: slow start, halved where the store throttles, grown back. The *rate*
//! bounds the keys per second: the operator's cap, and below it what the store
//! was found to take. A window alone keeps to no quota: a single request of
//! 1000 keys in flight, answered after 50 ms, is 20 000 keys/s, and S3 grants
//! 3500 to a partition (docs.aws.amazon.com, "Best practices design patterns:
//! optimizing Amazon S3 performance"; each key of a bulk delete counts).

mod rate;
#[cfg(test)]
mod simulation;
mod window;

use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aedile_clock::BootInstant;

use rate::Rate;
use window::Window;

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
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    window: Window,
    rate: Rate,
    /// Throttled as a whole, in a row.
    blows: u32,
    last_blow: Option<BootInstant>,
    rest_until: Option<BootInstant>,
}

impl Pace {
    pub(crate) fn new(keys_per_second: Option<NonZeroU32>) -> Self {
        Self {
            state: Mutex::new(State {
                window: Window::new(),
                rate: Rate::new(keys_per_second),
                blows: 0,
                last_blow: None,
                rest_until: None,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many of so many requests may be in flight; at least one.
    pub(crate) fn of(&self, most: usize) -> usize {
        self.state().window.of(most)
    }

    /// Part of the configured concurrency in use, above 0 and up to 1.
    pub(crate) fn share(&self) -> f64 {
        self.state().window.share()
    }

    /// Keys per second, capped or found; none where only the window bounds.
    pub(crate) fn keys_per_second(&self) -> Option<f64> {
        self.state().rate.now()
    }

    /// Keys per second that the store was found to take, if that is what bounds.
    pub(crate) fn found(&self) -> Option<f64> {
        self.state().rate.found()
    }

    /// How long nothing is to be sent.
    pub(crate) fn rest(&self, now: BootInstant) -> Option<Duration> {
        let state = self.state();
        let until = state.rest_until.max(state.rate.next_at())?;
        Some(until.since(now)).filter(|left| !left.is_zero())
    }

    /// The most keys that one request may name.
    pub(crate) fn chunk(&self, most: usize) -> usize {
        self.state().rate.chunk(most)
    }

    /// A request with so many keys is sent.
    pub(crate) fn sent(&self, now: BootInstant, keys: usize) {
        self.state().rate.sent(now, keys);
    }

    pub(crate) fn gave_up(&self) -> bool {
        self.state().blows >= GIVE_UP
    }

    /// A call begins: what an earlier one gave up is tried again.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        state.blows = state.blows.min(GIVE_UP - 1);
    }

    /// A request was throttled for so many of its keys; `taken` were not.
    pub(crate) fn throttled(&self, now: BootInstant, keys: usize, taken: usize) {
        let mut state = self.state();
        if taken > 0 {
            state.rate.taken(now, taken);
        }
        let same_blow = state
            .last_blow
            .is_some_and(|last| now.since(last) < ONE_BLOW);
        if same_blow {
            return;
        }
        let again = state.blows > 0;
        state.last_blow = Some(now);
        state.window.halve();
        state.rate.throttled(now, keys, again);
        state.blows = if taken > 0 { 0 } else { state.blows + 1 };
        let rest = FIRST_REST * 2_u32.pow(state.blows.min(GIVE_UP).saturating_sub(1));
        state.rest_until = Some(now + rest.min(LONGEST_REST));
    }

    /// A request for so many keys, one of `most` that may be in flight, was not
    /// throttled.
    pub(crate) fn eased(&self, now: BootInstant, keys: usize, most: usize) {
        let mut state = self.state();
        state.blows = 0;
        state.window.grow(most);
        state.rate.taken(now, keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> BootInstant {
        BootInstant::from_boot(Duration::from_millis(ms))
    }

    #[test]
    fn what_was_sent_together_is_throttled_once() {
        let pace = Pace::new(None);
        for _ in 0..8 {
            pace.eased(at(0), 1, 8);
        }
        assert_eq!(pace.of(8), 8);
        pace.throttled(at(1_000), 10, 1);
        assert_eq!(pace.of(8), 4);
        pace.throttled(at(1_010), 10, 1);
        assert_eq!(pace.of(8), 4);
        pace.throttled(at(2_000), 10, 1);
        assert_eq!((pace.of(8), pace.of(1)), (2, 1));
    }

    #[test]
    fn it_rests_longer_each_time_and_gives_up() {
        let pace = Pace::new(None);
        let mut now = 1_000;
        for rest in [100, 200, 400, 800] {
            assert!(!pace.gave_up());
            pace.throttled(at(now), 10, 0);
            assert_eq!(pace.rest(at(now)), Some(Duration::from_millis(rest)));
            now += rest;
            assert_eq!(pace.rest(at(now)), None);
        }
        assert!(pace.gave_up());
        pace.begin();
        assert!(!pace.gave_up(), "the next call tries");
        pace.throttled(at(now + 1_000), 10, 0);
        assert!(pace.gave_up(), "and gives up at once");
        pace.eased(at(now + 2_000), 10, 4);
        assert!(!pace.gave_up());
    }
}
