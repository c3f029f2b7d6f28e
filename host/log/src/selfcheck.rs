//! Compares what this node holds with what others store.
//!
//! The snapshot's encoding is canonical: whoever applied the same rows encodes
//! the same bytes. So when another node stores a snapshot of an index that this
//! node passes, its bytes are compared with this node's own encoding of its view
//! there. A snapshot ahead of this node cannot be compared; before it is
//! installed it must at least follow from what was applied here
//! ([`State::first_contradiction`]): a database that was restored and has grown again, or a
//! node that forked, shows there.
//!
//! *Bytes* are compared, not decoded states: of a node that is registered as −1
//! a decoded state knows less than the one that was encoded.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aedile_clock::SharedClock;
use aedile_state::State;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::LogError;
use crate::store::Store;
use crate::view::View;

/// Most views that are kept. A snapshot shows up while its writer encodes and
/// stores it, which is some rows later.
pub(crate) const KEPT: usize = 256;

/// Most commands between the oldest view that is kept and the newest: what they
/// changed is what keeping costs.
const KEPT_COMMANDS: usize = 16_384;

/// Wait before a comparison that the database failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// How long a comparison may go on after the end.
const LAST: Duration = Duration::from_secs(2);

/// The views of the last rows.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    views: VecDeque<(View, usize)>,
    commands: usize,
}

impl Recent {
    /// A row with so many commands was applied. What is kept too long goes when
    /// there is time for it, and at the latest when it is twice as much.
    pub(crate) fn push(&mut self, view: &View, commands: usize) {
        self.views.push_back((view.clone(), commands));
        self.commands += commands;
        if self.views.len() > 2 * KEPT || self.commands > 2 * KEPT_COMMANDS {
            self.trim();
        }
    }

    /// Drop what is kept too long.
    pub(crate) fn trim(&mut self) {
        while self.views.len() > KEPT || (self.commands > KEPT_COMMANDS && self.views.len() > 1) {
            if let Some((_, commands)) = self.views.pop_front() {
                self.commands -= commands;
            }
        }
    }

    /// The view of an index, if it is still there.
    pub(crate) fn at(&self, index: u64) -> Option<&View> {
        let place = self.views.partition_point(|(view, _)| view.index < index);
        let (view, _) = self.views.get(place)?;
        (view.index == index).then_some(view)
    }
}

/// How another's snapshot stands to this node's view of the same index.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// The same bytes.
    Same,
    /// They differ, first in this section.
    Differs(&'static str),
}

/// Compare a snapshot with the state that this node has at its index.
pub(crate) fn compare(ours: &State, index: u64, payload: &[u8]) -> Result<Compared, LogError> {
    if ours.encode_snapshot() == payload {
        return Ok(Compared::Same);
    }
    let theirs =
        State::decode_snapshot(payload).map_err(|source| LogError::Snapshot { index, source })?;
    Ok(Compared::Differs(
        ours.first_difference(&theirs).unwrap_or("encoding"),
    ))
}

/// What a comparison found wrong.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// The snapshot of this index differs from this node's state, first in this
    /// section.
    Differs(u64, &'static str),
    /// The snapshot of this index cannot be read, and why.
    Unreadable(u64, String),
}

/// The task that compares, one snapshot at a time: never on the applier's way.
pub(crate) struct SelfCheck {
    due: watch::Sender<Option<View>>,
    pub(crate) found: watch::Receiver<Option<Found>>,
    task: JoinHandle<()>,
    clock: SharedClock,
}

impl SelfCheck {
    /// Start. `own` is the index of the last snapshot that this node stored.
    pub(crate) fn start(store: Arc<dyn Store>, clock: SharedClock, own: Arc<AtomicU64>) -> Self {
        let (due, mut dues) = watch::channel(None::<View>);
        let (sender, found) = watch::channel(None);
        let timer = clock.clone();
        let task = tokio::spawn(async move {
            while dues.changed().await.is_ok() {
                let Some(view) = dues.borrow_and_update().clone() else {
                    continue;
                };
                if own.load(Ordering::SeqCst) == view.index {
                    continue;
                }
                loop {
                    match check(store.as_ref(), &view).await {
                        Ok(None) => break,
                        Ok(Some(found)) => {
                            sender.send_replace(Some(found));
                            break;
                        }
                        Err(error) => {
                            tracing::debug!(%error, "a snapshot could not be compared yet");
                            tokio::select! {
                                // A newer one is due, or all is over.
                                changed = dues.changed() => match changed {
                                    Ok(()) => { dues.mark_changed(); break }
                                    Err(_) => return,
                                },
                                () = timer.sleep(AGAIN) => {}
                            }
                        }
                    }
                }
            }
        });
        Self {
            due,
            found,
            task,
            clock,
        }
    }

    /// A snapshot stands at this view's index.
    pub(crate) fn offer(&self, view: View) {
        self.due.send_replace(Some(view));
    }

    /// Let the one that is under way end, if it does soon.
    pub(crate) async fn close(mut self) {
        drop(self.due);
        if self.clock.timeout(LAST, &mut self.task).await.is_err() {
            self.task.abort();
            let _ = self.task.await;
        }
    }
}

/// One comparison; `None` if nothing is wrong, or another snapshot stands there
/// by now.
async fn check(store: &dyn Store, view: &View) -> Result<Option<Found>, LogError> {
    let Some((index, payload)) = store.snapshot().await? else {
        return Ok(None);
    };
    if index != view.index {
        return Ok(None);
    }
    let state = view.state.clone();
    let compared = tokio::task::spawn_blocking(move || compare(&state, index, &payload)).await;
    match compared {
        Ok(Ok(Compared::Same)) => {
            tracing::debug!(index, "another node's snapshot is this node's state");
            Ok(None)
        }
        Ok(Ok(Compared::Differs(section))) => Ok(Some(Found::Differs(index, section))),
        Ok(Err(error)) => Ok(Some(Found::Unreadable(index, error.to_string()))),
        Err(error) => Err(LogError::Stopped(format!("comparing a snapshot: {error}"))),
    }
}
