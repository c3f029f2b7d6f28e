//! A bucket on an S3 service.

mod probe;

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use aedile_clock::{Elapsed, SharedClock, UnixMillis};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use object_store::list::{PaginatedListOptions, PaginatedListStore as _};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore as _, ObjectStoreExt as _};

use crate::answer::{Refusal, Said, line};
use crate::clients::Clients;
use crate::delete::Verdict;
use crate::wire::{Answer, Record, recorded};
use crate::{DeleteOutcome, S3Location, StorageError, StoreOptions, Stored, object_key};

/// The most keys that the service lists in one answer, and deletes with one
/// request.
const PAGE: usize = 1000;

/// What is tried where a service calls a longer list of keys malformed, before
/// it counts as one without bulk deletes.
const SMALL_BULK: usize = 100;

/// A bucket, and what was learnt of its service.
pub(crate) struct S3Store {
    location: S3Location,
    clients: Clients,
    request_timeout: Duration,
    clock: SharedClock,
    /// The service has no bulk delete.
    without_bulk: AtomicBool,
    /// The most keys that the service takes in a bulk delete.
    bulk_limit: AtomicUsize,
    /// The service keeps the bytes of what is deleted.
    versioned: AtomicBool,
}

impl fmt::Debug for S3Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Store")
            .field("location", &self.location)
            .finish_non_exhaustive()
    }
}

impl S3Store {
    pub(crate) fn open(
        location: &S3Location,
        options: &StoreOptions,
        clock: SharedClock,
    ) -> Result<Self, StorageError> {
        let clients = Clients::build(location, options)?;
        Ok(Self {
            location: location.clone(),
            clients,
            request_timeout: options.request_timeout,
            clock,
            without_bulk: AtomicBool::new(false),
            bulk_limit: AtomicUsize::new(PAGE),
            versioned: AtomicBool::new(false),
        })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.clients.endpoint
    }

    pub(crate) fn bucket(&self) -> &str {
        &self.location.bucket
    }

    pub(crate) fn without_bulk(&self) -> bool {
        self.without_bulk.load(Ordering::Relaxed)
    }

    pub(crate) fn bulk_limit(&self) -> usize {
        self.bulk_limit.load(Ordering::Relaxed)
    }

    pub(crate) fn versioned(&self) -> bool {
        self.versioned.load(Ordering::Relaxed)
    }

    /// Delete these objects with one request.
    pub(crate) async fn delete_chunk(&self, ids: &[u64], limit: Duration) -> Vec<(u64, Verdict)> {
        let keys: Vec<String> = ids.iter().map(|id| object_key(*id)).collect();
        let paths: Vec<_> = keys
            .iter()
            .map(|key| Ok(Path::from(key.as_str())))
            .collect();
        let requests = self
            .clients
            .bulk
            .delete_stream(futures_util::stream::iter(paths).boxed())
            .collect::<Vec<_>>();
        let (results, record) = recorded(self.clock.timeout(limit, requests)).await;
        let all = |verdict: &Verdict| ids.iter().map(|id| (*id, verdict.clone())).collect();
        let results = match results {
            Ok(results) => results,
            Err(elapsed) => return all(&retry(elapsed.to_string())),
        };
        self.learn(&record);
        let answer = match &record.answer {
            Some(Answer::Bulk(answer)) => answer,
            Some(Answer::Refused(refusal)) => return all(&self.chunk_refused(refusal, ids.len())),
            Some(Answer::Garbled(reason)) => {
                tracing::warn!(bucket = self.bucket(), %reason, "bulk delete: no usable answer; deleting one by one");
                return all(&Verdict::Alone);
            }
            Some(Answer::Broken(text)) => return all(&retry(text.clone())),
            Some(Answer::Success) | None => {
                let error = results.into_iter().find_map(Result::err);
                let text = error.map_or_else(|| "no answer".into(), |error| error.to_string());
                return all(&retry(line(&text)));
            }
        };
        let confirmed: HashSet<Path> = results.into_iter().filter_map(Result::ok).collect();
        let said = answer.of(keys.iter().map(String::as_str));
        ids.iter()
            .zip(&keys)
            .zip(said)
            .map(|((id, key), said)| {
                let verdict = match said {
                    Said::Gone if confirmed.contains(&Path::from(key.as_str())) => {
                        Verdict::Done(DeleteOutcome::Deleted)
                    }
                    Said::Gone => retry("the request was not confirmed".into()),
                    Said::Refused(refusal) => Verdict::Done(refusal.outcome()),
                    Said::Nothing => Verdict::Alone,
                };
                (*id, verdict)
            })
            .collect()
    }

