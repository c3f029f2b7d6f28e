//! Contenders for a lease, and the row they contend for.

mod proxy;
mod skewed;

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock, SystemClock};
use aedile_lease::{Authority, Keeper, Leadership, LeaseName, LeaseOptions, Term};
use tokio::sync::watch;

use crate::databases::Raw;

pub use proxy::Proxy;
pub use skewed::Skewed;

/// The TTL of the tests. Short, and long enough for a busy machine.
pub const TTL: Duration = Duration::from_secs(2);
/// What any wait of a test is bounded by.
pub const LIMIT: Duration = Duration::from_secs(30);

/// The machine's clock.
pub fn clock() -> SharedClock {
    Arc::new(SystemClock)
}

/// A contender with the tests' TTL and the smallest margin that is allowed.
pub fn options(url: &str, node: &str) -> LeaseOptions {
    let mut options = LeaseOptions::new(url, node).with_ttl(TTL);
    options.margin = TTL / 10;
    options
}

/// A named lease, which no native node contends for.
pub fn named(url: &str, node: &str, lease: &str) -> LeaseOptions {
    let mut options = options(url, node);
    options.name = LeaseName::Named(lease.to_owned());
    options
}

/// A keeper and what it shows.
#[derive(Debug)]
pub struct Node {
    keeper: Keeper,
    leadership: watch::Receiver<Leadership>,
    clock: SharedClock,
}

impl Node {
    /// Start one that is not eligible yet.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn idle(options: LeaseOptions) -> Self {
        Self::idle_by(options, clock())
    }

    /// The same, by a clock of its own.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn idle_by(options: LeaseOptions, clock: SharedClock) -> Self {
        let keeper = Keeper::start(options, clock.clone()).expect("a keeper");
        let leadership = keeper.leadership();
        Self {
            keeper,
            leadership,
            clock,
        }
    }

    /// Start one that contends.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start(options: LeaseOptions) -> Self {
        let node = Self::idle(options);
        node.fit();
        node
    }

    /// Its keeper.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Make it eligible.
    pub fn fit(&self) {
        self.keeper.set_eligible(Ok(()));
    }

    /// Make it ineligible.
    pub fn unfit(&self) {
        self.keeper.set_eligible(Err("unfit".to_owned()));
    }

    /// What it shows now.
    pub fn now(&self) -> Leadership {
        self.leadership.borrow().clone()
    }

    /// Wait until it shows what is wanted.
    ///
    /// # Panics
    /// It does not within [`LIMIT`].
    pub async fn until(
        &mut self,
        what: &str,
        wanted: impl FnMut(&Leadership) -> bool,
    ) -> Leadership {
        let wait = self.leadership.wait_for(wanted);
        let found = match self.clock.timeout(LIMIT, wait).await {
            Ok(found) => Some(found.expect("the keeper is there").clone()),
            Err(_) => None,
        };
        found.unwrap_or_else(|| panic!("no {what} within {LIMIT:?}: {:?}", self.now()))
    }

    /// Wait for a term.
    ///
    /// # Panics
    /// It does not come to lead.
    pub async fn term(&mut self) -> (Term, Authority) {
        let held = self.until("term", |now| now.holding().is_some()).await;
        let (term, authority) = held.holding().expect("a term");
        (term.clone(), authority.clone())
    }

    /// Wait for the end of every term.
    ///
    /// # Panics
    /// It goes on leading.
    pub async fn lost(&mut self) -> Leadership {
        self.until("end", |now| now.holding().is_none()).await
    }

    /// Wait until it follows and has seen the row.
    ///
    /// # Panics
    /// It does not follow.
    pub async fn following(&mut self) {
        self.until("following", |now| {
            matches!(now, Leadership::Follower { seen: Some(_) })
        })
        .await;
    }

    /// End the term as an owner does: not eligible, ticks ended, released.
    pub async fn hand_over(&self, term: &Term) {
        self.unfit();
        self.keeper.release(term).await;
    }

    /// End it.
    pub async fn stop(self) {
        self.keeper.stop().await;
    }

    /// How long after the last instant it was promised the authority is seen
    /// ended by one who waits, and the leadership shown as lost. Without what
    /// the machine's own timers were late by meanwhile: once for the wait, and
    /// twice for what is shown, which takes two of them.
    pub async fn overrun(&mut self, authority: &Authority) -> (Duration, Duration) {
        const TICK: Duration = Duration::from_millis(1);
        let mut promised = authority.until();
        let mut late = Duration::ZERO;
        let ended = authority.ended();
        tokio::pin!(ended);
        let mut due = self.clock.boot() + TICK;
        loop {
            tokio::select! {
                biased;
                () = &mut ended => break,
                () = self.clock.sleep_until(due) => {
                    let now = self.clock.boot();
                    late = late.max(now.since(due));
                    promised = promised.max(authority.until());
                    due = now + TICK;
                }
            }
        }
        let now = self.clock.boot();
        late = late.max(now.since(due));
        let waited = now.since(promised);
        self.lost().await;
        let shown = self.clock.boot().since(promised);
        (waited.saturating_sub(late), shown.saturating_sub(2 * late))
    }

    /// The clock's reading.
    pub fn boot(&self) -> BootInstant {
        self.clock.boot()
    }
}

