//! The keeper on a real file, with a connection that misbehaves on demand.

mod errors;
mod suspend;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock, SystemClock};
use async_trait::async_trait;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::protocol::{Request, Row};
use crate::store::{self, Connector, Session, StoreError};
use crate::{Authority, Keeper, Leadership, LeaseOptions, Term, holder};

const LIMIT: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(1);

/// What the next renewal does instead of renewing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fault {
    #[default]
    None,
    /// It never answers.
    Hang,
    /// It blocks the keeper's whole thread.
    Block,
    /// It panics.
    Panic,
}

#[derive(Default)]
struct Switch {
    fault: Mutex<Fault>,
    changed: Condvar,
    fired: AtomicUsize,
}

impl Switch {
    fn set(&self, fault: Fault) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        self.changed.notify_all();
    }

    fn get(&self) -> Fault {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn block(&self) {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        while *fault == Fault::Block {
            fault = self
                .changed
                .wait(fault)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

struct Faulty {
    inner: Box<dyn Connector>,
    switch: Arc<Switch>,
}

struct FaultySession {
    inner: Box<dyn Session>,
    switch: Arc<Switch>,
}

#[async_trait]
impl Connector for Faulty {
    async fn connect(&self) -> Result<Box<dyn Session>, StoreError> {
        Ok(Box::new(FaultySession {
            inner: self.inner.connect().await?,
            switch: self.switch.clone(),
        }))
    }
}

#[async_trait]
impl Session for FaultySession {
    async fn perform(&mut self, request: &Request) -> Result<Option<Row>, StoreError> {
        let fault = self.switch.get();
        if fault != Fault::None && matches!(request, Request::Renew { .. }) {
            self.switch.fired.fetch_add(1, Ordering::Relaxed);
            match fault {
                Fault::None => {}
                Fault::Hang => std::future::pending().await,
                Fault::Block => self.switch.block(),
                Fault::Panic => panic!("injected"),
            }
        }
        self.inner.perform(request).await
    }

    async fn announced(&mut self) -> Result<(), StoreError> {
        self.inner.announced().await
    }
}

struct Trial {
    _directory: TempDir,
    clock: SharedClock,
    switch: Arc<Switch>,
    keeper: Keeper,
    leadership: watch::Receiver<Leadership>,
}

impl Trial {
    fn start() -> Self {
        let directory = TempDir::new().expect("a directory");
        let url = format!("sqlite:{}", directory.path().join("meta.db").display());
        let mut options = LeaseOptions::new(url, "n").with_ttl(Duration::from_secs(1));
        options.margin = Duration::from_millis(100);
        let clock: SharedClock = Arc::new(SystemClock);
        let holder = holder::unique("n").expect("random");
        let inner = store::connector(&options, &holder).expect("a connector");
        let switch = Arc::<Switch>::default();
        let faulty = Box::new(Faulty {
            inner,
            switch: switch.clone(),
        });
        let keeper = Keeper::start_on(options, clock.clone(), holder, faulty).expect("a keeper");
        let leadership = keeper.leadership();
        Self {
            _directory: directory,
            clock,
            switch,
            keeper,
            leadership,
        }
    }

    async fn until(&mut self, what: &str, wanted: impl FnMut(&Leadership) -> bool) -> Leadership {
        let found = self
            .clock
            .timeout(LIMIT, self.leadership.wait_for(wanted))
            .await;
        let found = found.unwrap_or_else(|_| panic!("no {what} in time"));
        found.expect("the keeper is there").clone()
    }

    async fn lead(&mut self) -> (Term, Authority) {
        self.keeper.set_eligible(Ok(()));
        let held = self
            .until("term", |leadership| leadership.holding().is_some())
            .await;
        let (term, authority) = held.holding().expect("a term");
        (term.clone(), authority.clone())
    }

    /// Inject a fault; how long after its last promised instant the authority
    /// was seen ended by one who waits for it, and the leadership shown as lost.
    async fn overrun(&mut self, fault: Fault) -> (Duration, Duration) {
        let (_, authority) = self.lead().await;
        self.switch.set(fault);
        let mut promised = BootInstant::default();
        // How late the machine's own timers are: this is not about them.
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
        let by_waiting = now.since(promised).saturating_sub(late);
        self.until("loss", |leadership| leadership.holding().is_none())
            .await;
        let shown = self.clock.boot().since(promised);
        let shown = shown.saturating_sub(2 * late);
        assert!(self.switch.fired.load(Ordering::Relaxed) > 0, "it fired");
        assert!(!authority.holds());
        (by_waiting, shown)
    }
}

const TARGET: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_65090_a_renewal_that_hangs_ends_the_term_in_time() {
    let mut trial = Trial::start();
    let (waited, shown) = trial.overrun(Fault::Hang).await;
    assert!(waited <= TARGET && shown <= TARGET, "{waited:?} {shown:?}");
    assert!(trial.switch.fired.load(Ordering::Relaxed) >= 2);
    let now = trial.leadership.borrow().clone();
    assert!(matches!(now, Leadership::Unreachable { .. }), "{now:?}");
    trial.switch.set(Fault::None);
    trial.lead().await;
    trial.keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn river_695_a_keeper_whose_thread_is_blocked_ends_the_term_in_time() {
    let mut trial = Trial::start();
    let (waited, shown) = trial.overrun(Fault::Block).await;
    assert!(waited <= TARGET && shown <= TARGET, "{waited:?} {shown:?}");
    let now = trial.leadership.borrow().clone();
    assert!(matches!(now, Leadership::Unreachable { .. }), "{now:?}");
    trial.switch.set(Fault::None);
    let (term, _) = trial.lead().await;
    assert_eq!(term.epoch, 2);
    trial.keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_6922_a_keeper_that_dies_reads_as_not_leading() {
    let mut trial = Trial::start();
    let (_, authority) = trial.lead().await;
    trial.switch.set(Fault::Panic);
    trial
        .clock
        .timeout(LIMIT, authority.ended())
        .await
        .expect("it ends");
    let now = trial
        .until("loss", |leadership| leadership.holding().is_none())
        .await;
    assert!(
        matches!(&now, Leadership::Unreachable { error, .. } if error.contains("died")),
        "{now:?}"
    );
    // Neither asks a dead thread and waits.
    trial.keeper.set_eligible(Ok(()));
    trial.keeper.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_keeper_ends_its_term_at_once_and_releases_nothing() {
    let mut trial = Trial::start();
    let (_, authority) = trial.lead().await;
    drop(trial.keeper);
    assert!(!authority.holds());
    assert!(trial.leadership.borrow().holding().is_none());
    let mut closed = trial.leadership;
    // Both threads end: the last sender is gone.
    trial
        .clock
        .timeout(LIMIT, async { while closed.changed().await.is_ok() {} })
        .await
        .expect("the threads end");
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_is_answered_while_a_request_hangs() {
    let mut trial = Trial::start();
    let (_, authority) = trial.lead().await;
    trial.switch.set(Fault::Hang);
    while trial.switch.fired.load(Ordering::Relaxed) == 0 {
        trial.clock.sleep(Duration::from_millis(1)).await;
    }
    let before = trial.clock.boot();
    trial.keeper.stop().await;
    assert!(!authority.holds());
    assert!(trial.clock.boot().since(before) < Duration::from_secs(2));
}
