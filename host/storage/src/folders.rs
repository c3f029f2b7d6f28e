//! Empty directories that deletes left behind, removed while nothing is deleted.
//!
//! Taking away an object's two directories costs a file system with a journal
//! ten times as much as the object itself, and nobody waits for it. So it is
//! done in the pauses between deletes; where there is none, it is put off until
//! as many wait as may be remembered.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::file::FileStore;

/// Most objects whose directories wait; 8 bytes each.
const WAITING_MAX: usize = 1 << 18;

/// Objects whose directories may be empty now.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    state: Mutex<State>,
    /// Nothing waits any more, or nobody works it off.
    rested: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<u64>,
    /// Deletes that are under way.
    deleting: usize,
    /// Whether a worker is at it.
    working: bool,
}

impl Folders {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Put an object's directories off; false if as many wait as may.
    pub(crate) fn put_off(&self, id: u64) -> bool {
        let mut state = self.state();
        let room = state.waiting.len() < WAITING_MAX;
        if room {
            state.waiting.push_back(id);
        }
        room
    }

    /// How many objects' directories wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// The next to work off; none if it is to stop.
    fn next(&self) -> Option<u64> {
        let mut state = self.state();
        let next = match state.deleting {
            0 => state.waiting.pop_front(),
            _ => None,
        };
        if next.is_none() {
            state.working = false;
            drop(state);
            self.rested.notify_waiters();
        }
        next
    }

    /// Whether there is work and nobody at it; whoever asks is then.
    fn takes_up(&self) -> bool {
        let mut state = self.state();
        let takes_up = !state.working && state.deleting == 0 && !state.waiting.is_empty();
        state.working |= takes_up;
        takes_up
    }

    fn is_done(&self) -> bool {
        let state = self.state();
        !state.working && state.waiting.is_empty()
    }
}

/// A delete that is under way: as long as it lives, no directory is removed.
#[derive(Debug)]
pub(crate) struct Pause(Arc<FileStore>);

impl Pause {
    pub(crate) fn new(store: &Arc<FileStore>) -> Self {
        store.folders().state().deleting += 1;
        Self(Arc::clone(store))
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.folders().state().deleting -= 1;
        work_off(&self.0);
    }
}

/// Have a blocking worker remove what waits. Outside of a runtime nothing
/// happens: the next delete or [`settle`] sees to it.
fn work_off(store: &Arc<FileStore>) {
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    if !store.folders().takes_up() {
        return;
    }
    let store = Arc::clone(store);
    runtime.spawn_blocking(move || {
        while let Some(id) = store.folders().next() {
            store.remove_folders(id);
        }
    });
}

/// Wait until no directory waits for its removal.
pub(crate) async fn settle(store: &Arc<FileStore>) {
    loop {
        let mut rested = pin!(store.folders().rested.notified());
        rested.as_mut().enable();
        work_off(store);
        if store.folders().is_done() {
            return;
        }
        rested.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_wait_than_may() {
        let folders = Folders::default();
        assert!((0..WAITING_MAX as u64).all(|id| folders.put_off(id)));
        assert!(!folders.put_off(0));
        assert_eq!(folders.waiting(), WAITING_MAX);
    }

    #[test]
    fn a_delete_comes_first() {
        let folders = Folders::default();
        folders.put_off(7);
        folders.state().deleting = 1;
        assert!(!folders.takes_up());
        folders.state().deleting = 0;
        assert!(folders.takes_up());
        assert!(!folders.takes_up(), "one worker is enough");
        // One that begins meanwhile ends the work, and nothing is forgotten.
        folders.state().deleting = 1;
        assert_eq!(folders.next(), None);
        folders.state().deleting = 0;
        assert!(folders.takes_up());
        assert_eq!(folders.next(), Some(7));
        assert_eq!(folders.next(), None);
        assert!(folders.is_done());
    }
}
