//! A look at a metadata database that writes nothing.

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;

use aedile_clock::{SharedClock, UnixMillis};
use tokio::sync::Mutex;

use crate::applier::Applier;
use crate::records::{DivergenceRecord, LeaseRecord, NodeRecord, RunRecord};
use crate::schema::{self, TableState};
use crate::store::{self, Access, Store};
use crate::view::View;
use crate::{LogError, LogOptions, MetaUrl};

/// Reads a metadata database: opened read-only, it creates nothing and appends
/// nothing.
pub struct Reader {
    url: MetaUrl,
    store: Mutex<Arc<dyn Store>>,
    options: LogOptions,
    clock: SharedClock,
}

/// How often a file that is being written to is opened anew for one question.
const ATTEMPTS: usize = 10;

impl Reader {
    /// Connect.
    ///
    /// # Errors
    /// [`LogError::Unreachable`], also for a SQLite file that is not there.
    pub async fn open(url: &MetaUrl, clock: &SharedClock) -> Result<Self, LogError> {
        let options = LogOptions::default();
        let store = store::connect(url, Access::Read, &options, clock).await?;
        Ok(Self {
            url: url.clone(),
            store: Mutex::new(store),
            options,
            clock: clock.clone(),
        })
    }

    /// Ask, of what the database holds now.
    async fn ask<T, F>(&self, question: impl Fn(Arc<dyn Store>) -> F) -> Result<T, LogError>
    where
        F: Future<Output = Result<T, LogError>>,
    {
        for _ in 0..ATTEMPTS {
            let store = self.current().await?;
            let answer = question(store.clone()).await;
            if !store.overtaken() {
                return answer;
            }
        }
        Err(LogError::Unreachable {
            url: self.url.to_string(),
            reason: "the file changes while it is read; try again".to_owned(),
        })
    }

    async fn current(&self) -> Result<Arc<dyn Store>, LogError> {
        let mut current = self.store.lock().await;
        if current.overtaken() {
            let new = store::connect(&self.url, Access::Read, &self.options, &self.clock).await?;
            let old = std::mem::replace(&mut *current, new);
            old.close().await;
        }
        Ok(current.clone())
    }

    /// The state now.
    ///
    /// # Errors
    /// [`LogError::MissingTable`] and [`LogError::ForeignTable`] if this is no
    /// metadata database; those of a row or a snapshot that cannot be read.
    pub async fn view(&self) -> Result<View, LogError> {
        for table in self.tables().await? {
            if table.of_log && !table.present {
                return Err(LogError::MissingTable {
                    table: table.name.to_owned(),
                });
            }
        }
        self.ask(|store| async move {
            let mut applier = Applier::default();
            applier.load(store.as_ref(), &self.options).await?;
            Ok(applier.view)
        })
        .await
    }

    /// The tables, each compared with its form.
    ///
    /// # Errors
    /// [`LogError::ForeignTable`] for the first one of another form.
    pub async fn tables(&self) -> Result<Vec<TableState>, LogError> {
        self.ask(|store| async move { schema::inspect(store.as_ref(), self.url.backend()).await })
            .await
    }

    /// The database's clock.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn database_now(&self) -> Result<UnixMillis, LogError> {
        self.ask(|store| async move { store.now().await }).await
    }

    /// All leases; none where no table of leases is.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn lease_rows(&self) -> Result<Vec<LeaseRecord>, LogError> {
        self.ask(|store| async move { store.leases().await }).await
    }

    /// All nodes that ever wrote their row; none where the table is missing.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn nodes(&self) -> Result<Vec<NodeRecord>, LogError> {
        if self.present("aedile_node").await? {
            self.ask(|store| async move { store.nodes().await }).await
        } else {
            Ok(Vec::new())
        }
    }

    /// The newest runs, newest first; none where the table is missing.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn runs(&self, limit: u32) -> Result<Vec<RunRecord>, LogError> {
        if self.present("aedile_run").await? {
            self.ask(|store| async move { store.runs(limit).await })
                .await
        } else {
            Ok(Vec::new())
        }
    }

    /// The nodes that have diverged; none where the table is missing.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn divergences(&self) -> Result<Vec<DivergenceRecord>, LogError> {
        if self.present("aedile_divergence").await? {
            self.ask(|store| async move { store.divergences().await })
                .await
        } else {
            Ok(Vec::new())
        }
    }

    async fn present(&self, name: &str) -> Result<bool, LogError> {
        Ok(self
            .tables()
            .await?
            .iter()
            .any(|table| table.name == name && table.present))
    }

    /// Close the connections.
    pub async fn close(self) {
        self.store.lock().await.close().await;
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// Whether a node of this role could write: what `aedile check` asks, without
/// writing.
///
/// # Errors
/// [`LogError::ReadOnly`] with the reason; those of the database.
pub async fn check_writable(url: &MetaUrl, clock: &SharedClock) -> Result<(), LogError> {
    if let Some(path) = url.path() {
        // Only the attempt tells: permissions bind not every user, and a file
        // system can be read-only whatever they say.
        return match std::fs::OpenOptions::new().append(true).open(path) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(LogError::Unreachable {
                url: url.to_string(),
                reason: error.to_string(),
            }),
            Err(error) => Err(LogError::ReadOnly {
                url: url.to_string(),
                reason: format!("this user may not write the file: {error}"),
            }),
        };
    }
    let store = store::connect(url, Access::Write, &LogOptions::default(), clock).await?;
    let writable = store.writable().await;
    store.close().await;
    writable
}

/// Forget that a node has diverged; a running one then reads the log anew, by
/// its own next look. What was remembered of it; none if nothing was.
///
/// # Errors
/// [`LogError::MissingTable`] where no node has started yet; those of the
/// database.
pub async fn clear_divergence(
    url: &MetaUrl,
    node: &str,
    clock: &SharedClock,
) -> Result<Option<DivergenceRecord>, LogError> {
    const TABLE: &str = "aedile_divergence";
    let reader = Reader::open(url, clock).await?;
    let present = reader.present(TABLE).await;
    reader.close().await;
    if !present? {
        return Err(LogError::MissingTable {
            table: TABLE.to_owned(),
        });
    }
    let store = store::connect(url, Access::Write, &LogOptions::default(), clock).await?;
    let cleared = async {
        let all = store.divergences().await?;
        let noted = all.into_iter().find(|noted| noted.node == node);
        Ok(match noted {
            Some(noted) if store.clear_divergence(node).await? => Some(noted),
            _ => None,
        })
    };
    let cleared = cleared.await;
    store.close().await;
    cleared
}
