//! Randomness for jitter and seeds: never for anything that must be secret.

use std::hash::{BuildHasher, Hasher};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

/// A small generator (SplitMix64) that a test can seed.
#[derive(Debug)]
pub(crate) struct Entropy {
    state: Mutex<u64>,
}

impl Entropy {
    /// Seeded, or from the process's own randomness.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let seed = seed.unwrap_or_else(|| {
            // The standard library keys its hash maps at random per process.
            std::collections::hash_map::RandomState::new()
                .build_hasher()
                .finish()
        });
        Self {
            state: Mutex::new(seed),
        }
    }

    /// The next number.
    pub(crate) fn next(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(*state)
    }

    /// A duration from zero up to and including `most`.
    pub(crate) fn up_to(&self, most: Duration) -> Duration {
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        match nanos.checked_add(1) {
            Some(range) => Duration::from_nanos(self.next() % range),
            None => Duration::from_nanos(self.next()),
        }
    }

    /// `base` shortened by up to a quarter, so that many do not come at once.
    pub(crate) fn spread(&self, base: Duration) -> Duration {
        base - self.up_to(base / 4)
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The seed of a tick: the same module on the same view gets the same one, so
/// that a plan chooses as the pass after it does.
pub(crate) fn tick_seed(digest: &str, index: u64) -> u64 {
    digest
        .bytes()
        .chain(index.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_bounds_hold() {
        let (a, b) = (Entropy::new(Some(7)), Entropy::new(Some(7)));
        let base = Duration::from_secs(8);
        for _ in 0..1000 {
            assert_eq!(a.next(), b.next());
            let spread = a.spread(base);
            assert!(spread <= base && spread >= base * 3 / 4);
            assert_eq!(spread, b.spread(base));
        }
        assert_eq!(a.up_to(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn the_seed_of_a_tick_depends_on_module_and_view() {
        assert_eq!(tick_seed("ab", 1), tick_seed("ab", 1));
        assert_ne!(tick_seed("ab", 1), tick_seed("ab", 2));
        assert_ne!(tick_seed("ab", 1), tick_seed("ac", 1));
    }
}
