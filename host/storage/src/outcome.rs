//! What a store answers.

use std::path::PathBuf;

use aedile_clock::UnixMillis;

use crate::{KeyKind, key_kind};

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
    /// begins small and halves when the store throttles.
    pub pace: f64,
    /// Keys per second, as configured or as the store was found to take; none
    /// where it was not found to mind.
    pub keys_per_second: Option<f64>,
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
