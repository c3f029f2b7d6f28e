//! The verdict: a process of its own, from database and directory alone.
//!
//! It reads the database, the object directory, and what writer, observer and
//! driver noted while the demo ran. It asks no node and trusts none.

mod judge;
mod takeover;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aedile_clock::SharedClock;
use aedile_lease::LeaseOptions;
use aedile_log::Reader;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::demo::layout::Layout;
use crate::demo::records::{self, Deed, Ledger, Observed};
use crate::exit::Exit;
use crate::version;

/// The verdict on a demo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// Whether every bound holds.
    pub(crate) held: bool,
    /// Version of the binary that judged.
    pub(crate) version: String,
    /// Whether the nodes' build has the guard that protects live data.
    pub(crate) guard: bool,
    /// The checks, in the order in which they are told.
    pub(crate) checks: Vec<Check>,
}

/// One thing that must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Check {
    /// Stable name.
    pub(crate) name: String,
    /// What was found.
    pub(crate) value: i64,
    /// What it must be.
    pub(crate) bound: Bound,
    /// Unit of both: `""` for a count, else `ms`.
    pub(crate) unit: String,
    /// Whether it holds.
    pub(crate) held: bool,
    /// What it means, or what is wrong.
    pub(crate) detail: String,
}

/// What a value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bound {
    /// Exactly this.
    Exactly(i64),
    /// No more than this.
    AtMost(i64),
    /// No less than this.
    AtLeast(i64),
}

impl Bound {
    /// Whether a value is within.
    pub(crate) fn holds(self, value: i64) -> bool {
        match self {
            Self::Exactly(bound) => value == bound,
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }
}

impl Check {
    fn new(name: &str, value: i64, bound: Bound, detail: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            value,
            bound,
            unit: String::new(),
            held: bound.holds(value),
            detail: detail.into(),
        }
    }

    fn in_ms(mut self) -> Self {
        self.unit = "ms".to_owned();
        self
    }
}

/// Everything that the verdict is computed from.
#[derive(Debug)]
struct Evidence {
    state: aedile_state::State,
    now: i64,
    files: BTreeMap<String, (String, u64)>,
    ledger: Vec<Ledger>,
    observed: Vec<Observed>,
    deeds: Vec<Deed>,
    ttl_ms: i64,
    interval_ms: i64,
}

/// Judge and print the verdict as JSON.
pub(crate) async fn run(root: &Path, clock: SharedClock) -> anyhow::Result<Exit> {
    let layout = Layout::new(root);
    let reader = Reader::open(&layout.meta_url().parse()?, &clock).await?;
    let view = reader.view().await?;
    let now = reader.database_now().await?.0;
    reader.close().await;
    let lease = LeaseOptions::default();
    let evidence = Evidence {
        state: view.state,
        now,
        files: files(&layout.objects())?,
        ledger: records::read(&layout.ledger())?,
        observed: records::read(&layout.observed())?,
        deeds: records::read(&layout.deeds())?,
        ttl_ms: lease.ttl.as_millis() as i64,
        interval_ms: lease.interval.as_millis() as i64,
    };
    let mut checks = judge::objects(&evidence);
    checks.extend(judge::catalog(&evidence));
    checks.push(judge::applied_once(&evidence));
    checks.extend(takeover::checks(&evidence));
    checks.extend(takeover::swaps(&evidence));
    let verdict = Verdict {
        held: checks.iter().all(|check| check.held),
        version: version::NUMBER.to_owned(),
        guard: !version::WITHOUT_GUARD,
        checks,
    };
    crate::output::json(&verdict)?;
    Ok(if verdict.held {
        Exit::Ok
    } else {
        Exit::Verdict
    })
}

/// Every file below a directory: hash and size by key.
fn files(root: &Path) -> anyhow::Result<BTreeMap<String, (String, u64)>> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes =
                std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let key = path.strip_prefix(root)?.to_string_lossy().into_owned();
            found.insert(
                key,
                (hex::encode(Sha256::digest(&bytes)), bytes.len() as u64),
            );
        }
    }
    Ok(found)
}
