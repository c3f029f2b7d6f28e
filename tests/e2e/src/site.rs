//! A database and an object directory on which nodes run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use aedile_tests_contract::databases::{Database, Kind, Raw};
use tempfile::TempDir;

use crate::binary::Node;
use crate::cluster::{self, Made};
use crate::outside::{self, Lease};
use crate::wait::until;

/// Longest wait for what must happen soon. Far above what it takes.
pub const BOUND: Duration = Duration::from_secs(60);

/// The time to live of the lease that most tests set, to be quick.
pub const TTL: Duration = Duration::from_secs(2);

/// How often a node with that time to live attempts.
pub const INTERVAL: Duration = Duration::from_millis(500);

/// A database, a directory for logs, and one for objects.
#[derive(Debug)]
pub struct Site {
    database: Option<Database>,
    url: String,
    dir: TempDir,
    /// What the catalog was made of.
    pub made: Made,
}

impl Site {
    /// A site with so many live and so many destroyed objects, the bytes of
    /// each in a local directory.
    pub async fn new(kind: Kind, live: usize, marked: usize) -> Self {
        let site = Self::without_bytes(kind, live, marked).await;
        for key in site.made.keys() {
            site.put(&key);
        }
        site
    }

    /// The same without bytes: they are kept elsewhere.
    pub async fn without_bytes(kind: Kind, live: usize, marked: usize) -> Self {
        let database = Database::create(kind).await.expect("a database");
        let url = database.url();
        let mut site = Self::at(url, live, marked).await;
        site.database = Some(database);
        site
    }

    /// A site on an empty database of somebody else.
    pub async fn at(url: String, live: usize, marked: usize) -> Self {
        let dir = tempfile::tempdir().expect("a directory can be made");
        std::fs::create_dir(dir.path().join("objects")).expect("a directory can be made");
        let mut raw = outside::connect(&url).await;
        let made = cluster::make(&mut raw, live, marked).await;
        raw.close().await.expect("a connection closes");
        Self {
            database: None,
            url,
            dir,
            made,
        }
    }

    /// The database, if it is a test's own.
    pub fn database(&self) -> &Database {
        self.database.as_ref().expect("a database of its own")
    }

    /// The database as `--meta-url` takes it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The directory for logs.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The object directory.
    pub fn objects(&self) -> PathBuf {
        self.dir.path().join("objects")
    }

    /// The object directory as `--storage` takes it.
    pub fn storage(&self) -> String {
        format!("-2@file://{}", self.objects().display())
    }

    /// Write an object.
    pub fn put(&self, key: &str) {
        let path = self.objects().join(key);
        std::fs::create_dir_all(path.parent().expect("a key has folders"))
            .expect("a directory can be made");
        std::fs::write(path, cluster::content(key)).expect("an object can be written");
    }

    /// A connection beside the nodes.
    pub async fn raw(&self) -> Raw {
        outside::connect(&self.url).await
    }

    /// Start a node on it with further arguments.
    pub fn node(&self, name: &str, ttl: &str, more: &[&str]) -> Node {
        let storage = self.storage();
        let place = ["--meta-url", &self.url, "--storage", &storage, "--ttl", ttl];
        Node::start(name, self.dir(), &[&place[..], more].concat())
    }
}

/// Wait until one of these nodes leads; which, by its number, the row, and how
/// long it took.
pub async fn leader(raw: &mut Raw, nodes: &[&Node], bound: Duration) -> (usize, Lease, Duration) {
    let ((which, lease), took) = until("a leader", bound, async || {
        let lease = outside::lease(raw).await?;
        let which = nodes.iter().position(|node| lease.names(&node.name))?;
        (lease.expires > 0).then_some((which, lease))
    })
    .await;
    (which, lease, took)
}

/// Wait until a node has said this in its log.
pub async fn said(node: &Node, what: &str) -> Duration {
    let log = async || node.log().contains(what).then_some(());
    until(&format!("{} says {what:?}", node.name), BOUND, log)
        .await
        .1
}

/// Wait until nothing is marked any more; how long it took.
pub async fn drained(raw: &mut Raw, bound: Duration) -> Duration {
    until("an empty destroyed queue", bound, async || {
        outside::marks(&outside::state(raw).await)
            .is_empty()
            .then_some(())
    })
    .await
    .1
}
