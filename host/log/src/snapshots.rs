//! Writes snapshots, where asked to: off the applier, one at a time.
//!
//! The rows just below a snapshot are kept, so that a writer that lags meets a
//! conflict instead of an empty place, and a reader that lags needs no
//! snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aedile_clock::SharedClock;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::LogOptions;
use crate::store::Store;
use crate::view::View;

/// How long a snapshot that is being written may go on after the end.
const LAST: Duration = Duration::from_secs(5);

/// A view, and the index of the newest snapshot that stood then.
#[derive(Clone, Debug, Default)]
struct Offer {
    view: View,
    stored: u64,
}

/// The task that writes snapshots.
pub(crate) struct Snapshots {
    offers: watch::Sender<Offer>,
    task: JoinHandle<()>,
    clock: SharedClock,
}

impl Snapshots {
    /// Start, if snapshots are asked for. `from` is the stored snapshot's index;
    /// `own` gets that of each that is stored from here.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        options: &LogOptions,
        clock: SharedClock,
        from: u64,
        own: Arc<AtomicU64>,
    ) -> Option<Self> {
        let every = options.snapshot_every?.max(1);
        let tail = options.snapshot_tail;
        let (offers, mut offered) = watch::channel(Offer::default());
        let task = tokio::spawn(async move {
            let mut last = from;
            while offered.changed().await.is_ok() {
                let Offer { view, stored } = offered.borrow_and_update().clone();
                // Another node may have stored one: then it is not due here.
                last = last.max(stored);
                if view.index < last.saturating_add(every) {
                    continue;
                }
                if write(store.as_ref(), view.clone(), tail, &own).await {
                    last = view.index;
                }
            }
        });
        Some(Self {
            offers,
            task,
            clock,
        })
    }

    /// A newer view was published.
    pub(crate) fn offer(&self, view: &View, stored: u64) {
        self.offers.send_replace(Offer {
            view: view.clone(),
            stored,
        });
    }

    /// Let the one that is being written end, if it does soon.
    pub(crate) async fn close(mut self) {
        drop(self.offers);
        if self.clock.timeout(LAST, &mut self.task).await.is_err() {
            self.task.abort();
            let _ = self.task.await;
        }
    }
}

/// Encode and store one snapshot; tells whether this index is settled.
async fn write(store: &dyn Store, view: View, tail: u64, own: &AtomicU64) -> bool {
    let index = view.index;
    let encoded = tokio::task::spawn_blocking(move || view.state.encode_snapshot()).await;
    let Ok(payload) = encoded else {
        tracing::error!(index, "encoding a snapshot failed");
        return false;
    };
    let bytes = payload.len();
    match store
        .store_snapshot(index, payload, index.saturating_sub(tail))
        .await
    {
        Ok(stored) => {
            tracing::debug!(index, bytes, stored, "snapshot");
            if stored {
                own.store(index, Ordering::SeqCst);
            }
            true
        }
        Err(error) => {
            tracing::warn!(index, %error, "no snapshot was stored");
            false
        }
    }
}
