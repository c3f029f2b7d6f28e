//! What the driver can see and wait for.

use std::time::Duration;

use aedile_clock::SharedClock;
use aedile_log::{Log, LogOptions, Reader};
use aedile_state::State;

use crate::commands::{SHARED_LEASE, told};
use crate::demo::layout::Layout;
use crate::demo::progress::{Figures, Progress};

/// How often the driver looks while it waits.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// The lease row at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lease {
    /// Its holder; empty if there is none.
    pub(crate) holder: String,
    /// Its epoch.
    pub(crate) epoch: u64,
    /// What is left of it.
    pub(crate) left: Duration,
}

impl Lease {
    /// Which of these nodes holds it.
    pub(crate) fn node<'a>(&self, nodes: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        if self.left.is_zero() {
            return None;
        }
        let holds = |name: &str| {
            self.holder
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('-'))
        };
        nodes.into_iter().find(|name| holds(name))
    }
}

/// The driver's eyes: the log as any client sees it, and the rows beside it.
#[derive(Debug)]
pub(crate) struct Scene {
    /// Progress on the screen.
    pub(crate) progress: Progress,
    /// Time.
    pub(crate) clock: SharedClock,
    log: Log,
    reader: Reader,
    ttl: Duration,
}

impl Scene {
    /// Open the database, making it.
    pub(crate) async fn open(
        layout: &Layout,
        clock: SharedClock,
        progress: Progress,
        ttl: Duration,
    ) -> anyhow::Result<Self> {
        let url = layout.meta_url().parse()?;
        let log = Log::open(&url, LogOptions::default(), clock.clone()).await?;
        let reader = Reader::open(&url, &clock).await?;
        Ok(Self {
            progress,
            clock,
            log,
            reader,
            ttl,
        })
    }

    /// Close everything.
    pub(crate) async fn close(self) {
        self.reader.close().await;
        self.log.close().await;
    }

    /// The state as it stands.
    pub(crate) fn state(&self) -> State {
        self.log.view().state.clone()
    }

    /// The lease row as it stands.
    pub(crate) async fn lease(&self) -> anyhow::Result<Lease> {
        let now = self.now().await?;
        let rows = self.reader.lease_rows().await?;
        let Some(row) = rows.into_iter().find(|row| row.name == SHARED_LEASE) else {
            return Ok(Lease::default());
        };
        let left = u64::try_from(row.expires.0.saturating_sub(now)).unwrap_or(0);
        Ok(Lease {
            holder: row.holder,
            epoch: row.epoch,
            left: Duration::from_millis(left),
        })
    }

    /// The database's time in Unix milliseconds.
    pub(crate) async fn now(&self) -> anyhow::Result<i64> {
        Ok(self.reader.database_now().await?.0)
    }

    /// Version and digest of a plugin on a node, as the node's row shows it.
    pub(crate) async fn plugin(
        &self,
        node: &str,
        plugin: &str,
    ) -> anyhow::Result<Option<(String, String)>> {
        for record in self.reader.nodes().await? {
            if record.node != node {
                continue;
            }
            let Some(status) = told(&record) else {
                return Ok(None);
            };
            let found = status
                .plugins
                .into_iter()
                .find(|found| found.name == plugin);
            return Ok(found.map(|found| (found.version, found.digest)));
        }
        Ok(None)
    }

    /// Show the figures of the moment.
    pub(crate) async fn show(&mut self) -> anyhow::Result<()> {
        let lease = self.lease().await?;
        let counts = self.log.view().state.counts();
        let figures = Figures {
            // The node's name, without what makes the holder's unique.
            holder: lease
                .holder
                .rsplit_once('-')
                .map_or("", |(node, _)| node)
                .to_owned(),
            epoch: lease.epoch,
            left: lease.left,
            ttl: self.ttl,
            marks: counts.marks as u64,
            reservations: counts.reservations as u64,
            live: counts.live_objects() as u64,
        };
        self.progress.figures(&figures);
        Ok(())
    }

    /// Show the figures for a while.
    pub(crate) async fn linger(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = self.clock.boot() + time;
        while self.clock.boot() < end {
            self.show().await?;
            self.clock.sleep(LOOK).await;
        }
        Ok(())
    }

    /// Look until there is a value. What does not come in time is said, and the
    /// demo goes on: the verdict will tell what it means.
    pub(crate) async fn wait<T>(
        &mut self,
        what: &str,
        bound: Duration,
        mut look: impl AsyncFnMut(&Self) -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<Option<T>> {
        let end = self.clock.boot() + bound;
        loop {
            if let Some(value) = look(self).await? {
                return Ok(Some(value));
            }
            if self.clock.boot() >= end {
                self.progress.bad(&format!("waited in vain: {what}"));
                return Ok(None);
            }
            self.show().await?;
            self.clock.sleep(LOOK).await;
        }
    }
}
