//! The one source of time in Aedile.
//!
//! Every crate that waits or measures takes a [`SharedClock`], so that tests
//! control time with a [`ManualClock`]. Two readings are kept apart: the
//! boot-time clock, which never steps and counts suspend (`CLOCK_BOOTTIME` on
//! Linux; the monotonic clock elsewhere), judges how long something lasted; the
//! wall clock is only for display. Neither decides what has lapsed in the
//! database: that is the database's own clock.

mod manual;
mod system;

use std::fmt;
use std::future::Future;
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use manual::ManualClock;
pub use system::SystemClock;

/// A clock shared by the parts of a process.
pub type SharedClock = Arc<dyn Clock>;

/// A future that ends when a clock reaches an instant.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Time since the machine booted, suspend included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootInstant(Duration);

impl BootInstant {
    /// The instant this long after boot.
    pub const fn from_boot(since: Duration) -> Self {
        Self(since)
    }

    /// How long after boot this instant is.
    pub const fn since_boot(self) -> Duration {
        self.0
    }

    /// Time from `earlier` to this instant; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for BootInstant {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs))
    }
}

impl Sub<Duration> for BootInstant {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(rhs))
    }
}

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub i64);

impl fmt::Display for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The boot-time clock.
    fn boot(&self) -> BootInstant;

    /// The wall clock.
    fn unix(&self) -> UnixMillis;

    /// A future that ends once [`Clock::boot`] has reached `at`.
    fn sleep_until(&self, at: BootInstant) -> Sleep;
}

impl dyn Clock {
    /// Sleep this long.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.boot() + duration)
    }

    /// Run `future` for at most this long.
    ///
    /// # Errors
    /// [`Elapsed`] if the time ran out first; the future is dropped then.
    pub async fn timeout<F: Future>(
        &self,
        limit: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        let sleep = self.sleep(limit);
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = sleep => Err(Elapsed(limit)),
        }
    }
}

/// A time limit that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(pub Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no answer within {} ms", self.0.as_millis())
    }
}

impl std::error::Error for Elapsed {}
