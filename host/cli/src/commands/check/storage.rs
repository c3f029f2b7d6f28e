//! The storage: reachable, and the right one.

use aedile_clock::SharedClock;
use aedile_log::View;
use aedile_storage::{Location, Store, StoreOptions};

use super::Items;
use crate::commands::store_facts::{of_bucket, of_clock};
use crate::config::Config;
use crate::exit::Exit;
use crate::output::figures;

const WHAT: &str = "storage";
/// How many live objects are looked up.
const SAMPLE: usize = 16;

/// Look at the storage.
pub(super) async fn look(
    config: &Config,
    clock: &SharedClock,
    view: Option<&View>,
    items: &mut Items,
) {
    // A mistake in the URI was told as one of the configuration.
    let Ok(uri) = config.storage() else {
        return;
    };
    let store = match Store::open(&uri, StoreOptions::default(), clock.clone()) {
        Ok(store) => store,
        Err(error) => return items.error(WHAT, error),
    };
    let report = match store.check().await {
        Ok(report) => report,
        Err(error) => return items.error(WHAT, error),
    };
    match &report.location {
        Location::Directory(path) => items.ok(WHAT, format!("directory {}", path.display())),
        Location::Bucket { bucket, endpoint } => {
            items.ok(WHAT, format!("bucket {bucket} at {endpoint}"))
        }
        other => items.ok(WHAT, format!("{other:?}")),
    }
    let facts = store.probe().await.map(|probe| of_bucket(&probe));
    for fact in facts.into_iter().flatten().chain(of_clock(&report)) {
        if fact.todo.is_empty() {
            items.ok(WHAT, fact.text);
        } else {
            items.warn(WHAT, fact.text, fact.todo);
        }
    }
    let Some(view) = view else {
        return;
    };
    let sample: Vec<u64> = view
        .state
        .sample_live(SAMPLE)
        .into_iter()
        .map(|id| id.0)
        .collect();
    if sample.is_empty() {
        if report.empty {
            items.warn(
                WHAT,
                "it is empty and the catalog names no live object, so it cannot be told whether it is the right one",
                "if it is, the first run may need --confirm-empty-store",
            );
        } else {
            items.ok(WHAT, "the catalog names no live object to look for");
        }
        return;
    }
    let found = store.head_many(&sample, 8).await;
    if let Some((_, Err(error))) = found.iter().find(|(_, found)| found.is_err()) {
        let class = crate::exit::Exit::Storage;
        return items.fail(
            WHAT,
            class,
            format!("a live object cannot be looked up: {error}"),
            "",
        );
    }
    let missing: Vec<u64> = found
        .iter()
        .filter(|(_, found)| matches!(found, Ok(None)))
        .map(|(id, _)| *id)
        .collect();
    match missing.len() {
        0 => items.ok(
            WHAT,
            format!(
                "{} looked for, all there",
                figures::count(sample.len() as u64, "live object")
            ),
        ),
        all if all == sample.len() => items.fail(
            WHAT,
            Exit::Storage,
            format!(
                "none of {} live objects is there: this looks like the wrong bucket or directory",
                sample.len()
            ),
            "correct --storage; nothing would be deleted from it",
        ),
        some => items.warn(
            WHAT,
            format!(
                "{some} of {} live objects are missing, such as object {}",
                sample.len(),
                missing[0]
            ),
            "PicoMQ cannot serve what is missing; look at what else deletes from this storage",
        ),
    }
}
