//! The machine's own clocks.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the machine's time"
)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::{BootInstant, Clock, Sleep, UnixMillis};

/// Timers do not count suspend, so a long sleep reads the clock again this often.
const SLICE: Duration = Duration::from_secs(1);

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOT: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOT: ClockId = ClockId::Monotonic;

impl Clock for SystemClock {
    fn boot(&self) -> BootInstant {
        let time = clock_gettime(BOOT);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        BootInstant::from_boot(Duration::new(seconds, nanos))
    }

    fn unix(&self) -> UnixMillis {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep_until(&self, at: BootInstant) -> Sleep {
        let clock = *self;
        Box::pin(async move {
            loop {
                let left = at.since(clock.boot());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(SLICE)).await;
            }
        })
    }
}
