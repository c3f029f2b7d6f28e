//! Appends whose reply or request is lost, on a real file: the layer above the
//! statements loses what a network would. (On PostgreSQL the contract suite
//! loses real messages.)
#![allow(clippy::unwrap_used, reason = "a test ends with what went wrong")]

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock, UnixMillis};
use aedile_state::{Command, State, StreamId, Value, codec};
use async_trait::async_trait;
use tempfile::TempDir;

use crate::records::{DivergenceRecord, LeaseRecord, NodeRecord, RunRecord};
use crate::schema::Table;
use crate::store::{self, Access, Append, AppendError, Fetch, Row, Store, Tip};
use crate::{Answer, Fence, Log, LogError, LogHealth, LogOptions, MetaUrl};

/// What becomes of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It lands; the reply is lost.
    Reply,
    /// It is never sent.
    Request,
    /// It lands, the reply is lost, and before anybody looks a snapshot covers
    /// it and the row is gone.
    ReplyAndSnapshot,
    /// It is never sent, and before it is sent again another's row stands there.
    RequestAndRow,
}

struct Lossy {
    inner: Arc<dyn Store>,
    faults: Mutex<Vec<Fault>>,
    fired: Mutex<Vec<Fault>>,
    /// How often the log was looked at.
    looks: AtomicUsize,
}

fn lost() -> AppendError {
    AppendError::Unknown(LogError::Unreachable {
        url: "a test".to_owned(),
        reason: "the reply was lost".to_owned(),
    })
}

impl Lossy {
    async fn snapshot_all(&self) {
        let (mut last, mut state) = match self.inner.snapshot().await.unwrap() {
            Some((index, payload)) => (index, State::decode_snapshot(&payload).unwrap()),
            None => (0, State::new()),
        };
        let held = self.inner.fetch(last + 1, 10_000).await.unwrap();
        for (index, payload) in held.rows {
            for command in codec::decode_batch(&payload).unwrap() {
                let _ = state.apply(&command);
            }
            last = index;
        }
        let payload = state.encode_snapshot();
        assert!(
            self.inner
                .store_snapshot(last, payload, last)
                .await
                .unwrap()
        );
    }
}

#[async_trait]
impl Store for Lossy {
    async fn append(
        &self,
        first: u64,
        rows: &[Arc<[u8]>],
        fence: Option<&Fence>,
    ) -> Result<Append, AppendError> {
        let fault = self.faults.lock().unwrap().pop();
        let Some(fault) = fault else {
            return self.inner.append(first, rows, fence).await;
        };
        match fault {
            Fault::Reply => {
                self.inner.append(first, rows, fence).await.unwrap();
            }
            Fault::Request => {}
            Fault::ReplyAndSnapshot => {
                let sent = self.inner.append(first, rows, fence).await.unwrap();
                assert!(matches!(sent, Append::Landed(_)), "{sent:?}");
                self.snapshot_all().await;
            }
            Fault::RequestAndRow => {
                let other = codec::encode_batch(&[put("/other")]);
                let other = [other.into()];
                let sent = self.inner.append(first, &other, None).await.unwrap();
                assert!(matches!(sent, Append::Landed(_)), "{sent:?}");
            }
        }
        self.fired.lock().unwrap().push(fault);
        Err(lost())
    }

