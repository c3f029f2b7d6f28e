//! What a store is like, as a node says it when it starts and `aedile check`
//! when asked.

use aedile_storage::{Found, StorageError, Store, StoreProbe, StoreReport, Versioning};

/// An offset of clocks that would confuse a reader of times, in milliseconds.
const OFFSET_MS: u64 = 60_000;

/// Something about a store, and what to do about it; nothing if it is as it
/// should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fact {
    /// What was found.
    pub(crate) text: String,
    /// What to do.
    pub(crate) todo: &'static str,
}

/// What is to be known of a bucket.
pub(crate) fn of_bucket(probe: &StoreProbe) -> Vec<Fact> {
    let fact = |text: String, todo| Fact { text, todo };
    let versioning = match &probe.versioning {
        Versioning::Off => fact("a delete frees its bytes: versioning is off".into(), ""),
        Versioning::On => fact(
            "bytes will not shrink: versioning is on, so a delete only hides an object".into(),
            "add a lifecycle rule that removes noncurrent versions and expired delete markers",
        ),
        Versioning::Suspended => fact(
            "versioning is suspended: what was written while it was on stays when deleted".into(),
            "add a lifecycle rule that removes noncurrent versions and expired delete markers",
        ),
        Versioning::Unknown(reason) => fact(
            format!("it is unknown whether it keeps versions ({reason})"),
            "",
        ),
    };
    let bulk = match &probe.bulk_delete {
        Found::Yes => fact("up to 1000 objects are deleted with one request".into(), ""),
        Found::No => fact(
            "it refuses bulk deletes: objects go one by one".into(),
            "nothing is lost, it is slower; allow DeleteObjects if the service can",
        ),
        Found::Unknown(reason) => fact(
            format!("it is unknown whether it takes bulk deletes ({reason})"),
            "",
        ),
    };
    let lock = match &probe.object_lock {
        Found::No => None,
        Found::Yes => Some(fact(
            "object lock is on: a locked object is refused and tried again later".into(),
            "see that retention ends before objects are to go",
        )),
        Found::Unknown(reason) => Some(fact(
            format!("it is unknown whether it has an object lock ({reason})"),
            "",
        )),
    };
    [versioning, bulk].into_iter().chain(lock).collect()
}

/// What is to be known of a store's clock; none if it tells no time.
pub(crate) fn of_clock(report: &StoreReport) -> Option<Fact> {
    let offset = report.clock_offset_ms?;
    Some(if offset.unsigned_abs() > OFFSET_MS {
        Fact {
            text: format!("its clock is {offset} ms off this machine's"),
            todo: "check the time synchronisation of both; requests may be refused",
        }
    } else {
        Fact {
            text: "its clock agrees with this machine's".into(),
            todo: "",
        }
    })
}

/// Look at the store and log what is to be known of it. Only what makes it
/// unusable is an error.
///
/// # Errors
/// The store's.
pub(crate) async fn say(store: &Store) -> Result<(), StorageError> {
    let report = store.check().await?;
    let facts = store.probe().await.map(|probe| of_bucket(&probe));
    for fact in facts.into_iter().flatten().chain(of_clock(&report)) {
        if fact.todo.is_empty() {
            tracing::info!("storage: {}", fact.text);
        } else {
            tracing::warn!("storage: {}; {}", fact.text, fact.todo);
        }
    }
    Ok(())
}