/// A lease's row as it stands in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRow {
    /// Its holder.
    pub holder: String,
    /// Its epoch.
    pub epoch: i64,
    /// When it lapses, in Unix milliseconds.
    pub expires_at_ms: i64,
}

/// The shared row; `None` if it is not there.
///
/// # Panics
/// The database refuses.
pub async fn shared_row(raw: &mut Raw) -> Option<LeaseRow> {
    row(raw, "meta_lease WHERE id = 0").await
}

/// The row that `from` names: a table and a condition.
///
/// # Panics
/// The database refuses.
pub async fn row(raw: &mut Raw, from: &str) -> Option<LeaseRow> {
    let holder = raw.texts(&format!("SELECT holder FROM {from}")).await;
    let numbers = raw
        .integers(&format!(
            "SELECT epoch FROM {from} UNION ALL SELECT expires_at_ms FROM {from}"
        ))
        .await
        .expect("numbers");
    let holder = holder.expect("a holder").into_iter().next()?;
    Some(LeaseRow {
        holder,
        epoch: numbers[0],
        expires_at_ms: numbers[1],
    })
}

/// The wall clock, as PicoMQ reads it.
pub fn wall_ms() -> i64 {
    clock().unix().0
}

/// PicoMQ's own keeper, statement by statement, under the name of a native node.
#[derive(Debug)]
pub struct Native {
    raw: Raw,
    holder: String,
}

impl Native {
    /// A node that has not asked yet.
    pub fn new(raw: Raw, holder: &str) -> Self {
        Self {
            raw,
            holder: holder.to_owned(),
        }
    }

    /// Its acquisition; whether it has the lease now.
    ///
    /// # Panics
    /// The database refuses.
    pub async fn acquire(&mut self, ttl: Duration) -> bool {
        let (now, holder) = (wall_ms(), self.holder.clone());
        let until = now + i64::try_from(ttl.as_millis()).expect("short");
        let before = shared_row(&mut self.raw).await.expect("a row");
        self.run(&format!(
            "UPDATE meta_lease SET holder = '{holder}', epoch = epoch + 1, \
             expires_at_ms = {until} \
             WHERE id = 0 AND (expires_at_ms < {now} OR holder = '{holder}')"
        ))
        .await;
        let after = shared_row(&mut self.raw).await.expect("a row");
        after.holder == holder && after.epoch > before.epoch
    }

    /// Its renewal at this epoch; whether it still has the lease.
    ///
    /// # Panics
    /// The database refuses.
    pub async fn renew(&mut self, epoch: i64, ttl: Duration) -> bool {
        let (now, holder) = (wall_ms(), self.holder.clone());
        let until = now + i64::try_from(ttl.as_millis()).expect("short");
        self.run(&format!(
            "UPDATE meta_lease SET expires_at_ms = {until} WHERE id = 0 \
             AND holder = '{holder}' AND epoch = {epoch} AND expires_at_ms >= {now}"
        ))
        .await;
        let after = shared_row(&mut self.raw).await.expect("a row");
        after.holder == holder && after.epoch == epoch && after.expires_at_ms == until
    }

    async fn run(&mut self, sql: &str) {
        self.raw.run(sql).await.expect("a statement");
    }
}