    async fn columns(&self, table: &Table) -> Result<Option<Vec<(String, String)>>, LogError> {
        self.inner.columns(table).await
    }
    async fn create(&self, table: &Table) -> Result<(), LogError> {
        self.inner.create(table).await
    }
    async fn writable(&self) -> Result<(), LogError> {
        self.inner.writable().await
    }
    async fn tip(&self) -> Result<Tip, LogError> {
        self.inner.tip().await
    }
    async fn fetch(&self, from: u64, limit: u32) -> Result<Fetch, LogError> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.inner.fetch(from, limit).await
    }
    async fn snapshot(&self) -> Result<Option<Row>, LogError> {
        self.inner.snapshot().await
    }
    async fn store_snapshot(
        &self,
        index: u64,
        payload: Vec<u8>,
        truncate: u64,
    ) -> Result<bool, LogError> {
        self.inner.store_snapshot(index, payload, truncate).await
    }
    async fn now(&self) -> Result<UnixMillis, LogError> {
        self.inner.now().await
    }
    async fn heartbeat(&self, record: &NodeRecord) -> Result<(), LogError> {
        self.inner.heartbeat(record).await
    }
    async fn add_run(&self, record: &RunRecord) -> Result<(), LogError> {
        self.inner.add_run(record).await
    }
    async fn nodes(&self) -> Result<Vec<NodeRecord>, LogError> {
        self.inner.nodes().await
    }
    async fn runs(&self, limit: u32) -> Result<Vec<RunRecord>, LogError> {
        self.inner.runs(limit).await
    }
    async fn leases(&self) -> Result<Vec<LeaseRecord>, LogError> {
        self.inner.leases().await
    }
    async fn note_divergence(&self, record: &DivergenceRecord) -> Result<(), LogError> {
        self.inner.note_divergence(record).await
    }
    async fn divergences(&self) -> Result<Vec<DivergenceRecord>, LogError> {
        self.inner.divergences().await
    }
    async fn clear_divergence(&self, node: &str) -> Result<bool, LogError> {
        self.inner.clear_divergence(node).await
    }
    async fn close(&self) {
        self.inner.close().await;
    }
}

struct Scene {
    _directory: TempDir,
    lossy: Arc<Lossy>,
    log: Log,
}

/// A client whose tailer looks by itself or only when it is told to.
async fn scene(poll: Duration) -> Scene {
    let directory = TempDir::new().unwrap();
    let url = MetaUrl::sqlite(directory.path().join("meta.db"));
    let clock: SharedClock = Arc::new(SystemClock);
    let options = LogOptions {
        poll_min: poll,
        poll_max: poll,
        ..LogOptions::default()
    };
    let inner = store::connect(&url, Access::Write, &options, &clock)
        .await
        .unwrap();
    let lossy = Arc::new(Lossy {
        inner,
        faults: Mutex::default(),
        fired: Mutex::default(),
        looks: AtomicUsize::default(),
    });
    let log = Log::start(&url, lossy.clone(), options, clock)
        .await
        .unwrap();
    log.propose(vec![Command::RegisterNode {
        node: aedile_state::NodeId(1),
        node_epoch: 1,
        http_address: "a".to_owned(),
        slots: 1,
    }])
    .await
    .unwrap();
    Scene {
        _directory: directory,
        lossy,
        log,
    }
}

const NEVER: Duration = Duration::from_secs(3600);
const OFTEN: Duration = Duration::from_millis(1);

fn put(key: &str) -> Command {
    Command::PutKv {
        key: key.to_owned(),
        value: Vec::new(),
    }
}

fn create_stream() -> Command {
    Command::CreateStream {
        node: aedile_state::NodeId(1),
        node_epoch: 1,
    }
}

impl Scene {
    /// Create a stream while these go wrong, the first given first.
    async fn with(&self, mut faults: Vec<Fault>) -> Answer {
        faults.reverse();
        let count = faults.len();
        *self.lossy.faults.lock().unwrap() = faults;
        let before = self.lossy.fired.lock().unwrap().len();
        let answer = self.log.propose(vec![create_stream()]).await.unwrap();
        // The tailer may have answered before the last of them was tried.
        let fired = self.lossy.fired.lock().unwrap().len() - before;
        assert!((1..=count).contains(&fired), "{fired} faults fired");
        self.lossy.faults.lock().unwrap().clear();
        // Nor may the proposer have settled it: this one waits for that.
        self.log.propose(vec![put("/behind")]).await.unwrap();
        answer.into_iter().next().unwrap()
    }

    /// The streams of a replay of what the database holds.
    async fn streams(&self) -> usize {
        let snapshot = self.lossy.snapshot().await.unwrap();
        let (from, mut state) = match snapshot {
            Some((index, payload)) => (index + 1, State::decode_snapshot(&payload).unwrap()),
            None => (1, State::new()),
        };
        for (_, payload) in self.lossy.fetch(from, 10_000).await.unwrap().rows {
            for command in codec::decode_batch(&payload).unwrap() {
                let _ = state.apply(&command);
            }
        }
        state.counts().streams
    }
}

