//! What can be wrong before a keeper runs.

use std::time::Duration;

use thiserror::Error;

/// Why a keeper could not be started.
///
/// What happens afterwards is never an error but a [`crate::Leadership`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The database URL has no form that is known.
    #[error("the database URL {url} cannot be used: {reason}")]
    Url {
        /// The URL, its password blotted out.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The database driver refuses the URL.
    #[error("the database URL {url} cannot be used")]
    Driver {
        /// The URL, its password blotted out.
        url: String,
        /// What the driver says.
        #[source]
        source: sqlx::Error,
    },
    /// A name is empty, too long or holds control characters.
    #[error("the {what} name {name:?} is not between 1 and {limit} printable characters")]
    Name {
        /// Which name: `node` or `lease`.
        what: &'static str,
        /// The name given.
        name: String,
        /// The greatest length, in bytes.
        limit: usize,
    },
    /// The times do not leave room for a second attempt before authority ends.
    #[error(
        "a lease of {ttl:?} cannot be kept: renewals every {interval:?} with two attempts of \
         {timeout:?} must end {margin:?} before it lapses; raise the TTL to at least {least:?}"
    )]
    Times {
        /// The lease's length.
        ttl: Duration,
        /// Time between attempts.
        interval: Duration,
        /// Longest time of one attempt.
        timeout: Duration,
        /// Time between the end of authority and the end of the lease.
        margin: Duration,
        /// The TTL that these times need.
        least: Duration,
    },
    /// One time is outside of its range.
    #[error("the lease's {what} is {given:?}; it must be between {least:?} and {most:?}")]
    Range {
        /// Which option.
        what: &'static str,
        /// The value given.
        given: Duration,
        /// The least value allowed.
        least: Duration,
        /// The greatest value allowed.
        most: Duration,
    },
    /// The operating system gives no randomness for the holder's name.
    #[error("no randomness for the holder's name")]
    Randomness(#[source] getrandom::Error),
    /// The operating system refuses a thread or a runtime for it.
    #[error("the keeper's thread cannot be started")]
    Thread(#[source] std::io::Error),
}
