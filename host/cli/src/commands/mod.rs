//! The commands, one file each.

pub(crate) mod author;
pub(crate) mod check;
pub(crate) mod control;
pub(crate) mod lease;
pub(crate) mod log;
pub(crate) mod parked;
pub(crate) mod plan;
pub(crate) mod plugin;
pub(crate) mod run;
pub(crate) mod state;
pub(crate) mod status;
mod store_facts;
pub(crate) mod supply;

use std::sync::Arc;

use aedile_clock::{SharedClock, SystemClock};
use aedile_log::{NodeRecord, Reader};

use crate::config::Config;

/// Name of the lease row that PicoMQ nodes contend for too.
pub(crate) const SHARED_LEASE: &str = "shared";

/// How many of each kind a list shows without `--all`.
const LISTED: usize = 20;

/// The machine's clock.
pub(crate) fn clock() -> SharedClock {
    Arc::new(SystemClock)
}

/// The configured database, read only.
async fn reader(config: &Config, clock: &SharedClock) -> anyhow::Result<Reader> {
    Ok(Reader::open(&config.meta_url()?, clock).await?)
}

/// What a node told of itself in its row; none if another version wrote it in
/// a form that this one does not know.
pub(crate) fn told(record: &NodeRecord) -> Option<aedile_runtime::Status> {
    serde_json::from_value(record.status.clone()).ok()
}
