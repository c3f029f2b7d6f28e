//! How the client behaves; every figure has a default that suits production.

use std::time::Duration;

/// Options of a [`Log`](crate::Log).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Name of this node, under which a divergence is remembered in the
    /// database. Default `aedile`.
    pub node: String,
    /// Shortest time between two looks at the log, while rows arrive.
    /// Default 10 ms, as PicoMQ polls.
    pub poll_min: Duration,
    /// Longest time between two looks, when nothing arrives. Default 500 ms.
    pub poll_max: Duration,
    /// Most commands in one row, the nonce not counted. Default 255, so that a
    /// row has at most the 256 of PicoMQ.
    pub batch_max: usize,
    /// Most rows in one append. Default 8.
    pub rows_max: usize,
    /// Most commands that wait for an append. Default 4096; more wait outside.
    pub queue: usize,
    /// Most rows in one fetch. Default 1024.
    pub fetch: u32,
    /// Write a snapshot each time that this many rows were applied. Default
    /// none: beside PicoMQ nodes, they do it.
    pub snapshot_every: Option<u64>,
    /// How many rows are kept below our own snapshots, so that a writer that
    /// lags meets a conflict and a reader that lags needs no snapshot.
    /// Default 1024.
    pub snapshot_tail: u64,
    /// How long one statement may take. Default 1 s: an append that hangs must
    /// not hold the others up.
    pub statement_timeout: Duration,
    /// How long to wait for a connection. Default 5 s.
    pub connect_timeout: Duration,
    /// How long a proposal waits for its answer. Default 30 s; afterwards the
    /// answer is [`Answer::Unknown`](crate::Answer::Unknown).
    pub propose_timeout: Duration,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            node: "aedile".to_owned(),
            poll_min: Duration::from_millis(10),
            poll_max: Duration::from_millis(500),
            batch_max: 255,
            rows_max: 8,
            queue: 4096,
            fetch: 1024,
            snapshot_every: None,
            snapshot_tail: 1024,
            statement_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(5),
            propose_timeout: Duration::from_secs(30),
        }
    }
}