    /// What a refused bulk request means for each of its objects.
    fn chunk_refused(&self, refusal: &Refusal, keys: usize) -> Verdict {
        if refusal.malformed() && keys > SMALL_BULK {
            if self.bulk_limit.fetch_min(SMALL_BULK, Ordering::Relaxed) > SMALL_BULK {
                tracing::warn!(
                    bucket = self.bucket(),
                    answer = %refusal.text(),
                    "the service refuses a bulk delete of {keys} keys; trying {SMALL_BULK} at a time"
                );
            }
            return Verdict::Again;
        }
        if refusal.without_bulk() {
            self.gives_up_bulk(refusal);
            return Verdict::Alone;
        }
        if refusal.denied() && !refusal.blames_caller() && !refusal.no_bucket() {
            // One object that must not go can be what the whole was refused for.
            return Verdict::Alone;
        }
        Verdict::Done(match refusal.outcome() {
            // Of a whole request this says nothing about any object.
            DeleteOutcome::Absent => DeleteOutcome::Retry(refusal.text()),
            outcome => outcome,
        })
    }

    /// Delete one object with a request of its own.
    pub(crate) async fn delete_one(&self, id: u64, limit: Duration) -> DeleteOutcome {
        let path = Path::from(object_key(id));
        let request = self
            .clients
            .single
            .delete_stream(futures_util::stream::iter([Ok(path.clone())]).boxed())
            .collect::<Vec<_>>();
        let (results, record) = recorded(self.clock.timeout(limit, request)).await;
        let results = match results {
            Ok(results) => results,
            Err(elapsed) => return DeleteOutcome::Retry(elapsed.to_string()),
        };
        self.learn(&record);
        let confirmed = results.iter().flatten().any(|deleted| *deleted == path);
        match record.answer {
            Some(Answer::Success) if confirmed => DeleteOutcome::Deleted,
            Some(Answer::Refused(refusal)) => refusal.outcome(),
            Some(Answer::Broken(text) | Answer::Garbled(text)) => DeleteOutcome::Retry(text),
            Some(Answer::Success | Answer::Bulk(_)) | None => {
                let error = results.into_iter().find_map(Result::err);
                let text = error.map_or_else(|| "no answer".into(), |error| error.to_string());
                DeleteOutcome::Retry(line(&text))
            }
        }
    }

