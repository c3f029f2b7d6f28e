//! Appends that are held at one of their steps, and how that is seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aedile_clock::{BootInstant, Clock, Sleep, SystemClock, UnixMillis};
use aedile_log::LogOptions;

use super::{lagging, until};
use crate::databases::Raw;

/// Longest time of a statement of [`patient`] clients.
const PATIENCE: Duration = Duration::from_secs(20);

/// Options of a lagging client whose appends may be held for long.
pub fn patient() -> LogOptions {
    LogOptions {
        statement_timeout: PATIENCE,
        ..lagging()
    }
}

/// Sessions of this database whose append waits for a lock.
const WAITING: &str = "FROM pg_stat_activity WHERE datname = current_database() \
     AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO meta_log%'";

/// Wait until exactly one append waits for a lock (PostgreSQL).
///
/// # Panics
/// None comes to wait.
pub async fn someone_waits(raw: &mut Raw) {
    let sql = format!("SELECT count(*) {WAITING}");
    until("an append waits", async || {
        (raw.integers(&sql).await.expect("a look") == [1]).then_some(())
    })
    .await;
}

/// When the appends that wait now were sent (PostgreSQL).
///
/// # Panics
/// The database fails.
pub async fn waiting_since(raw: &mut Raw) -> Vec<String> {
    let sql = format!("SELECT query_start::text {WAITING}");
    raw.texts(&sql).await.expect("a look")
}

/// Have every append wait between its last check and its commit while somebody
/// holds the advisory lock: see [`HOLD`] and [`LET_GO`] (PostgreSQL).
pub const HOLD_AT_COMMIT: &str = "\
    CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
      PERFORM pg_advisory_xact_lock_shared(4711); RETURN NULL; END $$; \
    CREATE CONSTRAINT TRIGGER held AFTER INSERT ON meta_log \
      DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION held()";

/// Hold what comes to its commit.
pub const HOLD: &str = "SELECT pg_advisory_lock(4711)";

/// Let it go.
pub const LET_GO: &str = "SELECT pg_advisory_unlock(4711)";

/// The machine's clock, which tells that an append has been sent and waits: the
/// client bounds each statement by a sleep of its own length, which is polled
/// only once the statement has not answered at once.
#[derive(Debug)]
pub struct Watching {
    limit: Duration,
    waits: Arc<AtomicUsize>,
}

impl Watching {
    /// For clients with the options of [`patient`] on SQLite.
    pub fn appends() -> Self {
        Self {
            // As the client counts: half as much again, and SQLite's own wait.
            limit: PATIENCE + PATIENCE / 2 + Duration::from_secs(5),
            waits: Arc::default(),
        }
    }

    /// How many appends have been sent that did not answer at once.
    pub fn waits(&self) -> Arc<AtomicUsize> {
        self.waits.clone()
    }
}

impl Clock for Watching {
    fn boot(&self) -> BootInstant {
        SystemClock.boot()
    }

    fn unix(&self) -> UnixMillis {
        SystemClock.unix()
    }

    fn sleep_until(&self, at: BootInstant) -> Sleep {
        let inner = SystemClock.sleep_until(at);
        let asked = at.since(self.boot());
        let slack = Duration::from_secs(1);
        if asked > self.limit || asked + slack < self.limit {
            return inner;
        }
        let waits = self.waits.clone();
        Box::pin(async move {
            waits.fetch_add(1, Ordering::SeqCst);
            inner.await;
        })
    }
}
