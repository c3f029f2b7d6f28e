//! How many keys a second are asked for.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use aedile_clock::BootInstant;

/// What the store took in this long says what it takes.
const MEASURED: Duration = Duration::from_secs(1);

/// Part of what the store was found to take that is asked for afterwards.
const KEEP: f64 = 0.95;

/// The found rate is raised once in so long: by a hundredth, and each time by
/// half as much again, up to a half. So it stays near the quota for some seconds
/// before it meets it again, and is soon back when there is none any more.
const RAISED: Duration = Duration::from_secs(1);
const FIRST_RAISE: f64 = 0.01;
const RAISE_GROWTH: f64 = 1.5;
const MOST_RAISE: f64 = 0.5;

/// The least that is found: the store is asked again whatever it says.
const LEAST: f64 = 50.0;
/// Above it, only the window bounds.
const UNBOUND: f64 = 200_000.0;

/// A timer that wakes late is made up for within this time; more than that was
/// idle, and idling earns nothing.
const LATE: Duration = Duration::from_millis(50);

/// A request carries no more than this part of a second's keys: a large one
/// spends a small store's quota at a blow and starves who else writes to it.
const PART: f64 = 0.1;
/// Nor fewer keys than this for the sake of what was found.
const FEWEST: usize = 50;

/// The operator's cap, and below it what the store was found to take.
#[derive(Debug)]
pub(super) struct Rate {
    cap: Option<f64>,
    found: Option<Found>,
    /// When the next request may go.
    next_at: Option<BootInstant>,
    /// When how many keys were taken, of the last while.
    taken: VecDeque<(BootInstant, usize)>,
}

#[derive(Debug)]
struct Found {
    keys_per_second: f64,
    raise: f64,
    raised_at: BootInstant,
    /// Nothing was taken, so there was nothing to measure: it is only a guess
    /// that doubles with each success.
    guess: bool,
}

impl Rate {
    pub(super) fn new(cap: Option<NonZeroU32>) -> Self {
        Self {
            cap: cap.map(|cap| f64::from(cap.get())),
            found: None,
            next_at: None,
            taken: VecDeque::new(),
        }
    }

    /// Keys per second; none where only the window bounds.
    pub(super) fn now(&self) -> Option<f64> {
        let found = self.found.as_ref().map(|found| found.keys_per_second);
        match (self.cap, found) {
            (Some(cap), Some(found)) => Some(cap.min(found)),
            (cap, found) => cap.or(found),
        }
    }

    /// Keys per second that the store was found to take, where no smaller cap is
    /// set.
    pub(super) fn found(&self) -> Option<f64> {
        let found = self.found.as_ref()?.keys_per_second;
        (self.cap.is_none_or(|cap| found < cap)).then_some(found)
    }

    pub(super) fn next_at(&self) -> Option<BootInstant> {
        self.next_at
    }

    /// The most keys that one request may name.
    pub(super) fn chunk(&self, most: usize) -> usize {
        let Some(rate) = self.now() else {
            return most;
        };
        // A cap is kept exactly; it may be smaller than the fewest.
        let part = (rate * PART) as usize;
        let fewest = self
            .cap
            .map_or(FEWEST, |cap| FEWEST.min((cap * PART) as usize));
        part.max(fewest).clamp(1, most)
    }

    /// A request with so many keys is sent.
    pub(super) fn sent(&mut self, now: BootInstant, keys: usize) {
        let Some(rate) = self.now() else {
            self.next_at = None;
            return;
        };
        let cost = Duration::from_secs_f64(keys as f64 / rate);
        let from = self.next_at.map_or(now, |next| next.max(now - LATE));
        self.next_at = Some(from + cost);
    }

    /// So many keys were not throttled.
    pub(super) fn taken(&mut self, now: BootInstant, keys: usize) {
        self.forget(now);
        self.taken.push_back((now, keys));
        let Some(found) = &mut self.found else {
            return;
        };
        if found.guess {
            found.keys_per_second *= 2.0;
        } else if now.since(found.raised_at) >= RAISED {
            found.keys_per_second *= 1.0 + found.raise;
            found.raise = (found.raise * RAISE_GROWTH).min(MOST_RAISE);
            found.raised_at = now;
        }
        if found.keys_per_second > UNBOUND {
            self.found = None;
        }
    }

    /// A request for so many keys was throttled; with `again`, not the first
    /// one in a row.
    pub(super) fn throttled(&mut self, now: BootInstant, keys: usize, again: bool) {
        self.forget(now);
        let taken: usize = self.taken.iter().map(|(_, keys)| keys).sum();
        let before = self.found.as_ref().map(|found| found.keys_per_second);
        let keys_per_second = match (taken, before) {
            // One refusal out of the blue says nothing about a rate.
            (0, None) if !again => return,
            (0, before) => before.unwrap_or(keys as f64) / 2.0,
            (taken, before) => {
                let measured = taken as f64 / MEASURED.as_secs_f64();
                before.map_or(measured, |before| before.min(measured)) * KEEP
            }
        };
        self.found = Some(Found {
            keys_per_second: keys_per_second.max(LEAST),
            raise: FIRST_RAISE,
            raised_at: now,
            guess: taken == 0,
        });
    }

