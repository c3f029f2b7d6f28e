//! A look at a metadata database that writes nothing.

use std::fmt;
use std::sync::Arc;

use aedile_clock::{SharedClock, UnixMillis};

use crate::records::{LeaseRecord, NodeRecord, RunRecord};
use crate::schema::{self, TableState};
use crate::store::{self, Access, Store};
use crate::tailer::Applier;
use crate::url::Backend;
use crate::view::View;
use crate::{LogError, LogOptions, MetaUrl};

/// Reads a metadata database: opened read-only, it creates nothing and appends
/// nothing.
pub struct Reader {
    store: Arc<dyn Store>,
    backend: Backend,
    options: LogOptions,
}

impl Reader {
    /// Connect.
    ///
    /// # Errors
    /// [`LogError::Unreachable`], also for a SQLite file that is not there.
    pub async fn open(url: &MetaUrl, clock: &SharedClock) -> Result<Self, LogError> {
        let options = LogOptions::default();
        Ok(Self {
            store: store::connect(url, Access::Read, &options, clock).await?,
            backend: url.backend(),
            options,
        })
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
        let mut applier = Applier::default();
        applier.load(self.store.as_ref(), &self.options).await?;
        Ok(applier.view)
    }

    /// The tables, each compared with its form.
    ///
    /// # Errors
    /// [`LogError::ForeignTable`] for the first one of another form.
    pub async fn tables(&self) -> Result<Vec<TableState>, LogError> {
        schema::inspect(self.store.as_ref(), self.backend).await
    }

    /// The database's clock.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn database_now(&self) -> Result<UnixMillis, LogError> {
        self.store.now().await
    }

    /// All leases; none where no table of leases is.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn lease_rows(&self) -> Result<Vec<LeaseRecord>, LogError> {
        self.store.leases().await
    }

    /// All nodes that ever wrote their row; none where the table is missing.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn nodes(&self) -> Result<Vec<NodeRecord>, LogError> {
        if self.present("aedile_node").await? {
            self.store.nodes().await
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
            self.store.runs(limit).await
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
        self.store.close().await;
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("backend", &self.backend)
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
        let metadata = std::fs::metadata(path).map_err(|error| LogError::Unreachable {
            url: url.to_string(),
            reason: error.to_string(),
        })?;
        let open = std::fs::OpenOptions::new().append(true).open(path);
        if metadata.permissions().readonly() || open.is_err() {
            return Err(LogError::ReadOnly {
                url: url.to_string(),
                reason: "this user may not write the file".to_owned(),
            });
        }
        return Ok(());
    }
    let store = store::connect(url, Access::Write, &LogOptions::default(), clock).await?;
    let writable = store.writable().await;
    store.close().await;
    writable
}
