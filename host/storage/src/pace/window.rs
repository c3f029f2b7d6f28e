//! How many requests may be in flight.

/// The smallest share: one request of whatever the most is.
const LEAST: f64 = 1.0 / 64.0;

/// A part of the configured concurrency. It begins with one request and doubles
/// with every round trip until the store throttles; then it halves, and grows
/// by one request a round trip.
#[derive(Debug)]
pub(super) struct Window {
    share: f64,
    /// It was never throttled.
    slow_start: bool,
}

impl Window {
    pub(super) fn new() -> Self {
        Self {
            share: LEAST,
            slow_start: true,
        }
    }

    /// How many of so many requests may be in flight; at least one.
    pub(super) fn of(&self, most: usize) -> usize {
        // Whole numbers of this size are exact, and the share is at most 1.
        let allowed = (most as f64 * self.share).ceil();
        (allowed as usize).clamp(1, most.max(1))
    }

    /// Part of the configured concurrency in use, above 0 and up to 1.
    pub(super) fn share(&self) -> f64 {
        self.share
    }

    /// The store throttles.
    pub(super) fn halve(&mut self) {
        self.slow_start = false;
        self.share = (self.share / 2.0).max(LEAST);
    }

    /// A request was not throttled, one of `most` that may be in flight.
    pub(super) fn grow(&mut self, most: usize) {
        let most = most.max(1) as f64;
        let round = if self.slow_start {
            1.0
        } else {
            (most * self.share).max(1.0)
        };
        self.share = (self.share + 1.0 / (most * round)).min(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One round trip of a full window.
    fn round(window: &mut Window, most: usize) {
        for _ in 0..window.of(most) {
            window.grow(most);
        }
    }

    #[test]
    fn it_starts_slowly_halves_and_grows_back() {
        let mut window = Window::new();
        let mut seen = vec![window.of(32)];
        for _ in 0..5 {
            round(&mut window, 32);
            seen.push(window.of(32));
        }
        assert_eq!(seen, [1, 2, 4, 8, 16, 32], "doubled with each round trip");
        window.halve();
        assert_eq!(window.of(32), 16);
        window.halve();
        assert_eq!(window.of(32), 8);
        let before = window.share() * 32.0;
        round(&mut window, 32);
        let grown = window.share() * 32.0 - before;
        assert!(
            (0.9..=1.0).contains(&grown),
            "one more a round trip: {grown}"
        );
        for _ in 0..2_000 {
            window.grow(32);
        }
        assert_eq!((window.of(32), window.of(4)), (32, 4));
        for _ in 0..20 {
            window.halve();
        }
        assert_eq!((window.of(32), window.of(1)), (1, 1));
    }
}
