//! The operations on a store.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, UnixMillis};
use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::GetRange;

use crate::composite::{self, FOOTER, Footer};
use crate::delete::Deleting;
use crate::file::FileStore;
use crate::pace::Pace;
use crate::s3::S3Store;
use crate::uri::Place;
use crate::{KeyKind, StorageError, StorageUri, key_kind};

/// Asked before every request: `None` sends no more; otherwise how long the
/// request may take.
pub type Gate<'a> = &'a (dyn Fn() -> Option<Duration> + Send + Sync);

/// Credentials for an S3 service.
#[derive(Clone)]
pub struct Credentials {
    /// The access key's id.
    pub access_key_id: String,
    /// The secret access key; never shown.
    pub secret_access_key: String,
    /// The session token of temporary credentials; never shown.
    pub session_token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

/// How a store is used.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Requests in flight: bulk deletes of up to 1000 keys on S3, workers on a
    /// directory. At least 1; too many meet the store's throttling.
    pub concurrency: usize,
    /// Requests in flight for single objects (S3 only). At least 1.
    pub single_concurrency: usize,
    /// Keys in a bulk delete, 1 to 1000.
    pub chunk: usize,
    /// How long one request may take, connecting included.
    pub request_timeout: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How often a *read* is tried again, inside `request_timeout`. A delete
    /// is not: its caller decides.
    pub read_retries: usize,
    /// The longest link list of a composite that is read, in bytes.
    pub link_list_bytes: u64,
    /// Credentials for an S3 service, for those who embed the store. None
    /// takes them from `AWS_*` variables, else from the machine's role.
    pub credentials: Option<Credentials>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            concurrency: 4,
            single_concurrency: 32,
            chunk: 1000,
            request_timeout: Duration::from_secs(15),
            connect_timeout: Duration::from_secs(5),
            read_retries: 2,
            link_list_bytes: 16 << 20,
            credentials: None,
        }
    }
}

/// Where a store is, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Location {
    /// A local directory.
    Directory(PathBuf),
    /// A bucket.
    Bucket {
        /// Its name.
        bucket: String,
        /// Where it is served.
        endpoint: String,
    },
}

/// What [`Store::check`] found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreReport {
    /// What was looked at.
    pub location: Location,
    /// The store's clock minus ours, in milliseconds, where the store tells
    /// its time (to the second).
    pub clock_offset_ms: Option<i64>,
    /// Whether nothing at all lies in the store.
    pub empty: bool,
}

/// What was learnt of a store while it was used.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoreTraits {
    /// Many objects go with one request. False for a directory, and once an S3
    /// service has refused it.
    pub bulk_delete: bool,
    /// A delete was answered with a marker over the bytes: they go on taking
    /// space until the bucket's lifecycle rules remove them.
    pub versioned: bool,
    /// Part of the configured concurrency in use, above 0 and up to 1: it
    /// halves when the store throttles.
    pub pace: f64,
}

/// Bytes in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The key.
    pub key: String,
    /// The object whose key this is; none for anything else.
    pub id: Option<u64>,
    /// Size in bytes.
    pub size: u64,
    /// When they were written, by the store's clock.
    pub modified: UnixMillis,
}

/// What became of one object's bytes.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeleteOutcome {
    /// The store confirmed that they are gone. (S3 says so also of bytes that
    /// were not there.)
    Deleted,
    /// They were not there.
    Absent,
    /// The store asks for less; try later.
    Throttled,
    /// It failed, or nobody knows, and may succeed later.
    Retry(String),
    /// The store refuses.
    Denied(String),
    /// The gate was shut before this one was sent.
    NotSent,
}

/// What an object says about itself.
///
/// An object that the catalog calls a composite and that shows here as plain
/// was damaged or cut short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Composite {
    /// There is no such object.
    Absent,
    /// It holds its data itself.
    Plain,
    /// It links these objects, in its order.
    Links(Vec<u64>),
    /// It ends as a composite does, but its links cannot be read.
    Unreadable(String),
}

impl Stored {
    pub(crate) fn new(key: String, size: u64, modified: UnixMillis) -> Self {
        let id = match key_kind(&key) {
            KeyKind::Data(id) => Some(id),
            _ => None,
        };
        Self {
            key,
            id,
            size,
            modified,
        }
    }
}