    /// The service has no bulk delete: said once.
    fn gives_up_bulk(&self, refusal: &Refusal) {
        if !self.without_bulk.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                bucket = self.bucket(),
                answer = %refusal.text(),
                "the service refuses bulk deletes; deleting one by one from now on"
            );
        }
    }

    fn learn(&self, record: &Record) {
        if record.marked {
            self.keeps_versions();
        }
    }

    /// Bytes stay where something is deleted: said once.
    fn keeps_versions(&self) {
        if !self.versioned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                bucket = self.bucket(),
                "the bucket keeps versions, so its bytes will not shrink: deleted objects go on taking space until its lifecycle rules remove them"
            );
        }
    }

    pub(crate) async fn head(&self, id: u64) -> Result<Option<Stored>, StorageError> {
        self.head_key(&object_key(id)).await
    }

    /// What lies at a key.
    pub(crate) async fn head_key(&self, key: &str) -> Result<Option<Stored>, StorageError> {
        let path = Path::from(key);
        match self.request(self.clients.reader.head(&path)).await {
            Ok((meta, _)) => Ok(Some(stored(meta))),
            // The answer to HEAD has no body that could say more.
            Err((_, Some(refusal))) if refusal.status == 404 && !refusal.no_bucket() => Ok(None),
            Err((error, _)) => Err(error),
        }
    }

    /// Bytes of an object, and its size; none if there is no such object.
    pub(crate) async fn read(
        &self,
        id: u64,
        range: GetRange,
        length: u64,
    ) -> Result<Option<(Bytes, u64)>, StorageError> {
        self.read_key(&object_key(id), range, length).await
    }

    /// [`S3Store::read`] of any key.
    pub(crate) async fn read_key(
        &self,
        key: &str,
        range: GetRange,
        length: u64,
    ) -> Result<Option<(Bytes, u64)>, StorageError> {
        let path = Path::from(key);
        let request = async {
            let options = GetOptions::new().with_range(Some(range));
            let found = self.clients.reader.get_opts(&path, options).await?;
            let size = found.meta.size;
            let mut stream = found.into_stream();
            let mut bytes = BytesMut::new();
            while let Some(part) = stream.next().await {
                let part = part?;
                let left = length.saturating_sub(bytes.len() as u64);
                let take = usize::try_from(left).map_or(part.len(), |left| left.min(part.len()));
                bytes.extend_from_slice(&part[..take]);
                if take < part.len() {
                    break;
                }
            }
            Ok((bytes.freeze(), size))
        };
        match self.request(request).await {
            Ok((read, _)) => Ok(Some(read)),
            Err((_, Some(refusal))) if refusal.no_key() => Ok(None),
            // The range begins behind the end.
            Err((_, Some(refusal))) if refusal.status == 416 => {
                let found = self.head_key(key).await?;
                Ok(found.map(|stored| (Bytes::new(), stored.size)))
            }
            Err((error, _)) => Err(error),
        }
    }

    /// Write a whole object.
    pub(crate) async fn put_key(&self, key: &str, bytes: Bytes) -> Result<(), StorageError> {
        let path = Path::from(key);
        let request = self.clients.reader.put(&path, bytes.into());
        match self.request(request).await {
            Ok(_) => Ok(()),
            Err((error, _)) => Err(error),
        }
    }

    pub(crate) async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Stored>, StorageError> {
        let mut found: Vec<Stored> = Vec::new();
        let mut token = None;
        while found.len() < limit {
            let options = PaginatedListOptions {
                offset: after.map(str::to_owned),
                max_keys: Some((limit - found.len()).min(PAGE)),
                page_token: token.take(),
                ..PaginatedListOptions::default()
            };
            let prefix = (!prefix.is_empty()).then_some(prefix);
            let request = self.clients.reader.list_paginated(prefix, options);
            let (page, _) = self.request(request).await.map_err(|(error, _)| error)?;
            found.extend(page.result.objects.into_iter().map(stored));
            token = page.page_token;
            if token.is_none() {
                break;
            }
        }
        found.truncate(limit);
        if !found.is_sorted_by(|a, b| a.key <= b.key) {
            return Err(StorageError::Failed {
                place: self.place(),
                reason:
                    "the service does not list its keys in order, so a listing cannot be continued"
                        .into(),
            });
        }
        Ok(found)
    }

    /// Look at the bucket: whether it is empty, and the service's clock in
    /// milliseconds.
    pub(crate) async fn check(&self) -> Result<(bool, Option<i64>), StorageError> {
        let options = PaginatedListOptions {
            max_keys: Some(1),
            ..PaginatedListOptions::default()
        };
        let request = self.clients.reader.list_paginated(None, options);
        match self.request(request).await {
            Ok((page, record)) => Ok((page.result.objects.is_empty(), record.date_ms)),
            Err((StorageError::Failed { place, reason }, Some(refusal)))
                if refusal.status == 404 =>
            {
                // Some services answer a missing bucket without a body.
                if refusal.code.is_empty() {
                    return Err(self.no_bucket());
                }
                Err(StorageError::Failed { place, reason })
            }
            Err((error, _)) => Err(error),
        }
    }

    /// Run a read inside the time of one request. An error comes with the
    /// service's refusal, if it was one.
    async fn request<T>(
        &self,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<(T, Record), (StorageError, Option<Refusal>)> {
        let (result, record) = recorded(self.clock.timeout(self.request_timeout, request)).await;
        match result {
            Ok(Ok(value)) => Ok((value, record)),
            Ok(Err(error)) => Err(self.failed(&error, record)),
            Err(elapsed) => Err((self.too_slow(elapsed), None)),
        }
    }

    fn failed(
        &self,
        error: &object_store::Error,
        record: Record,
    ) -> (StorageError, Option<Refusal>) {
        let place = self.place();
        match record.answer {
            Some(Answer::Refused(refusal)) => {
                let reason = refusal.text();
                let error = if refusal.no_bucket() {
                    self.no_bucket()
                } else if refusal.throttled() {
                    StorageError::Throttled { place, reason }
                } else if refusal.denied() {
                    StorageError::Denied { place, reason }
                } else if refusal.elsewhere() {
                    let reason = format!("{reason}; correct the region or the endpoint");
                    StorageError::Failed { place, reason }
                } else {
                    StorageError::Failed { place, reason }
                };
                (error, Some(refusal))
            }
            Some(Answer::Broken(reason)) => (StorageError::Unreachable { place, reason }, None),
            _ => {
                let reason = line(&error.to_string());
                (StorageError::Failed { place, reason }, None)
            }
        }
    }

    fn too_slow(&self, elapsed: Elapsed) -> StorageError {
        StorageError::Unreachable {
            place: self.place(),
            reason: elapsed.to_string(),
        }
    }

    fn no_bucket(&self) -> StorageError {
        StorageError::MissingBucket {
            bucket: self.location.bucket.clone(),
            endpoint: self.clients.endpoint.clone(),
        }
    }

    fn place(&self) -> String {
        format!(
            "bucket `{}` at {}",
            self.location.bucket, self.clients.endpoint
        )
    }
}

fn retry(text: String) -> Verdict {
    Verdict::Done(DeleteOutcome::Retry(text))
}

fn stored(meta: ObjectMeta) -> Stored {
    let modified = UnixMillis(meta.last_modified.timestamp_millis());
    Stored::new(meta.location.to_string(), meta.size, modified)
}
