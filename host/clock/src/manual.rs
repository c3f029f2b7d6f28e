//! A clock that a test moves by hand.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::{BootInstant, Clock, Sleep, UnixMillis};

/// A clock that stands still until it is moved. Clones share one time.
#[derive(Clone, Debug)]
pub struct ManualClock {
    boot: Arc<watch::Sender<BootInstant>>,
    unix: Arc<Mutex<UnixMillis>>,
}

impl ManualClock {
    /// A clock that begins at this wall time, one hour after boot.
    pub fn new(unix: UnixMillis) -> Self {
        let start = BootInstant::from_boot(Duration::from_secs(3600));
        Self {
            boot: Arc::new(watch::Sender::new(start)),
            unix: Arc::new(Mutex::new(unix)),
        }
    }

    /// Move both clocks forward and wake what was to sleep no longer than that.
    pub fn advance(&self, by: Duration) {
        self.step_wall(i64::try_from(by.as_millis()).unwrap_or(i64::MAX));
        self.boot.send_modify(|now| *now = *now + by);
    }

    /// Step the wall clock alone, as a time service or an operator does.
    pub fn step_wall(&self, by_ms: i64) {
        let mut unix = self.unix.lock().unwrap_or_else(PoisonError::into_inner);
        unix.0 = unix.0.saturating_add(by_ms);
    }
}

impl Clock for ManualClock {
    fn boot(&self) -> BootInstant {
        *self.boot.borrow()
    }

    fn unix(&self) -> UnixMillis {
        *self.unix.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep_until(&self, at: BootInstant) -> Sleep {
        let mut boot = self.boot.subscribe();
        Box::pin(async move {
            if boot.wait_for(|now| *now >= at).await.is_err() {
                // The clock is gone: its time never comes.
                std::future::pending::<()>().await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SharedClock;

    #[tokio::test]
    async fn sleepers_wake_when_their_time_has_come() {
        let manual = ManualClock::new(UnixMillis(1_000));
        let clock: SharedClock = Arc::new(manual.clone());
        let early = tokio::spawn(clock.sleep(Duration::from_secs(1)));
        let late = tokio::spawn(clock.sleep(Duration::from_secs(5)));
        manual.advance(Duration::from_secs(2));
        early.await.expect("the sleeper ends");
        assert!(!late.is_finished());
        assert_eq!(clock.unix(), UnixMillis(3_000));
        manual.advance(Duration::from_secs(3));
        late.await.expect("the sleeper ends");
    }

    #[tokio::test]
    async fn a_step_of_the_wall_clock_moves_no_timer() {
        let manual = ManualClock::new(UnixMillis(0));
        let before = manual.boot();
        manual.step_wall(3_600_000);
        assert_eq!(manual.boot(), before);
        assert_eq!(manual.unix(), UnixMillis(3_600_000));
    }
}
