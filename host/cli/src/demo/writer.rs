//! The demo's writer: acts as a PicoMQ node would.
//!
//! A process of its own. It takes one order a line on standard input, answers
//! each with one line, and between orders keeps the cluster busy. Everything
//! that it makes is noted in the ledger once the log has acknowledged it.

mod cluster;

use std::path::Path;
use std::time::Duration;

use aedile_clock::SharedClock;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::demo::layout::Layout;
use crate::exit::Exit;
use cluster::Cluster;

/// Time between two small pieces of work that nobody ordered.
const TRICKLE: Duration = Duration::from_millis(400);

/// What the writer is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Register, make streams, upload, abandon, compact, make the hostile mark.
    Seed,
    /// Upload this many objects into one stream.
    Fill {
        /// How many.
        objects: u32,
    },
    /// Delete the stream that was filled.
    Destroy,
    /// Stop making things: what is there is to be drained.
    Rest,
}

/// What the writer answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    /// One line for people.
    pub(crate) text: String,
    /// Ids of the objects that the order was about, if the driver needs them.
    pub(crate) ids: Vec<u64>,
}

/// Run until standard input ends.
pub(crate) async fn run(root: &Path, clock: SharedClock) -> anyhow::Result<Exit> {
    let layout = Layout::new(root);
    let mut cluster = Cluster::open(&layout, clock.clone()).await?;
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    let mut answers = tokio::io::stdout();
    let mut busy = false;
    loop {
        let order = tokio::select! {
            line = orders.next_line() => match line? {
                Some(line) => serde_json::from_str(&line).context("an order that is none")?,
                None => break,
            },
            () = clock.sleep(TRICKLE), if busy => {
                cluster.trickle().await?;
                continue;
            }
        };
        let done = match order {
            Order::Seed => {
                let done = cluster.seed().await?;
                busy = true;
                done
            }
            Order::Fill { objects } => cluster.fill(objects).await?,
            Order::Destroy => cluster.destroy().await?,
            Order::Rest => {
                busy = false;
                cluster.rest().await?
            }
        };
        let mut line = serde_json::to_vec(&done)?;
        line.push(b'\n');
        answers.write_all(&line).await?;
        answers.flush().await?;
    }
    cluster.close().await;
    Ok(Exit::Ok)
}