impl StoreOptions {
    /// Check every option's range.
    ///
    /// # Errors
    /// The first option that is out of it.
    pub fn validate(&self) -> Result<(), StorageError> {
        let checks = [
            (
                "concurrency",
                (1..=256).contains(&self.concurrency),
                "1 to 256",
            ),
            (
                "single_concurrency",
                (1..=1024).contains(&self.single_concurrency),
                "1 to 1024",
            ),
            ("chunk", (1..=1000).contains(&self.chunk), "1 to 1000 keys"),
            (
                "request_timeout",
                !self.request_timeout.is_zero(),
                "longer than 0",
            ),
            (
                "connect_timeout",
                !self.connect_timeout.is_zero(),
                "longer than 0",
            ),
        ];
        match checks.into_iter().find(|(_, good, _)| !good) {
            None => Ok(()),
            Some((option, _, range)) => Err(StorageError::BadOption {
                option,
                reason: format!("expected {range}"),
            }),
        }
    }
}

/// The kinds of store.
#[derive(Debug)]
pub(crate) enum Backend {
    File(Arc<FileStore>),
    S3(Arc<S3Store>),
}

/// A store. Clones share everything.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    uri: StorageUri,
    backend: Backend,
    options: StoreOptions,
    clock: SharedClock,
    pace: Pace,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store")
            .field(&format_args!("{}", self.inner.uri))
            .finish()
    }
}

impl Store {
    /// Open the store. Nothing is written; of an S3 store, nothing is asked
    /// yet either (see [`Store::check`]).
    ///
    /// # Errors
    /// An option out of range, or a `file://` root that is not an existing
    /// directory.
    pub fn open(
        uri: &StorageUri,
        options: StoreOptions,
        clock: SharedClock,
    ) -> Result<Self, StorageError> {
        options.validate()?;
        let backend = match uri.place() {
            Place::File(path) => Backend::File(Arc::new(FileStore::open(path)?)),
            Place::S3(location) => {
                let store = S3Store::open(location, &options, Arc::clone(&clock))?;
                Backend::S3(Arc::new(store))
            }
        };
        Ok(Self {
            inner: Arc::new(Inner {
                uri: uri.clone(),
                backend,
                options,
                clock,
                pace: Pace::new(),
            }),
        })
    }

    /// Where it is.
    pub fn uri(&self) -> &StorageUri {
        &self.inner.uri
    }

    /// What was learnt of the store since it was opened.
    pub fn traits(&self) -> StoreTraits {
        let (bulk_delete, versioned) = match &self.inner.backend {
            Backend::File(_) => (false, false),
            Backend::S3(store) => (!store.without_bulk(), store.versioned()),
        };
        StoreTraits {
            bulk_delete,
            versioned,
            pace: self.inner.pace.share(),
        }
    }

    /// Look, without writing anything, whether the store can be used.
    ///
    /// # Errors
    /// Each way in which it cannot, as its own error.
    pub async fn check(&self) -> Result<StoreReport, StorageError> {
        match &self.inner.backend {
            Backend::File(store) => {
                let location = Location::Directory(store.path().to_path_buf());
                let empty = on_file(store, FileStore::check).await?;
                Ok(StoreReport {
                    location,
                    clock_offset_ms: None,
                    empty,
                })
            }
            Backend::S3(store) => {
                let before = self.inner.clock.unix();
                let (empty, date) = store.check().await?;
                let after = self.inner.clock.unix();
                let middle = before.0 + (after.0 - before.0) / 2;
                Ok(StoreReport {
                    location: Location::Bucket {
                        bucket: store.bucket().to_owned(),
                        endpoint: store.endpoint().to_owned(),
                    },
                    clock_offset_ms: date.map(|date| date - middle),
                    empty,
                })
            }
        }
    }

    /// Delete the bytes of these objects: one outcome per id, in the order
    /// given.
    ///
    /// The gate is asked before every request. Everything that was sent has
    /// ended when this returns. Await it to the end: dropped, it sends no more,
    /// but what a blocking worker has begun ends by itself.
    pub async fn delete(&self, ids: &[u64], gate: Gate<'_>) -> Vec<(u64, DeleteOutcome)> {
        let inner = &*self.inner;
        inner.pace.begin();
        let deleting = Deleting {
            backend: &inner.backend,
            options: &inner.options,
            clock: &inner.clock,
            pace: &inner.pace,
            gate,
        };
        deleting.run(ids).await
    }

    /// What the store has of an object; none if nothing.
    ///
    /// # Errors
    /// The store's.
    pub async fn head(&self, id: u64) -> Result<Option<Stored>, StorageError> {
        match &self.inner.backend {
            Backend::File(store) => on_file(store, move |store| store.head(id)).await,
            Backend::S3(store) => store.head(id).await,
        }
    }

