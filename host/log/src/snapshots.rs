//! Writes snapshots, where asked to: off the applier, one at a time.
//!
//! The rows just below a snapshot are kept, so that a writer that lags meets a
//! conflict instead of an empty place, and a reader that lags needs no
//! snapshot.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::LogOptions;
use crate::store::Store;
use crate::view::View;

/// The task that writes snapshots.
pub(crate) struct Snapshots {
    offers: watch::Sender<View>,
    task: JoinHandle<()>,
}

impl Snapshots {
    /// Start, if snapshots are asked for. `from` is the stored snapshot's index.
    pub(crate) fn start(store: Arc<dyn Store>, options: &LogOptions, from: u64) -> Option<Self> {
        let every = options.snapshot_every?.max(1);
        let tail = options.snapshot_tail;
        let (offers, mut offered) = watch::channel(View::default());
        let task = tokio::spawn(async move {
            let mut last = from;
            while offered.changed().await.is_ok() {
                let view = offered.borrow_and_update().clone();
                if view.index < last.saturating_add(every) {
                    continue;
                }
                if write(store.as_ref(), view.clone(), tail).await {
                    last = view.index;
                }
            }
        });
        Some(Self { offers, task })
    }

    /// A newer view was published.
    pub(crate) fn offer(&self, view: &View) {
        self.offers.send_replace(view.clone());
    }

    /// Let the one that is being written end.
    pub(crate) async fn close(self) {
        drop(self.offers);
        let _ = self.task.await;
    }
}

/// Encode and store one snapshot; tells whether this index is settled.
async fn write(store: &dyn Store, view: View, tail: u64) -> bool {
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
            true
        }
        Err(error) => {
            tracing::warn!(index, %error, "no snapshot was stored");
            false
        }
    }
}
