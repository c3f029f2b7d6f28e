//! Stores on an [`S3Server`], and what became of objects.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use aedile_storage::{Credentials, DeleteOutcome, Store, StoreOptions, object_key};

use crate::s3::{ACCESS_KEY_ID, S3Server, SECRET_ACCESS_KEY};

/// The machine's clock.
pub fn clock() -> SharedClock {
    Arc::new(SystemClock)
}

/// Options with the server's credentials; reads are not tried again.
pub fn options() -> StoreOptions {
    StoreOptions {
        request_timeout: Duration::from_secs(20),
        read_retries: 0,
        credentials: Some(Credentials {
            access_key_id: ACCESS_KEY_ID.into(),
            secret_access_key: SECRET_ACCESS_KEY.into(),
            session_token: None,
        }),
        ..StoreOptions::default()
    }
}

/// A store on the machine's clock.
///
/// # Panics
/// The URI is none, or an option is out of range.
pub fn open(uri: &str, options: StoreOptions) -> Store {
    open_on(uri, options, clock())
}

/// A store on this clock.
///
/// # Panics
/// The URI is none, or an option is out of range.
#[allow(clippy::expect_used, reason = "a test that cannot go on ends there")]
pub fn open_on(uri: &str, options: StoreOptions, clock: SharedClock) -> Store {
    Store::open(&uri.parse().expect("a URI"), options, clock).expect("it opens")
}

/// A server with these objects, and a store on it.
///
/// # Panics
/// No server could be had.
#[allow(clippy::expect_used, reason = "a test that cannot go on ends there")]
pub async fn with(ids: Range<u64>) -> (S3Server, Store) {
    let server = S3Server::start("objects").await.expect("a server");
    for id in ids {
        server.put(&object_key(id), b"bytes").expect("an object");
    }
    let store = open(&server.uri(), options());
    (server, store)
}

/// Ids in their order.
pub fn ids(range: Range<u64>) -> Vec<u64> {
    range.collect()
}

/// A gate that stays open.
pub const OPEN: fn() -> Option<Duration> = || Some(Duration::from_secs(60));

/// How many outcomes are so.
pub fn count(outcomes: &[(u64, DeleteOutcome)], of: impl Fn(&DeleteOutcome) -> bool) -> usize {
    outcomes.iter().filter(|(_, outcome)| of(outcome)).count()
}

/// How many were deleted.
pub fn deleted(outcomes: &[(u64, DeleteOutcome)]) -> usize {
    count(outcomes, |outcome| *outcome == DeleteOutcome::Deleted)
}

/// How many are to be tried again.
pub fn to_retry(outcomes: &[(u64, DeleteOutcome)]) -> usize {
    count(outcomes, |outcome| {
        matches!(outcome, DeleteOutcome::Retry(_))
    })
}

/// How many are denied.
pub fn denied(outcomes: &[(u64, DeleteOutcome)]) -> usize {
    count(outcomes, |outcome| {
        matches!(outcome, DeleteOutcome::Denied(_))
    })
}

/// How many of these objects the bucket still holds, past the server.
pub fn held(server: &S3Server, range: Range<u64>) -> usize {
    range.filter(|id| server.holds(&object_key(*id))).count()
}