    /// [`Store::head`] of many, this many at a time; in the order given.
    pub async fn head_many(
        &self,
        ids: &[u64],
        concurrency: usize,
    ) -> Vec<(u64, Result<Option<Stored>, StorageError>)> {
        futures_util::stream::iter(ids.iter().copied())
            .map(|id| async move { (id, self.head(id).await) })
            .buffered(concurrency.max(1))
            .collect()
            .await
    }

    /// `length` bytes of an object from `offset` on; fewer where it ends. None
    /// if there is no such object.
    ///
    /// # Errors
    /// The store's.
    pub async fn read(
        &self,
        id: u64,
        offset: u64,
        length: u32,
    ) -> Result<Option<Bytes>, StorageError> {
        let read = self.range(id, offset, u64::from(length)).await?;
        Ok(read.map(|(bytes, _)| bytes))
    }

    async fn range(
        &self,
        id: u64,
        offset: u64,
        length: u64,
    ) -> Result<Option<(Bytes, u64)>, StorageError> {
        match &self.inner.backend {
            Backend::File(store) => {
                on_file(store, move |store| store.read(id, Some(offset), length)).await
            }
            // S3 has no empty range.
            Backend::S3(store) if length == 0 => {
                let found = store.head(id).await?;
                Ok(found.map(|stored| (Bytes::new(), stored.size)))
            }
            Backend::S3(store) => {
                let range = GetRange::Bounded(offset..offset.saturating_add(length));
                store.read(id, range, length).await
            }
        }
    }

    /// The last bytes of an object, and its size.
    async fn tail(&self, id: u64, length: u64) -> Result<Option<(Bytes, u64)>, StorageError> {
        match &self.inner.backend {
            Backend::File(store) => on_file(store, move |store| store.read(id, None, length)).await,
            Backend::S3(store) => store.read(id, GetRange::Suffix(length), length).await,
        }
    }

    /// At most `limit` keys that begin with `prefix`, in byte order, after the
    /// key `after`. Fewer than `limit` means: that was all. Symbolic links are
    /// not followed.
    ///
    /// # Errors
    /// The store's. An error leaves nothing out silently: there is no listing
    /// then.
    pub async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Stored>, StorageError> {
        match &self.inner.backend {
            Backend::File(store) => {
                let prefix = prefix.to_owned();
                let after = after.map(str::to_owned);
                on_file(store, move |store| {
                    store.list(&prefix, after.as_deref(), limit)
                })
                .await
            }
            Backend::S3(store) => store.list(prefix, after, limit).await,
        }
    }

    /// Whether an object is a composite, and what it links. One short request
    /// decides for an object that is none.
    ///
    /// # Errors
    /// The store's.
    pub async fn links(&self, id: u64) -> Result<Composite, StorageError> {
        let Some((tail, size)) = self.tail(id, FOOTER).await? else {
            return Ok(Composite::Absent);
        };
        let length = match composite::footer(&tail, size, self.inner.options.link_list_bytes) {
            Footer::Plain => return Ok(Composite::Plain),
            Footer::Bad(reason) => return Ok(Composite::Unreadable(reason)),
            Footer::LinkList(length) => length,
        };
        match self.range(id, 0, length).await? {
            None => Ok(Composite::Absent),
            Some((_, now)) if now != size => Ok(Composite::Unreadable(format!(
                "it changed from {size} to {now} bytes while it was read"
            ))),
            Some((list, _)) => Ok(composite::links(&list, length)),
        }
    }

    /// [`Store::links`] of many, this many at a time; in the order given.
    pub async fn links_many(
        &self,
        ids: &[u64],
        concurrency: usize,
    ) -> Vec<(u64, Result<Composite, StorageError>)> {
        futures_util::stream::iter(ids.iter().copied())
            .map(|id| async move { (id, self.links(id).await) })
            .buffered(concurrency.max(1))
            .collect()
            .await
    }
}

/// Run something that blocks on a directory.
async fn on_file<T: Send + 'static>(
    store: &Arc<FileStore>,
    work: impl FnOnce(&FileStore) -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    let worker = Arc::clone(store);
    let joined = tokio::task::spawn_blocking(move || work(&worker)).await;
    joined.unwrap_or_else(|error| {
        Err(StorageError::Failed {
            place: format!("directory {}", store.path().display()),
            reason: format!("the worker ended without an answer: {error}"),
        })
    })
}
