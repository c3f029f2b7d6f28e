//! How long a term may act, judged by the boot-time clock at every reading.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock};
use tokio::sync::watch;

/// The end is kept in nanoseconds since boot; this value means *over for good*.
const OVER: u64 = 0;

/// The span of one term, shared by its keeper, its guard and its owner.
pub(crate) struct Window {
    ends: AtomicU64,
    /// The same, for those that wait for a change.
    changed: watch::Sender<u64>,
    clock: SharedClock,
}

impl Window {
    pub(crate) fn new(clock: SharedClock, until: BootInstant) -> Self {
        let ends = nanos(until).max(1);
        Self {
            ends: AtomicU64::new(ends),
            changed: watch::Sender::new(ends),
            clock,
        }
    }

    /// Whether the term may act now. Once false, false for ever: whoever sees
    /// the end closes the window, so that a late extension finds it closed.
    pub(crate) fn holds(&self) -> bool {
        loop {
            let ends = self.ends.load(Ordering::Acquire);
            if ends == OVER {
                return false;
            }
            if nanos(self.clock.boot()) < ends {
                return true;
            }
            if self.swap(ends, OVER) {
                return false;
            }
        }
    }

    /// Move the end to a later instant, unless the window has ended.
    pub(crate) fn extend(&self, until: BootInstant) -> bool {
        loop {
            let ends = self.ends.load(Ordering::Acquire);
            if !self.holds() {
                return false;
            }
            if nanos(until) <= ends || self.swap(ends, nanos(until)) {
                return true;
            }
        }
    }

    pub(crate) fn close(&self) {
        self.ends.store(OVER, Ordering::Release);
        self.changed.send_replace(OVER);
    }

    pub(crate) fn until(&self) -> BootInstant {
        BootInstant::from_boot(Duration::from_nanos(self.ends.load(Ordering::Acquire)))
    }

    fn swap(&self, from: u64, to: u64) -> bool {
        let done = self
            .ends
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if done {
            // A value that arrives out of order wakes its waiters once too often.
            self.changed.send_replace(to);
        }
        done
    }

    /// Wait until the window has ended.
    pub(crate) async fn ended(&self) {
        let mut changed = self.changed.subscribe();
        while self.holds() {
            let end = self.clock.sleep_until(self.until());
            tokio::select! {
                () = end => {}
                _ = changed.changed() => {}
            }
        }
    }
}

fn nanos(instant: BootInstant) -> u64 {
    u64::try_from(instant.since_boot().as_nanos()).unwrap_or(u64::MAX)
}

/// The permission of one term to act.
///
/// Every reading reads the clock; nothing has to run for it to end. It ends once
/// and stays ended: a later term has an authority of its own.
#[derive(Clone)]
pub struct Authority(pub(crate) Arc<Window>);

impl Authority {
    /// An authority that nobody renews, for simulations and tests of owners.
    pub fn fixed(clock: SharedClock, until: BootInstant) -> Self {
        Self(Arc::new(Window::new(clock, until)))
    }

    /// Whether the term may act now.
    pub fn holds(&self) -> bool {
        self.0.holds()
    }

    /// How much is left now; zero once it has ended.
    pub fn left(&self) -> Duration {
        if self.holds() {
            self.0.until().since(self.0.clock.boot())
        } else {
            Duration::ZERO
        }
    }

    /// The instant it ends unless it is renewed; the moment of boot once it has
    /// ended.
    pub fn until(&self) -> BootInstant {
        if self.holds() {
            self.0.until()
        } else {
            BootInstant::default()
        }
    }

    /// Wait until it has ended.
    pub async fn ended(&self) {
        self.0.ended().await;
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("left", &self.left())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aedile_clock::{ManualClock, UnixMillis};

    const SECOND: Duration = Duration::from_secs(1);

    fn clock() -> (ManualClock, SharedClock) {
        let manual = ManualClock::new(UnixMillis(0));
        (manual.clone(), Arc::new(manual))
    }

    #[test]
    fn river_1213_an_extension_after_the_end_changes_nothing() {
        let (manual, clock) = clock();
        let authority = Authority::fixed(clock.clone(), clock.boot() + SECOND);
        assert!(authority.0.extend(clock.boot() + 2 * SECOND));
        assert_eq!(authority.left(), 2 * SECOND);
        manual.advance(2 * SECOND);
        assert!(!authority.0.extend(clock.boot() + SECOND));
        assert!(!authority.holds());
        assert_eq!(authority.left(), Duration::ZERO);
    }

    #[test]
    fn an_end_is_never_moved_forward_in_time() {
        let (_, clock) = clock();
        let authority = Authority::fixed(clock.clone(), clock.boot() + 3 * SECOND);
        assert!(authority.0.extend(clock.boot() + SECOND));
        assert_eq!(authority.left(), 3 * SECOND);
    }

    #[tokio::test]
    async fn etcd_5571_the_end_wakes_whoever_waits_for_it() {
        let (manual, clock) = clock();
        let by_time = Authority::fixed(clock.clone(), clock.boot() + SECOND);
        let by_hand = Authority::fixed(clock.clone(), clock.boot() + 9 * SECOND);
        let waits = [by_time.clone(), by_hand.clone()]
            .map(|authority| tokio::spawn(async move { authority.ended().await }));
        manual.advance(SECOND);
        by_hand.0.close();
        for wait in waits {
            wait.await.expect("it ends");
        }
        assert!(!by_hand.holds());
    }
}
