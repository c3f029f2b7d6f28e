//! A database as it is, read with nothing of the product but its codec.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use aedile_state::{Command, Outcome, State};
use aedile_tests_contract::databases::{Raw, Replay};
use sha2::{Digest, Sha256};

/// The lease row that is shared with PicoMQ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who holds it, or held it last.
    pub holder: String,
    /// Its epoch.
    pub epoch: i64,
    /// When it ends, in Unix milliseconds; 0 if it is free.
    pub expires: i64,
}

impl Lease {
    /// Whether this node is named in it, whatever start of it.
    pub fn names(&self, node: &str) -> bool {
        self.holder
            .strip_prefix(node)
            .is_some_and(|rest| rest.starts_with('-'))
    }
}

/// Connect beside the nodes.
pub async fn connect(url: &str) -> Raw {
    Raw::connect(url).await.expect("the database can be read")
}

/// The lease row; none while there is no table or no row.
pub async fn lease(raw: &mut Raw) -> Option<Lease> {
    let rows = raw
        .texts(
            "SELECT holder || '|' || CAST(epoch AS TEXT) || '|' || CAST(expires_at_ms AS TEXT) \
             FROM meta_lease WHERE id = 0",
        )
        .await
        .ok()?;
    let row = rows.into_iter().next()?;
    let mut parts = row.rsplitn(3, '|');
    let expires = parts.next()?.parse().ok()?;
    let epoch = parts.next()?.parse().ok()?;
    Some(Lease {
        holder: parts.next()?.to_owned(),
        epoch,
        expires,
    })
}

/// Snapshot and rows.
pub async fn replay(raw: &mut Raw) -> Replay {
    raw.read().await.expect("the log can be read")
}

/// The state that the log stands for.
pub async fn state(raw: &mut Raw) -> State {
    replay(raw).await.state().0
}

/// What every row behind an index holds and answered.
pub async fn after(raw: &mut Raw, index: i64) -> Vec<(Command, Outcome)> {
    let (_, rows) = replay(raw).await.state();
    rows.into_iter()
        .filter(|(at, _)| *at > index)
        .flat_map(|(_, commands)| commands)
        .collect()
}

/// The ids that these commands took off the destroyed queue, and how often a
/// clean command named each.
pub fn cleaned(commands: &[(Command, Outcome)]) -> BTreeMap<u64, usize> {
    let mut ids = BTreeMap::new();
    for (command, _) in commands {
        if let Command::CleanDestroyedObjects { objects } = command {
            for object in objects {
                *ids.entry(object.0).or_default() += 1;
            }
        }
    }
    ids
}

/// Ids of all marks.
pub fn marks(state: &State) -> BTreeSet<u64> {
    state.marks_after(None).map(|(_, id, _)| id.0).collect()
}

/// Ids of all reservations.
pub fn reservations(state: &State) -> BTreeSet<u64> {
    state.reservations_after(None).map(|(id, _)| id.0).collect()
}

/// Ids of all objects of the catalog.
pub fn live(state: &State) -> BTreeSet<u64> {
    state.live_after(None).map(|id| id.0).collect()
}

/// Hash of every file below a directory, by path; what SQLite keeps beside a
/// database while it is open is left out.
pub fn files(root: &Path) -> BTreeMap<String, [u8; 32]> {
    let mut files = crate::ledger::read(root);
    files.retain(|name, _| !name.ends_with("-wal") && !name.ends_with("-shm"));
    files
}

/// Hash of one file.
pub fn hash(path: &Path) -> [u8; 32] {
    let bytes = std::fs::read(path).expect("the file can be read");
    Sha256::digest(&bytes).into()
}
