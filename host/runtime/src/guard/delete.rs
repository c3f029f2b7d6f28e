//! Deletes: which of the objects asked for may go, and what the store says.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use aedile_log::View;
use aedile_state::{ObjectId, Operation, State};
use aedile_storage::{Composite, DeleteOutcome, StorageError};
use futures_util::{FutureExt as _, StreamExt as _};

use super::guards::{CHUNK, lock};
use super::{
    COMPOSITE, Conflict, Deletion, Found, Guards, Refusal, StoreTrust, Trust, Verdict, Why, judge,
};
use crate::backend::{Backend, Trouble};

/// Chunks of one call that are in flight.
const CHUNKS: usize = 4;
/// Looks that are taken at the store at once.
const LOOKS: usize = 32;
/// Rounds in which new composites may turn up before a call gives up.
const ROUNDS: usize = 5;
/// Most refusals that are kept for a report.
const REFUSALS: usize = 10_000;

impl<B: Backend> Guards<B> {
    /// Delete the bytes of those of `ids` that may go; one answer each, in order.
    pub(crate) async fn delete(
        &self,
        plugin: &str,
        ids: &[ObjectId],
    ) -> Result<Vec<Deletion>, Trouble> {
        self.authority()?;
        let unique: Vec<ObjectId> = ids
            .iter()
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let mut answers = HashMap::with_capacity(unique.len());
        let mut chunks: Vec<&[ObjectId]> = unique.chunks(CHUNK).collect();
        // While nothing is known of the store, the first chunk goes alone: it may
        // be what shows that the store is the wrong one.
        let first = match self.trust.now(self.boot()) {
            Trust::Trusted => None,
            Trust::Unknown | Trust::Suspect(_) if chunks.is_empty() => None,
            Trust::Unknown | Trust::Suspect(_) => Some(chunks.remove(0)),
        };
        let mut lost = None;
        if let Some(chunk) = first {
            self.delete_chunk(plugin, chunk, &mut answers).await?;
        }
        let mut rest = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            rest.push(self.one_chunk(plugin, chunk).boxed());
        }
        let mut running = futures_util::stream::iter(rest).buffer_unordered(CHUNKS);
        // Every chunk is waited for, also once one has failed: nothing that was
        // sent is left behind.
        while let Some((part, end)) = running.next().await {
            answers.extend(part);
            lost = lost.or(end.err());
        }
        if let Some(trouble) = lost {
            return Err(trouble);
        }
        ids.iter()
            .map(|id| {
                answers.get(id).cloned().ok_or_else(|| {
                    Trouble::Unavailable(format!("object {id} was left without an answer"))
                })
            })
            .collect()
    }

    async fn one_chunk(
        &self,
        plugin: &str,
        ids: &[ObjectId],
    ) -> (HashMap<ObjectId, Deletion>, Result<(), Trouble>) {
        let mut answers = HashMap::with_capacity(ids.len());
        let end = self.delete_chunk(plugin, ids, &mut answers).await;
        (answers, end)
    }

    async fn delete_chunk(
        &self,
        plugin: &str,
        ids: &[ObjectId],
        answers: &mut HashMap<ObjectId, Deletion>,
    ) -> Result<(), Trouble> {
        let view = self.informed().await?;
        let mut trust = self.look_for_live(&view.state).await?;
        let candidates = self.sift(&view.state, ids, answers);
        if let Trust::Suspect(text) = &trust {
            self.refuse_all(&candidates, text, answers);
            return Ok(());
        }

        let (present, absent) = self.probe(candidates, answers).await;
        if trust == Trust::Unknown {
            let found = Found {
                present: present.len(),
                absent: absent.len(),
            };
            trust = self.trust.judge(&[], found, self.boot());
            if let Trust::Suspect(text) = &trust {
                tracing::warn!(reason = %text, "nothing is deleted");
                self.refuse_all(&present, text, answers);
                self.refuse_all(&absent.iter().copied().collect::<Vec<_>>(), text, answers);
                return Ok(());
            }
        }

        // Looking took time. What is sent is judged by a view that has caught up
        // just now.
        let view = self.informed().await?;
        let looked: Vec<ObjectId> = present.iter().chain(&absent).copied().collect();
        let allowed: Vec<(ObjectId, Operation)> = self
            .sift(&view.state, &looked, answers)
            .into_iter()
            .map(|id| {
                let operation = view.state.mark(id).map_or(Operation::Delete, |(_, op)| op);
                (id, operation)
            })
            .collect();
        self.authority()?;
        let mut unsent = false;
        for (id, outcome) in self.backend.delete(plugin, &allowed).await {
            unsent |= outcome == DeleteOutcome::NotSent;
            answers.insert(id, Deletion::Outcome(self.settle(id, outcome, &absent)));
        }
        if unsent {
            return Err(Trouble::LeaseLost);
        }
        Ok(())
    }

    /// Note what the store said of one object.
    fn settle(
        &self,
        id: ObjectId,
        outcome: DeleteOutcome,
        absent: &HashSet<ObjectId>,
    ) -> DeleteOutcome {
        let failed = match &outcome {
            DeleteOutcome::Deleted | DeleteOutcome::Absent => {
                lock(&self.deleted).insert(id);
                self.aside.forget(id.0);
                lock(&self.refused).remove(&id);
                // A bulk delete cannot tell the two apart; the look before can.
                if absent.contains(&id) {
                    return DeleteOutcome::Absent;
                }
                self.counters.deleted.fetch_add(1, Ordering::Relaxed);
                return outcome;
            }
            DeleteOutcome::Throttled => "the store asks for fewer requests".to_owned(),
            DeleteOutcome::Retry(text) | DeleteOutcome::Denied(text) => text.clone(),
            DeleteOutcome::NotSent => return outcome,
        };
        self.set_aside(id, Why::Failed(failed));
        outcome
    }

    /// Set an object aside; whether it was not before.
    fn set_aside(&self, id: ObjectId, why: Why) -> bool {
        self.aside.put(id.0, why, self.boot(), &self.entropy)
    }

    /// A view that has caught up with the log's tail, all of whose composites
    /// are known.
    async fn informed(&self) -> Result<Arc<View>, Trouble> {
        for _ in 0..ROUNDS {
            self.authority()?;
            let view = self.backend.fresh().await?;
            let missing = lock(&self.links).missing(&view.state);
            if missing.is_empty() {
                return Ok(view);
            }
            if self.learn(&view.state, missing).await? == 0 {
                // What is still missing cannot be read: the judge says so.
                return Ok(view);
            }
        }
        Err(Trouble::Unavailable(
            "composites appear faster than their links can be read".to_owned(),
        ))
    }

    /// Read what these composites link; how many became known.
    async fn learn(&self, state: &State, missing: Vec<ObjectId>) -> Result<usize, Trouble> {
        let ids: Vec<u64> = missing.iter().map(|id| id.0).collect();
        let found = self.backend.store().links_many(&ids, LOOKS).await;
        let mut known = 0;
        let mut links = lock(&self.links);
        for (id, found) in found {
            let id = ObjectId(id);
            let live = state.is_live(id);
            let found = match found {
                Ok(Composite::Plain) if live => Composite::Unreadable(
                    "the catalog calls it a composite, its bytes do not".to_owned(),
                ),
                Ok(found) => found,
                // A passing failure must not pass for knowledge.
                Err(error) if !live && passing(&error) => {
                    return Err(Trouble::Unavailable(error.to_string()));
                }
                Err(error) => Composite::Unreadable(error.to_string()),
            };
            known += usize::from(matches!(found, Composite::Plain | Composite::Links(_)));
            links.record(id, found);
        }
        Ok(known)
    }

    /// Whether the store is in doubt before anything was tried: looks at it only
    /// if the queue holds a mark whose bytes must go.
    pub(crate) async fn in_doubt(&self) -> Result<bool, Trouble> {
        let view = self.backend.fresh().await?;
        let keeps = |operation| operation == Operation::KeepData;
        if view
            .state
            .marks_after(None)
            .all(|(_, _, operation)| keeps(operation))
        {
            return Ok(false);
        }
        let trust = self.look_for_live(&view.state).await?;
        Ok(matches!(trust, Trust::Suspect(_)))
    }

    /// Look for live objects, unless that was done in this term.
    async fn look_for_live(&self, state: &State) -> Result<Trust, Trouble> {
        let trust = self.trust.now(self.boot());
        if trust != Trust::Unknown {
            return Ok(trust);
        }
        let live = StoreTrust::sample(state);
        if live.is_empty() {
            return Ok(Trust::Unknown);
        }
        self.authority()?;
        let ids: Vec<u64> = live.iter().map(|id| id.0).collect();
        let mut found = Found::default();
        let mut failure = None;
        for (_, look) in self.backend.store().head_many(&ids, LOOKS).await {
            match look {
                Ok(Some(_)) => found.present += 1,
                Ok(None) => found.absent += 1,
                Err(error) => failure = Some(error.to_string()),
            }
        }
        if found.present == 0
            && let Some(text) = failure
        {
            return Err(Trouble::Unavailable(text));
        }
        let trust = self.trust.judge(&live, found, self.boot());
        if let Trust::Suspect(text) = &trust {
            tracing::warn!(reason = %text, "nothing is deleted");
        }
        Ok(trust)
    }

    /// Judge each object: what may go is returned, the rest is answered.
    fn sift(
        &self,
        state: &State,
        ids: &[ObjectId],
        answers: &mut HashMap<ObjectId, Deletion>,
    ) -> Vec<ObjectId> {
        let links = lock(&self.links);
        let mut candidates = Vec::with_capacity(ids.len());
        for &id in ids {
            if let Some(text) = self.aside.parked(id.0) {
                answers.insert(id, Deletion::Refused(Refusal::Parked(text)));
                continue;
            }
            let refusal = match judge(state, &links, id) {
                Verdict::Delete => {
                    candidates.push(id);
                    continue;
                }
                Verdict::NotMarked => {
                    self.refuse(id, "the destroyed queue does not name it");
                    Refusal::NotMarked
                }
                Verdict::KeepData => {
                    self.refuse(id, "its mark keeps the data");
                    Refusal::KeepData
                }
                Verdict::Conflict(conflict) => {
                    self.conflict(id, conflict);
                    Refusal::Conflict(conflict.to_string())
                }
                Verdict::Parked(reason) => {
                    // A DeepDelete mark is known by its operation.
                    if reason == COMPOSITE {
                        self.set_aside(id, Why::Parked(reason.to_owned()));
                    }
                    Refusal::Parked(reason.to_owned())
                }
                Verdict::Suspect(text) => {
                    self.refuse(id, &text);
                    Refusal::StoreSuspect(text)
                }
            };
            answers.insert(id, Deletion::Refused(refusal));
        }
        candidates
    }

    fn conflict(&self, id: ObjectId, conflict: Conflict) {
        if self.set_aside(id, Why::Conflict(conflict.to_string())) {
            tracing::warn!(object = id.0, %conflict, "a mark contradicts the catalog; nothing is deleted");
        }
    }

    /// Keep a refusal for the report. A plugin may name any id: only some are kept.
    fn refuse(&self, id: ObjectId, text: &str) {
        let mut refused = lock(&self.refused);
        if refused.len() < REFUSALS || refused.contains_key(&id) {
            refused.insert(id, text.to_owned());
        }
    }

    fn refuse_all(&self, ids: &[ObjectId], text: &str, answers: &mut HashMap<ObjectId, Deletion>) {
        for &id in ids {
            self.refuse(id, text);
            answers.insert(
                id,
                Deletion::Refused(Refusal::StoreSuspect(text.to_owned())),
            );
        }
    }

    /// Look at the objects' own bytes: which are there, which are not. Composites
    /// and what cannot be looked at are answered.
    async fn probe(
        &self,
        candidates: Vec<ObjectId>,
        answers: &mut HashMap<ObjectId, Deletion>,
    ) -> (Vec<ObjectId>, HashSet<ObjectId>) {
        let ids: Vec<u64> = candidates.iter().map(|id| id.0).collect();
        let mut present = Vec::with_capacity(ids.len());
        let mut absent = HashSet::new();
        for (id, found) in self.backend.store().links_many(&ids, LOOKS).await {
            let id = ObjectId(id);
            let outcome = match found {
                Ok(Composite::Plain) => {
                    present.push(id);
                    continue;
                }
                Ok(Composite::Absent) => {
                    absent.insert(id);
                    continue;
                }
                Ok(found @ (Composite::Links(_) | Composite::Unreadable(_))) => {
                    if let Composite::Links(links) = found {
                        // Remembered: until it is gone, what it links stays.
                        lock(&self.links).record(id, Composite::Links(links));
                    }
                    self.set_aside(id, Why::Parked(COMPOSITE.to_owned()));
                    Deletion::Refused(Refusal::Parked(COMPOSITE.to_owned()))
                }
                Err(StorageError::Throttled { reason, .. }) => {
                    self.set_aside(id, Why::Failed(reason));
                    Deletion::Outcome(DeleteOutcome::Throttled)
                }
                Err(error) => {
                    let text = error.to_string();
                    self.set_aside(id, Why::Failed(text.clone()));
                    Deletion::Outcome(match error {
                        StorageError::Denied { .. } => DeleteOutcome::Denied(text),
                        _ => DeleteOutcome::Retry(text),
                    })
                }
            };
            answers.insert(id, outcome);
        }
        (present, absent)
    }
}

/// Whether a store's failure is likely to pass by itself.
fn passing(error: &StorageError) -> bool {
    matches!(
        error,
        StorageError::Throttled { .. } | StorageError::Unreachable { .. }
    )
}
