//! The operations on a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::SharedClock;
use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::GetRange;

use crate::composite::{self, FOOTER, Footer, PREFIX};
use crate::delete::Deleting;
use crate::file::FileStore;
use crate::folders::{self, Pause};
use crate::pace::Pace;
use crate::s3::S3Store;
use crate::uri::Place;
use crate::{
    Composite, DeleteOutcome, Location, StorageError, StorageUri, StoreOptions, StoreProbe,
    StoreReport, StoreTraits, Stored,
};

/// Asked before every request: `None` sends no more; otherwise how long the
/// request may take.
pub type Gate<'a> = &'a (dyn Fn() -> Option<Duration> + Send + Sync);

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

impl Store {
    pub(crate) fn backend(&self) -> &Backend {
        &self.inner.backend
    }
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
        let pace = Pace::new(options.keys_per_second);
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
                pace,
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
            keys_per_second: self.inner.pace.keys_per_second(),
        }
    }

    /// What an operator should know of the store, one sentence each: what it was
    /// found to lack or to mind.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let Backend::S3(store) = &self.inner.backend else {
            return notes;
        };
        if store.versioned() {
            notes.push(
                "the bucket keeps versions, so its bytes will not shrink until a lifecycle rule \
                 removes noncurrent ones"
                    .to_owned(),
            );
        }
        if store.without_bulk() {
            notes.push("the service refuses bulk deletes; objects go one by one".to_owned());
        }
        if let Some(found) = self.inner.pace.found() {
            notes.push(format!(
                "the service throttles; deletes are slowed to {found:.0} objects a second"
            ));
        }
        notes
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

    /// Find out what the bucket is like; none for a directory, which has nothing
    /// to ask. What is refused is unknown, and no error.
    ///
    /// Settings are read, and a bulk delete of one key is sent that is reserved
    /// for this and that nobody has.
    pub async fn probe(&self) -> Option<StoreProbe> {
        match &self.inner.backend {
            Backend::File(_) => None,
            Backend::S3(store) => Some(store.probe().await),
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
        let _pause = match &inner.backend {
            Backend::File(store) => Some(Pause::new(store)),
            Backend::S3(_) => None,
        };
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

    /// Wait until what deletes left to be done later is done: on a directory,
    /// the removal of the objects' own empty directories. Dropped, it goes on by
    /// itself.
    pub async fn settle(&self) {
        if let Backend::File(store) = &self.inner.backend {
            folders::settle(store).await;
        }
    }

    /// Objects for which [`Store::settle`] has something to do.
    pub fn unsettled(&self) -> usize {
        match &self.inner.backend {
            Backend::File(store) => store.folders().waiting(),
            Backend::S3(_) => 0,
        }
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
    /// decides for an object that PicoMQ wrote and that is none, a second one
    /// for what ends as nothing that it writes.
    ///
    /// # Errors
    /// The store's.
    pub async fn links(&self, id: u64) -> Result<Composite, StorageError> {
        let Some((tail, size)) = self.tail(id, FOOTER).await? else {
            return Ok(Composite::Absent);
        };
        let longest = self.inner.options.link_list_bytes;
        let length = match composite::footer(&tail, size, longest) {
            Footer::Plain => return Ok(Composite::Plain),
            Footer::Unknown => {
                let head = if tail.len() as u64 == size {
                    tail
                } else {
                    let Some((head, _)) = self.range(id, 0, PREFIX).await? else {
                        return Ok(Composite::Absent);
                    };
                    head
                };
                let cut = composite::cut_off(&head, size, longest);
                return Ok(cut.map_or(Composite::Plain, Composite::Unreadable));
            }
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
pub(crate) async fn on_file<T: Send + 'static>(
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
