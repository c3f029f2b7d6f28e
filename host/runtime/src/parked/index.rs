//! The parked objects of the latest view, read again only when they changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aedile_state::{ObjectId, State};

use super::{PREFIX, Parked, ParkedObject};

/// The parked objects by id.
#[derive(Debug, Default)]
pub(crate) struct ParkedById {
    pub(crate) all: Parked,
    by_id: HashMap<u64, ParkedObject>,
}

impl ParkedById {
    pub(crate) fn get(&self, id: ObjectId) -> Option<&ParkedObject> {
        self.by_id.get(&id.0)
    }
}

#[derive(Debug, Default)]
struct Read {
    /// The view that was read. It keeps the values alive, so that a value at the
    /// same place in memory is the same value.
    state: State,
    parked: Arc<ParkedById>,
}

/// What was read last.
#[derive(Debug, Default)]
pub(crate) struct ParkedIndex {
    read: Mutex<Read>,
}

impl ParkedIndex {
    /// The parked objects of a view.
    pub(crate) fn of(&self, state: &State) -> Arc<ParkedById> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if !same(&read.state, state) {
            let all = Parked::read(state);
            let by_id = all.objects().map(|object| (object.id, object.clone()));
            let by_id = by_id.collect();
            read.parked = Arc::new(ParkedById { all, by_id });
        }
        read.state = state.clone();
        read.parked.clone()
    }
}

/// Whether two views share every value below the prefix.
fn same(one: &State, other: &State) -> bool {
    let mut one = one.kv_scan(PREFIX, None);
    let mut other = other.kv_scan(PREFIX, None);
    loop {
        match (one.next(), other.next()) {
            (None, None) => return true,
            (Some((a, x)), Some((b, y))) if a == b && std::ptr::eq(x, y) => {}
            _ => return false,
        }
    }
}
