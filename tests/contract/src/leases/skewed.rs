//! A node whose wall clock is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use aedile_clock::{BootInstant, Clock, Sleep, SystemClock, UnixMillis};

/// The machine's clocks, but for a wall clock that is off and can be stepped.
/// Clones share one offset.
#[derive(Clone, Debug, Default)]
pub struct Skewed {
    by_ms: Arc<AtomicI64>,
}

impl Skewed {
    /// Off by this from now on.
    pub fn step_to(&self, by_ms: i64) {
        self.by_ms.store(by_ms, Ordering::SeqCst);
    }
}

impl Clock for Skewed {
    fn boot(&self) -> BootInstant {
        SystemClock.boot()
    }

    fn unix(&self) -> UnixMillis {
        UnixMillis(SystemClock.unix().0 + self.by_ms.load(Ordering::SeqCst))
    }

    fn sleep_until(&self, at: BootInstant) -> Sleep {
        SystemClock.sleep_until(at)
    }
}
