//! What can go wrong with a store as a whole.

use std::path::PathBuf;

use thiserror::Error;

/// Why a store cannot be used, or a request to it failed.
///
/// The text says what and where, and what to do about it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The storage URI is not one. Correct the configuration.
    #[error("storage URI `{uri}`: {reason}")]
    BadUri {
        /// The URI, without its query.
        uri: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An option of the store is out of its range. Correct the configuration.
    #[error("storage option {option}: {reason}")]
    BadOption {
        /// Which one.
        option: &'static str,
        /// The range.
        reason: String,
    },
    /// The directory does not exist. It is never created.
    #[error(
        "storage directory {} does not exist; start PicoMQ with it first, mount it, or correct --storage",
        path.display()
    )]
    MissingDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// There is something at the path that is no directory.
    #[error("storage path {} is not a directory; correct --storage", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// The bucket does not exist. Correct the configuration.
    #[error(
        "bucket `{bucket}` does not exist at {endpoint}; correct the bucket, the region or the endpoint"
    )]
    MissingBucket {
        /// The bucket.
        bucket: String,
        /// Where it was looked for.
        endpoint: String,
    },
    /// The store refuses. Correct the credentials or the permissions.
    #[error("{place} refuses access: {reason}; check the credentials and what they are allowed")]
    Denied {
        /// The store.
        place: String,
        /// What it said.
        reason: String,
    },
    /// The store asks for less. Try later.
    #[error("{place} asks for fewer requests: {reason}")]
    Throttled {
        /// The store.
        place: String,
        /// What it said.
        reason: String,
    },
    /// The store does not answer. Try later; check address and network.
    #[error("{place} cannot be reached: {reason}")]
    Unreachable {
        /// The store.
        place: String,
        /// What was tried and how it ended.
        reason: String,
    },
    /// The store answered with an error or with something else than expected.
    #[error("{place}: {reason}")]
    Failed {
        /// The store.
        place: String,
        /// What it said.
        reason: String,
    },
}
