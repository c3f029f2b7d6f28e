//! What the suites of the log share: clients, and commands for them.

pub mod held;
pub mod weak;

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use aedile_log::{Answer, Log, LogError, LogOptions, MetaUrl};
use aedile_state::{Command, NodeId, Value};

/// The node that the suites' commands come from.
pub const NODE: NodeId = NodeId(1);
/// Its epoch.
pub const NODE_EPOCH: i64 = 1;
/// Longest wait for what must happen. Far above what it takes.
pub const BOUND: Duration = Duration::from_secs(30);

/// The machine's clock.
pub fn clock() -> SharedClock {
    Arc::new(SystemClock)
}

/// Parse a URL of the suites.
///
/// # Panics
/// It is none.
pub fn meta_url(url: &str) -> MetaUrl {
    url.parse().expect("a metadata URL")
}

/// Open a client.
///
/// # Errors
/// Those of the client.
pub async fn open(url: &str, options: LogOptions) -> Result<Log, LogError> {
    Log::open(&meta_url(url), options, clock()).await
}

/// Options of a client that looks at the log only when it has appended
/// something itself, so that it lags behind others.
pub fn lagging() -> LogOptions {
    LogOptions {
        poll_min: Duration::from_secs(3600),
        poll_max: Duration::from_secs(3600),
        ..LogOptions::default()
    }
}

/// Register the suites' node.
pub fn register() -> Command {
    Command::RegisterNode {
        node: NODE,
        node_epoch: NODE_EPOCH,
        http_address: "http://127.0.0.1:1".to_owned(),
        slots: 8,
    }
}

/// Create a stream: the answer is its id.
pub fn create_stream() -> Command {
    Command::CreateStream {
        node: NODE,
        node_epoch: NODE_EPOCH,
    }
}

/// Reserve object ids, to lapse at 0 + `ttl_ms`: the answer is the first.
pub fn prepare(count: u32, ttl_ms: i64) -> Command {
    Command::PrepareObject {
        node: NODE,
        node_epoch: NODE_EPOCH,
        count,
        ttl_ms,
        now_ms: 0,
    }
}

/// Store a key.
pub fn put(key: &str, value: &str) -> Command {
    Command::PutKv {
        key: key.to_owned(),
        value: value.as_bytes().to_vec(),
    }
}

/// Bytes as a literal of the database.
pub fn literal(kind: crate::databases::Kind, bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match kind {
        crate::databases::Kind::Sqlite => format!("x'{hex}'"),
        crate::databases::Kind::Postgres => format!("'\\x{hex}'::bytea"),
    }
}

/// The id in an answer.
///
/// # Panics
/// There is none.
pub fn id(answer: &Answer) -> u64 {
    match answer {
        Answer::Applied(applied) => match applied.value {
            Value::Id(id) => id,
            ref other => panic!("no id: {other:?}"),
        },
        other => panic!("not applied: {other:?}"),
    }
}

/// Propose one command.
///
/// # Panics
/// The client fails.
pub async fn propose(log: &Log, command: Command) -> Answer {
    let answers = log.propose(vec![command]).await.expect("an answer");
    let [answer] = <[Answer; 1]>::try_from(answers).expect("one answer for one command");
    answer
}

/// Look again and again until there is a value.
///
/// # Panics
/// There is none within [`BOUND`].
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let clock = clock();
    let end = clock.boot() + BOUND;
    loop {
        if let Some(value) = look().await {
            return value;
        }
        assert!(clock.boot() < end, "waited in vain: {what}");
        clock.sleep(Duration::from_millis(5)).await;
    }
}
