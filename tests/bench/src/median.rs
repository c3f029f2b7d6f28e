//! Timing and medians.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};

/// Rounds of each benchmark.
pub(crate) const ROUNDS: usize = 5;

/// The machine's clock.
pub(crate) fn clock() -> SharedClock {
    Arc::new(SystemClock)
}

/// Things per second.
pub(crate) fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(f64::EPSILON)
}

/// The median of some figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}
