//! Deletes: which of the objects asked for may go, and what the store says.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::Ordering;

use aedile_state::{ObjectId, Operation, State};
use aedile_storage::DeleteOutcome;
use futures_util::{FutureExt as _, StreamExt as _};

use super::guards::{CHUNK, LOOKS, lock};
use super::{Conflict, Deletion, Found, Guards, Refusal, StoreTrust, Trust, Verdict, Why, judge};
use crate::backend::{Backend, Doomed, Trouble};

/// Chunks of one call that are in flight.
const CHUNKS: usize = 4;
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
        // By the latest view: each chunk is judged by one of its own.
        let state = self.backend.latest();
        let deeply =
            |id: &ObjectId| matches!(state.state.mark(*id), Some((_, Operation::DeepDelete)));
        let unique: BTreeSet<ObjectId> = ids.iter().copied().collect();
        let (deep, plain): (Vec<ObjectId>, Vec<ObjectId>) = unique.into_iter().partition(deeply);
        let mut answers = HashMap::with_capacity(ids.len());
        let mut chunks: Vec<&[ObjectId]> = plain.chunks(CHUNK).collect();
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
        if !deep.is_empty() {
            self.delete_deep(plugin, &deep, &mut answers).await?;
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
        let mut view = self.informed().await?;
        let mut candidates = self.sift(&view.state, ids, answers);
        let mut absent = HashSet::new();
        if self.trust.now(self.boot()) != Trust::Trusted {
            match self.trusted(&view.state, &candidates, answers).await? {
                Some(looked) => absent = looked,
                None => return Ok(()),
            }
            // Looking took time. What is sent is judged by a view that has caught
            // up just now.
            view = self.informed().await?;
            candidates = self.sift(&view.state, &candidates, answers);
        }
        let (deep, plain): (Vec<Doomed>, Vec<Doomed>) = candidates
            .into_iter()
            .map(|id| Doomed::marked(&view.state, id))
            .partition(|doomed| doomed.operation == Operation::DeepDelete);
        for doomed in deep {
            let text = "its mark has just changed to DeepDelete; the next tick goes on";
            let outcome = Deletion::Outcome(DeleteOutcome::Retry(text.to_owned()));
            answers.insert(doomed.id, outcome);
        }
        self.send(plugin, &plain, &absent, answers).await
    }

    /// Delete what was judged just now, and note what the store says. `absent`
    /// are those that a look has not found: a bulk delete cannot tell.
    pub(super) async fn send(
        &self,
        plugin: &str,
        doomed: &[Doomed],
        absent: &HashSet<ObjectId>,
        answers: &mut HashMap<ObjectId, Deletion>,
    ) -> Result<(), Trouble> {
        if doomed.is_empty() {
            return Ok(());
        }
        self.authority()?;
        let mut unsent = false;
        for (id, outcome) in self.backend.delete(plugin, doomed).await {
            unsent |= outcome == DeleteOutcome::NotSent;
            answers.insert(id, Deletion::Outcome(self.settle(id, outcome, absent)));
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
                // A bulk delete cannot tell the two apart; a look before can.
                if outcome == DeleteOutcome::Absent || absent.contains(&id) {
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
    pub(super) fn set_aside(&self, id: ObjectId, why: Why) -> bool {
        self.aside.put(id.0, why, self.boot(), &self.entropy)
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

    /// Whether the store is known to be the right one, if need be by a look at
    /// these objects, which are to be deleted: those that are not there, or none
    /// if nothing may go; they are answered then.
    pub(super) async fn trusted(
        &self,
        state: &State,
        candidates: &[ObjectId],
        answers: &mut HashMap<ObjectId, Deletion>,
    ) -> Result<Option<HashSet<ObjectId>>, Trouble> {
        let mut absent = HashSet::new();
        let mut trust = self.look_for_live(state).await?;
        if trust == Trust::Unknown && !candidates.is_empty() {
            let ids: Vec<u64> = candidates.iter().map(|id| id.0).collect();
            let mut found = Found::default();
            let mut failure = None;
            for (id, look) in self.backend.store().head_many(&ids, LOOKS).await {
                match look {
                    Ok(Some(_)) => found.present += 1,
                    Ok(None) => drop(absent.insert(ObjectId(id))),
                    Err(error) => failure = Some(error.to_string()),
                }
            }
            found.absent = absent.len();
            if let Some(text) = failure.filter(|_| found.present == 0) {
                return Err(Trouble::Unavailable(text));
            }
            trust = self.trust.judge(&[], found, self.boot());
            if let Trust::Suspect(text) = &trust {
                tracing::warn!(reason = %text, "nothing is deleted");
            }
        }
        match trust {
            Trust::Trusted => Ok(Some(absent)),
            Trust::Suspect(text) => {
                self.refuse_all(candidates, &text, answers);
                Ok(None)
            }
            Trust::Unknown => Ok(None),
        }
    }

    /// Judge each object: what may go is returned, the rest is answered.
    pub(super) fn sift(
        &self,
        state: &State,
        ids: &[ObjectId],
        answers: &mut HashMap<ObjectId, Deletion>,
    ) -> Vec<ObjectId> {
        let parked = self.parked.of(state);
        let links = lock(&self.links);
        let mut candidates = Vec::with_capacity(ids.len());
        for &id in ids {
            if let Some(parked) = parked.get(id) {
                let refusal = Refusal::Parked(parked.reason.clone());
                answers.insert(id, Deletion::Refused(refusal));
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
                Verdict::Held(text) => {
                    self.set_aside(id, Why::Held(text.clone()));
                    Refusal::Parked(text)
                }
                Verdict::Unreadable(reason) => {
                    let text = format!("what it links cannot be read: {reason}");
                    self.set_aside(id, Why::Unreadable(text.clone()));
                    Refusal::Parked(text)
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
}
