//! A run against a store with a quota, in simulated time: how much of the quota
//! is used, and how many requests are refused.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use aedile_clock::BootInstant;

use super::Pace;

/// Requests in flight, at most, and keys in each.
const MOST: usize = 4;
const CHUNK: usize = 1_000;

/// A store that grants so many keys a second, with a second's keys saved up.
struct Quota {
    keys_per_ms: f64,
    most: f64,
    saved: f64,
    at: u64,
    /// Until when nine requests of ten are refused whatever they ask for.
    failing_until: u64,
    requests: u64,
}

impl Quota {
    fn new(keys_per_second: f64) -> Self {
        Self {
            keys_per_ms: keys_per_second / 1_000.0,
            most: keys_per_second.max(CHUNK as f64),
            saved: keys_per_second.max(CHUNK as f64),
            at: 0,
            failing_until: 0,
            requests: 0,
        }
    }

    fn takes(&mut self, now: u64, keys: usize) -> bool {
        self.requests += 1;
        self.saved = (self.saved + (now - self.at) as f64 * self.keys_per_ms).min(self.most);
        self.at = now;
        if now < self.failing_until && !self.requests.is_multiple_of(10) {
            return false;
        }
        let takes = self.saved >= keys as f64;
        if takes {
            self.saved -= keys as f64;
        }
        takes
    }
}

#[derive(Debug, Default)]
struct Run {
    /// Keys that were taken, by the second in which they were.
    taken: Vec<usize>,
    refused: usize,
    requests: usize,
    most_in_flight: usize,
}

/// Ask such a store for `seconds`, its answers taking `latency` milliseconds.
fn run(quota: &mut Quota, latency: u64, seconds: u64) -> Run {
    let pace = Pace::new(None);
    let at = |ms| BootInstant::from_boot(Duration::from_millis(ms));
    let mut run = Run {
        taken: vec![0; usize::try_from(seconds).unwrap_or(0) + 1],
        ..Run::default()
    };
    let mut in_flight = BinaryHeap::new();
    for now in 0..seconds * 1_000 {
        while let Some(&Reverse((due, takes, keys))) = in_flight.peek()
            && due <= now
        {
            in_flight.pop();
            if takes {
                pace.eased(at(now), keys, MOST);
                run.taken[usize::try_from(now / 1_000).unwrap_or(0)] += keys;
            } else {
                pace.throttled(at(now), keys, 0);
                run.refused += 1;
            }
        }
        while in_flight.len() < pace.of(MOST) && pace.rest(at(now)).is_none() {
            let keys = pace.chunk(CHUNK);
            pace.sent(at(now), keys);
            // No two answers take equally long.
            let due = now + latency + (run.requests as u64 * 7) % (latency / 3 + 1);
            in_flight.push(Reverse((due, quota.takes(now, keys), keys)));
            run.requests += 1;
            run.most_in_flight = run.most_in_flight.max(in_flight.len());
        }
    }
    run
}

#[test]
fn icechunk_2408_the_quota_is_used_and_few_requests_are_refused() {
    for (keys_per_second, latency) in [
        (3_500.0, 10),
        (3_500.0, 50),
        (3_500.0, 150),
        (3_500.0, 400),
        (1_000.0, 200),
        (20_000.0, 50),
    ] {
        let mut quota = Quota::new(keys_per_second);
        let run = run(&mut quota, latency, 60);
        let used = run.taken.iter().sum::<usize>() as f64 / (keys_per_second * 61.0);
        let refused = run.refused as f64 / run.requests as f64;
        assert!(
            used >= 0.9 && refused < 0.05,
            "{keys_per_second}/s at {latency} ms: {used:.3} of the quota, {refused:.3} refused"
        );
        println!(
            "{keys_per_second}/s at {latency} ms: {:.1} % of the quota, {:.1} % of {} requests refused, {} in flight at most",
            used * 100.0,
            refused * 100.0,
            run.requests,
            run.most_in_flight
        );
    }
}

#[test]
fn quickwit_5242_it_is_back_soon_after_a_minute_of_refusals() {
    let mut quota = Quota::new(3_500.0);
    quota.failing_until = 60_000;
    let run = run(&mut quota, 50, 120);
    let failing: usize = run.taken[..60].iter().sum();
    assert!(failing > 0, "it was asked all the same");
    // By the second from the 90th on: more than nine tenths of the quota.
    let back = run.taken[90..120].iter().sum::<usize>() as f64 / 30.0;
    assert!(back >= 0.9 * 3_500.0, "{back}");
}

#[test]
fn without_a_quota_the_window_alone_bounds() {
    let mut quota = Quota::new(1e9);
    let run = run(&mut quota, 50, 10);
    assert_eq!((run.refused, run.most_in_flight), (0, MOST));
    let each = run.taken.iter().sum::<usize>() / 10;
    assert!(each > 50_000, "{each}");
}