    fn forget(&mut self, now: BootInstant) {
        while let Some((at, _)) = self.taken.front()
            && now.since(*at) >= MEASURED
        {
            self.taken.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> BootInstant {
        BootInstant::from_boot(Duration::from_millis(ms))
    }

    /// Keys sent in `ms` milliseconds from `from` on, `chunk` at a time, looked
    /// at every so many milliseconds.
    fn sent(rate: &mut Rate, from: u64, ms: u64, chunk: usize, tick: u64) -> usize {
        let mut sent = 0;
        let mut now = from;
        while now < from + ms {
            while rate.next_at().is_none_or(|next| next <= at(now)) {
                rate.sent(at(now), chunk);
                sent += chunk;
            }
            now += tick;
        }
        sent
    }

    #[test]
    fn pgbackrest_2704_the_cap_is_kept_to_a_twentieth() {
        for cap in [300_u32, 1_000, 3_500] {
            for chunk in [1, 10, usize::MAX] {
                // Timers wake late: every 7 or 30 ms here.
                for tick in [1, 7, 30] {
                    let mut rate = Rate::new(NonZeroU32::new(cap));
                    let chunk = rate.chunk(1_000).min(chunk);
                    let sent = sent(&mut rate, 1_000, 10_000, chunk, tick);
                    let share = sent as f64 / f64::from(cap) / 10.0;
                    assert!(
                        (0.95..=1.05).contains(&share),
                        "{cap}/s by {chunk}, every {tick} ms: {share}"
                    );
                }
            }
        }
    }

    #[test]
    fn idling_earns_no_burst() {
        let mut rate = Rate::new(NonZeroU32::new(1_000));
        let chunk = rate.chunk(1_000);
        assert_eq!(chunk, 100, "a tenth of a second's keys");
        assert!(sent(&mut rate, 1_000, 5_000, chunk, 1) >= 5_000);
        // An hour later: what may go at once is no more than one chunk.
        assert_eq!(sent(&mut rate, 3_600_000, 1, chunk, 1), chunk);
        let single = sent(&mut rate, 7_200_000, 1, 1, 1);
        assert!(single <= chunk, "{single}");
    }

    #[test]
    fn what_was_taken_in_the_last_second_is_what_the_store_takes() {
        let mut rate = Rate::new(None);
        assert_eq!((rate.now(), rate.chunk(1_000)), (None, 1_000));
        rate.throttled(at(500), 1_000, false);
        assert_eq!(rate.now(), None, "one refusal out of the blue");
        rate.taken(at(1_000), 9_999);
        for ms in [2_100, 2_500, 2_900] {
            rate.taken(at(ms), 1_000);
        }
        rate.throttled(at(3_000), 1_000, false);
        assert_eq!(rate.now(), Some(2_850.0));
        assert_eq!(rate.chunk(1_000), 285);
        rate.taken(at(3_500), 285);
        assert_eq!(rate.now(), Some(2_850.0), "raised once a second");
        rate.taken(at(4_000), 285);
        assert_eq!(rate.now(), Some(2_850.0 * 1.01));
        // Throttled at a low load: never above what was found before.
        rate.taken(at(4_500), 100_000);
        rate.throttled(at(4_600), 285, false);
        assert_eq!(rate.now(), Some(2_850.0 * 1.01 * KEEP));
    }

    #[test]
    fn where_nothing_is_taken_it_halves_and_doubles_with_each_success() {
        let mut rate = Rate::new(None);
        for (ms, found) in [(1_000, None), (1_100, Some(500.0)), (1_300, Some(250.0))] {
            rate.throttled(at(ms), 1_000, found.is_some());
            assert_eq!(rate.now(), found);
        }
        for _ in 0..20 {
            rate.throttled(at(2_000), 50, true);
        }
        assert_eq!((rate.now(), rate.chunk(1_000)), (Some(LEAST), FEWEST));
        for _ in 0..12 {
            rate.taken(at(3_000), 50);
        }
        assert_eq!(rate.now(), None, "it is found to take everything");
    }

    #[test]
    fn a_cap_stays_where_more_is_found() {
        let mut rate = Rate::new(NonZeroU32::new(20));
        assert_eq!(rate.chunk(1_000), 2);
        rate.taken(at(1_000), 500);
        rate.throttled(at(1_100), 10, false);
        assert_eq!(rate.now(), Some(20.0));
        assert_eq!(rate.chunk(1_000), 2);
        let rate = Rate::new(NonZeroU32::new(1));
        assert_eq!(rate.chunk(1_000), 1);
    }
}
