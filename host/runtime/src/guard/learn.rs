//! Views that have caught up with the log and whose composites are known.

use std::sync::Arc;

use aedile_log::View;
use aedile_state::{ObjectId, Operation, State};
use aedile_storage::Composite;

use super::Guards;
use super::guards::{LOOKS, lock};
use super::links::Look;
use crate::backend::{Backend, Trouble};

/// Rounds in which new composites may turn up before a call gives up.
const ROUNDS: usize = 5;
/// Composites that are read before what they link is recorded: what a tick that
/// is cut off has to read again.
const BATCH: usize = 512;
/// DeepDelete marks that are looked at before the first of them goes, so that
/// those that share a part see one another.
const AHEAD: usize = 1000;
/// Links of DeepDelete marks that are remembered at once, roughly.
const LINKS: usize = 2_000_000;

impl<B: Backend> Guards<B> {
    /// A view that has caught up with the log's tail, all of whose live
    /// composites have been looked at.
    pub(crate) async fn informed(&self) -> Result<Arc<View>, Trouble> {
        for _ in 0..ROUNDS {
            self.authority()?;
            let view = self.backend.fresh().await?;
            let sweeping = self.orphans.sweeping();
            let missing = {
                let mut links = lock(&self.links);
                if !sweeping {
                    links.forget_gone(&view.state);
                }
                links.missing(&view.state, self.boot())
            };
            if missing.is_empty() {
                return Ok(view);
            }
            for batch in missing.chunks(BATCH) {
                self.learn(&view.state, batch).await?;
            }
        }
        Err(Trouble::Unavailable(
            "composites appear faster than their links can be read".to_owned(),
        ))
    }

    /// Look at the DeepDelete marks `ids` that are not known yet, and at the
    /// first ones of the queue, as far as there is room for what they link.
    pub(super) async fn learn_marked(
        &self,
        state: &State,
        ids: &[ObjectId],
    ) -> Result<(), Trouble> {
        let ahead = state
            .marks_after(None)
            .filter(|&(_, id, operation)| operation == Operation::DeepDelete && !state.is_live(id))
            .map(|(_, id, _)| id)
            .take(AHEAD);
        let (asked, ahead): (Vec<ObjectId>, Vec<ObjectId>) = {
            let links = lock(&self.links);
            // What could not be read is looked at again whenever it is asked for.
            let unread = |id: &ObjectId| !matches!(links.known(*id), Some(Look::Links(_)));
            let asked = ids.iter().copied().filter(unread).collect();
            (
                asked,
                ahead.filter(|&id| links.known(id).is_none()).collect(),
            )
        };
        let mut room = LINKS;
        for batch in asked.chunks(BATCH).chain(ahead.chunks(BATCH)) {
            room = room.saturating_sub(self.learn(state, batch).await?);
            if room == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Read what these objects link; how many links that were.
    async fn learn(&self, state: &State, ids: &[ObjectId]) -> Result<usize, Trouble> {
        self.authority()?;
        let ids: Vec<u64> = ids.iter().map(|id| id.0).collect();
        let found = self.backend.store().links_many(&ids, LOOKS).await;
        let mut count = 0;
        let mut links = lock(&self.links);
        let before = links.unreadable(state).count();
        for (id, found) in found {
            let found = found.unwrap_or_else(|error| Composite::Unreadable(error.to_string()));
            if let Composite::Links(linked) = &found {
                count += linked.len();
            }
            links.record(state, ObjectId(id), found, self.boot());
        }
        let restored = links.unreadable(state).count() < before;
        drop(links);
        if restored {
            self.aside.release_held();
        }
        Ok(count)
    }
}
