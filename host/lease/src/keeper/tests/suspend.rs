//! A machine that sleeps: its timers stand still, its boot-time clock does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aedile_clock::{BootInstant, Clock, SharedClock, Sleep, SystemClock, UnixMillis};
use tempfile::TempDir;

use crate::{Keeper, LeaseOptions};

const LIMIT: Duration = Duration::from_secs(60);

/// The machine's clocks, and time that it slept. A timer runs for as long as it
/// was set for, whatever was slept meanwhile, as the operating system's do.
#[derive(Clone, Debug, Default)]
struct Sleepy {
    slept_ms: Arc<AtomicU64>,
}

impl Clock for Sleepy {
    fn boot(&self) -> BootInstant {
        SystemClock.boot() + Duration::from_millis(self.slept_ms.load(Ordering::SeqCst))
    }

    fn unix(&self) -> UnixMillis {
        SystemClock.unix()
    }

    fn sleep_until(&self, at: BootInstant) -> Sleep {
        let left = at.since(self.boot());
        SystemClock.sleep_until(SystemClock.boot() + left)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_87906_after_a_suspend_the_first_look_finds_the_term_ended() {
    let directory = TempDir::new().expect("a directory");
    let url = format!("sqlite:{}", directory.path().join("meta.db").display());
    let ttl = Duration::from_secs(5);
    let options = LeaseOptions::new(url, "n").with_ttl(ttl);
    let sleepy = Sleepy::default();
    let clock: SharedClock = Arc::new(sleepy.clone());
    let keeper = Keeper::start(options, clock.clone()).expect("a keeper");
    let mut leadership = keeper.leadership();
    keeper.set_eligible(Ok(()));
    let mut term = async |epoch: u64| {
        let wanted =
            leadership.wait_for(|now| now.holding().is_some_and(|(term, _)| term.epoch == epoch));
        let found = clock.timeout(LIMIT, wanted).await;
        let found = found
            .expect("in time")
            .expect("the keeper is there")
            .clone();
        found.holding().expect("a term").1.clone()
    };
    let authority = term(1).await;
    assert!(authority.holds());
    let slept = u64::try_from(3 * ttl.as_millis()).expect("short");
    sleepy.slept_ms.fetch_add(slept, Ordering::SeqCst);
    // No timer has run: the reading itself finds it.
    assert!(!authority.holds());
    assert_eq!(authority.left(), Duration::ZERO);
    let again = term(2).await;
    assert!(again.holds() && !authority.holds());
    keeper.stop().await;
}
