//! Every kind of error at every place where the keeper waits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use async_trait::async_trait;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::protocol::{Request, Row};
use crate::store::{self, Connector, Session, StoreError};
use crate::{Authority, Keeper, Leadership, LeaseOptions, Term, holder};

const LIMIT: Duration = Duration::from_secs(60);

/// Where the keeper waits for the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Connect,
    Read,
    Seed,
    Acquire,
    Renew,
    Release,
    Announced,
}

const PLACES: [Place; 7] = [
    Place::Connect,
    Place::Read,
    Place::Seed,
    Place::Acquire,
    Place::Renew,
    Place::Release,
    Place::Announced,
];

/// What happens there instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    /// The connection is closed, or speaks another protocol, or the pool is.
    Lost,
    /// Serialization, a deadlock, a lock or a time limit of the server.
    Busy,
    /// Read-only.
    WrongRole,
    /// The table was dropped.
    Missing,
    /// No answer, ever.
    Hang,
    /// The task panics.
    Panic,
}

const HARMS: [Harm; 5] = [
    Harm::Lost,
    Harm::Busy,
    Harm::WrongRole,
    Harm::Missing,
    Harm::Hang,
];

/// What is to happen where, how often still, and how often it has.
#[derive(Debug)]
struct Plan {
    place: Place,
    harm: Harm,
    left: Mutex<u32>,
    fired: watch::Sender<u32>,
}

impl Plan {
    async fn pass(&self, place: Place) -> Result<(), StoreError> {
        if place != self.place {
            return Ok(());
        }
        {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            if *left == 0 {
                return Ok(());
            }
            *left -= 1;
        }
        self.fired.send_modify(|fired| *fired += 1);
        match self.harm {
            Harm::Lost => Err(StoreError::Lost("injected".to_owned())),
            Harm::Busy => Err(StoreError::Busy("injected".to_owned())),
            Harm::WrongRole => Err(StoreError::WrongRole("injected".to_owned())),
            Harm::Missing => Err(StoreError::Missing),
            Harm::Hang => std::future::pending().await,
            Harm::Panic => panic!("injected"),
        }
    }
}

struct Harmed {
    inner: Box<dyn Connector>,
    plan: Arc<Plan>,
}

struct HarmedSession {
    inner: Box<dyn Session>,
    plan: Arc<Plan>,
}

#[async_trait]
impl Connector for Harmed {
    async fn connect(&self) -> Result<Box<dyn Session>, StoreError> {
        self.plan.pass(Place::Connect).await?;
        Ok(Box::new(HarmedSession {
            inner: self.inner.connect().await?,
            plan: self.plan.clone(),
        }))
    }
}

#[async_trait]
impl Session for HarmedSession {
    async fn perform(&mut self, request: &Request) -> Result<Option<Row>, StoreError> {
        let place = match request {
            Request::Read => Place::Read,
            Request::Seed { .. } => Place::Seed,
            Request::Acquire { .. } => Place::Acquire,
            Request::Renew { .. } => Place::Renew,
            Request::Release { .. } => Place::Release,
        };
        self.plan.pass(place).await?;
        self.inner.perform(request).await
    }

    async fn announced(&mut self) -> Result<(), StoreError> {
        self.plan.pass(Place::Announced).await?;
        self.inner.announced().await
    }
}

struct Trial {
    _directory: TempDir,
    plan: Arc<Plan>,
    keeper: Keeper,
    leadership: watch::Receiver<Leadership>,
    clock: SharedClock,
}

impl Trial {
    fn start(place: Place, harm: Harm, times: u32) -> Self {
        let directory = TempDir::new().expect("a directory");
        let url = format!("sqlite:{}", directory.path().join("meta.db").display());
        let mut options = LeaseOptions::new(url, "n").with_ttl(Duration::from_secs(1));
        options.margin = Duration::from_millis(100);
        let clock: SharedClock = Arc::new(SystemClock);
        let holder = holder::unique("n").expect("random");
        let plan = Arc::new(Plan {
            place,
            harm,
            left: Mutex::new(times),
            fired: watch::Sender::new(0),
        });
        let harmed = Harmed {
            inner: store::connector(&options, &holder).expect("a connector"),
            plan: plan.clone(),
        };
        let keeper = Keeper::start_on(options, clock.clone(), holder, Box::new(harmed));
        let keeper = keeper.expect("a keeper");
        let leadership = keeper.leadership();
        keeper.set_eligible(Ok(()));
        Self {
            _directory: directory,
            plan,
            keeper,
            leadership,
            clock,
        }
    }

    fn name(&self) -> String {
        format!("{:?} at {:?}", self.plan.harm, self.plan.place)
    }

    /// A term of a greater epoch than this.
    async fn term_after(&mut self, epoch: u64) -> (Term, Authority) {
        let name = self.name();
        let newer = |now: &Leadership| now.holding().is_some_and(|(term, _)| term.epoch > epoch);
        let found = self
            .clock
            .timeout(LIMIT, self.leadership.wait_for(newer))
            .await
            .unwrap_or_else(|_| panic!("{name}: no term after {epoch}"))
            .expect("the keeper is there")
            .clone();
        let (term, authority) = found.holding().expect("a term");
        (term.clone(), authority.clone())
    }

    async fn fired(&self, times: u32) {
        let mut fired = self.plan.fired.subscribe();
        let reached = fired.wait_for(|fired| *fired >= times);
        let reached = self.clock.timeout(LIMIT, reached).await;
        let name = self.name();
        reached
            .unwrap_or_else(|_| panic!("{name}: it did not fire"))
            .expect("the plan is there");
    }
}

/// Once, and several times in a row, at every place.
async fn survives(place: Place, harm: Harm, times: u32) {
    let mut trial = Trial::start(place, harm, times);
    let (mut term, _) = trial.term_after(0).await;
    if matches!(place, Place::Renew | Place::Announced) {
        trial.fired(times).await;
        // It may have cost the term, and then another is won.
        (term, _) = trial.term_after(0).await;
    }
    trial.keeper.release(&term).await;
    trial.fired(1).await;
    let (next, authority) = trial.term_after(term.epoch).await;
    assert!(authority.holds(), "{}: {next:?}", trial.name());
    let name = trial.name();
    trial.keeper.stop().await;
    assert!(!authority.holds(), "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cockroach_85541_no_error_at_any_place_ends_the_contention() {
    for harm in HARMS {
        let mut trials = tokio::task::JoinSet::new();
        for place in PLACES {
            for times in [1, 3] {
                trials.spawn(survives(place, harm, times));
            }
        }
        while let Some(ended) = trials.join_next().await {
            ended.expect("it survives");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cockroach_85541_a_keeper_that_panics_at_any_place_reads_as_not_leading() {
    for place in PLACES {
        let mut trial = Trial::start(place, Harm::Panic, 1);
        if matches!(place, Place::Release) {
            let (term, _) = trial.term_after(0).await;
            // Neither does the release wait for a dead thread.
            trial.keeper.release(&term).await;
        }
        trial.fired(1).await;
        let died = |now: &Leadership| matches!(now, Leadership::Unreachable { error, .. } if error.contains("died"));
        let shown = trial.leadership.wait_for(died);
        let shown = trial.clock.timeout(LIMIT, shown).await;
        shown
            .unwrap_or_else(|_| panic!("{place:?}: it is not shown"))
            .expect("the board is there");
        trial.keeper.stop().await;
    }
}
