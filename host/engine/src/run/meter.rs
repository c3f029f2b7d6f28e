//! How long a plugin's own code ran.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aedile_clock::SharedClock;

/// Sums up the time inside [`Meter::charged`], without the time inside
/// [`Meter::free`]. Only time spent in a poll counts, so that waiting and
/// yielding are free.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    clock: SharedClock,
    inner: Arc<Inner>,
}

/// Only the thread that polls the tick changes it; atomics because that thread
/// changes from poll to poll.
#[derive(Debug, Default)]
struct Inner {
    spent: AtomicU64,
    /// Nanoseconds since boot plus one; zero while it stands still.
    since: AtomicU64,
}

impl Meter {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            clock,
            inner: Arc::default(),
        }
    }

    /// Run `future`, charging the time that its polls take.
    pub(crate) async fn charged<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            self.start();
            let poll = future.as_mut().poll(context);
            self.stop();
            poll
        })
        .await
    }

    /// Run `future` inside a charged one without charging it.
    pub(crate) async fn free<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            self.stop();
            let poll = future.as_mut().poll(context);
            self.start();
            poll
        })
        .await
    }

    /// The time charged so far.
    pub(crate) fn spent(&self) -> Duration {
        let running = match self.inner.since.load(Ordering::Acquire) {
            0 => 0,
            since => self.now().saturating_sub(since),
        };
        let spent = self.inner.spent.load(Ordering::Acquire);
        Duration::from_nanos(spent.saturating_add(running))
    }

    fn start(&self) {
        self.inner.since.store(self.now(), Ordering::Release);
    }

    fn stop(&self) {
        let since = self.inner.since.swap(0, Ordering::AcqRel);
        if since != 0 {
            let ran = self.now().saturating_sub(since);
            self.inner.spent.fetch_add(ran, Ordering::AcqRel);
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.boot().since_boot().as_nanos())
            .unwrap_or(u64::MAX)
            .saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aedile_clock::{ManualClock, UnixMillis};
    use std::task::Poll;

    #[tokio::test]
    async fn only_polls_are_charged_and_free_ones_are_not() {
        let clock = ManualClock::new(UnixMillis(0));
        let meter = Meter::new(Arc::new(clock.clone()));
        let ms = Duration::from_millis;
        let mut polls = 0;
        let inside = meter.clone();
        let steps = clock.clone();
        let work = async {
            steps.advance(ms(5));
            inside
                .free(poll_fn(|context| {
                    steps.advance(ms(100));
                    polls += 1;
                    if polls == 3 {
                        return Poll::Ready(());
                    }
                    context.waker().wake_by_ref();
                    Poll::Pending
                }))
                .await;
            assert_eq!(inside.spent(), ms(5));
            steps.advance(ms(7));
            assert_eq!(inside.spent(), ms(12));
        };
        meter.charged(work).await;
        clock.advance(ms(1000));
        assert_eq!(meter.spent(), ms(12));
    }
}