fn stream(answer: &Answer) -> StreamId {
    match answer {
        Answer::Applied(applied) => match applied.value {
            Value::Id(id) => StreamId(id),
            ref other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn whatever_is_lost_is_done_once() {
    use Fault::{Reply, Request, RequestAndRow};
    for poll in [NEVER, OFTEN] {
        let scene = scene(poll).await;
        for (number, faults) in [
            vec![Reply],
            vec![Request],
            vec![Reply, Reply],
            vec![Request, Reply],
            vec![Request, Request, Reply, Request],
            vec![RequestAndRow],
            vec![RequestAndRow, Reply],
            vec![Request, RequestAndRow, Reply],
        ]
        .into_iter()
        .enumerate()
        {
            let answer = scene.with(faults.clone()).await;
            assert_eq!(stream(&answer), StreamId(number as u64), "{faults:?}");
            assert_eq!(scene.streams().await, number + 1, "{faults:?}");
        }
        assert_eq!(*scene.log.health().borrow(), LogHealth::Healthy);
        scene.log.clone().close().await;
    }
}

#[tokio::test]
async fn what_a_snapshot_covered_meanwhile_is_unknown_and_not_done_again() {
    let scene = scene(NEVER).await;
    for round in 0..2 {
        assert_eq!(
            scene.with(vec![Fault::ReplyAndSnapshot]).await,
            Answer::Unknown
        );
        assert_eq!(scene.streams().await, round * 2 + 1);
        // The next one goes on behind the snapshot.
        let answers = scene.log.propose(vec![create_stream()]).await.unwrap();
        assert_eq!(stream(&answers[0]), StreamId(round as u64 * 2 + 1));
        assert_eq!(scene.streams().await, round * 2 + 2);
    }
    scene.log.clone().close().await;
}

#[tokio::test]
async fn a_reply_that_stays_lost_ends_as_unknown() {
    let directory = TempDir::new().unwrap();
    let url = MetaUrl::sqlite(directory.path().join("meta.db"));
    let clock: SharedClock = Arc::new(SystemClock);
    let options = LogOptions {
        propose_timeout: Duration::from_millis(200),
        ..LogOptions::default()
    };
    let inner = store::connect(&url, Access::Write, &options, &clock)
        .await
        .unwrap();
    let lossy = Arc::new(Lossy {
        inner,
        faults: Mutex::new(vec![Fault::Request; 10_000]),
        fired: Mutex::default(),
        looks: AtomicUsize::default(),
    });
    let log = Log::start(&url, lossy.clone(), options, clock)
        .await
        .unwrap();
    let answers = log.propose(vec![put("/a")]).await.unwrap();
    assert_eq!(answers, [Answer::Unknown]);
    assert!(
        lossy.fired.lock().unwrap().len() > 1,
        "it was not tried again"
    );
    // The client goes on afterwards.
    lossy.faults.lock().unwrap().clear();
    let answers = log.propose(vec![put("/b")]).await.unwrap();
    assert!(matches!(answers[0], Answer::Applied(_)), "{answers:?}");
    log.close().await;
}

/// An append brings back what a look would; a look is made where it does not.
#[tokio::test]
async fn what_was_appended_is_not_read_again() {
    let scene = scene(NEVER).await;
    let looks = || scene.lossy.looks.load(Ordering::SeqCst);
    let before = looks();
    for number in 0..20 {
        let both = vec![create_stream(), put("/key")];
        let answers = scene.log.propose(both).await.unwrap();
        assert_eq!(stream(&answers[0]), StreamId(number));
    }
    assert_eq!(looks(), before);
    // Whoever asks for a look has one.
    scene.log.catch_up(NEVER).await.unwrap();
    assert_eq!(looks(), before + 1);
    // Another's row lies between: both are read.
    let next = scene.log.view().index + 1;
    let other = [codec::encode_batch(&[create_stream()]).into()];
    let sent = scene.lossy.inner.append(next, &other, None).await.unwrap();
    assert!(matches!(sent, Append::Landed(_)), "{sent:?}");
    let answers = scene.log.propose(vec![create_stream()]).await.unwrap();
    assert_eq!(stream(&answers[0]), StreamId(21));
    assert!(looks() > before + 1);
    assert_eq!(scene.streams().await, 22);
    scene.log.clone().close().await;
}
