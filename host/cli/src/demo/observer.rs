//! The demo's observer: notes every change of the lease row and of the nodes'
//! rows, with the database's time. It only reads.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use aedile_clock::SharedClock;
use aedile_log::{NodeRecord, Reader};
use tokio::io::AsyncReadExt;

use crate::commands::{SHARED_LEASE, told};
use crate::demo::layout::Layout;
use crate::demo::records::{Appender, Observed};
use crate::exit::Exit;

/// How often the lease row is read: the precision of the measured takeovers.
const LOOK: Duration = Duration::from_millis(15);
/// The nodes' rows are read every so many looks.
const NODES_EVERY: u32 = 16;

/// Run until standard input ends.
pub(crate) async fn run(root: &Path, clock: SharedClock) -> anyhow::Result<Exit> {
    let layout = Layout::new(root);
    let reader = Reader::open(&layout.meta_url().parse()?, &clock).await?;
    let mut out = Appender::open(&layout.observed())?;
    let mut stdin = tokio::io::stdin();
    let mut byte = [0_u8];
    let mut lease = LeaseWatch::default();
    let mut nodes = BTreeMap::new();
    for turn in 0_u32.. {
        tokio::select! {
            // Any end of the pipe, also that of a killed driver.
            _ = stdin.read(&mut byte) => break,
            () = clock.sleep(LOOK) => {}
        }
        out.append(&lease.look(&reader).await?)?;
        if turn % NODES_EVERY == 0 {
            out.append(&changed_nodes(&reader, &mut nodes).await?)?;
        }
    }
    out.append(&lease.look(&reader).await?)?;
    out.append(&changed_nodes(&reader, &mut nodes).await?)?;
    reader.close().await;
    Ok(Exit::Ok)
}

/// The lease row as it was last read.
#[derive(Debug, Default)]
struct LeaseWatch {
    last: Option<(String, u64, i64)>,
    read_at: i64,
}

impl LeaseWatch {
    async fn look(&mut self, reader: &Reader) -> anyhow::Result<Vec<Observed>> {
        // The time is read first: the row is at least as new as it says.
        let at = reader.database_now().await?.0;
        let rows = reader.lease_rows().await?;
        let Some(row) = rows.into_iter().find(|row| row.name == SHARED_LEASE) else {
            return Ok(Vec::new());
        };
        let before = std::mem::replace(&mut self.read_at, at);
        let now = (row.holder, row.epoch, row.expires.0);
        if self.last.as_ref() == Some(&now) {
            return Ok(Vec::new());
        }
        let (holder, epoch, expires) = now.clone();
        self.last = Some(now);
        Ok(vec![Observed::Lease {
            at,
            before,
            holder,
            epoch,
            expires,
        }])
    }
}

/// When a node's process began, and its plugins: name, version, digest.
type Seen = (i64, Vec<(String, String, String)>);

async fn changed_nodes(
    reader: &Reader,
    known: &mut BTreeMap<String, Seen>,
) -> anyhow::Result<Vec<Observed>> {
    let at = reader.database_now().await?.0;
    let mut changed = Vec::new();
    for record in reader.nodes().await? {
        let now = (record.started.0, plugins(&record));
        if known.get(&record.node) != Some(&now) {
            changed.push(Observed::Node {
                at,
                node: record.node.clone(),
                started: now.0,
                plugins: now.1.clone(),
            });
            known.insert(record.node, now);
        }
    }
    Ok(changed)
}

fn plugins(record: &NodeRecord) -> Vec<(String, String, String)> {
    let Some(status) = told(record) else {
        return Vec::new();
    };
    status
        .plugins
        .into_iter()
        .map(|plugin| (plugin.name, plugin.version, plugin.digest))
        .collect()
}
