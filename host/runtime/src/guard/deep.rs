//! DeepDelete: a composite goes with the parts that nothing else needs.
//!
//! The order is parts, composite, mark, each confirmed before the next. So a
//! crash leaves a composite whose remaining parts can still be read from it, and
//! a composite that is absent has no part left. A part that an other composite
//! links stays with that one: with a live one for good, with one that is marked
//! DeepDelete until it goes too. Links are not followed further: PicoMQ links
//! the parts of a composite that it merges, never the composite, and reads no
//! link to one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aedile_state::{ObjectId, Operation, State};
use aedile_storage::DeleteOutcome;

use super::guards::{CHUNK, Deletion, Refusal, lock};
use super::judge::{PartVerdict, judge_part};
use super::links::Look;
use super::{Guards, Why};
use crate::backend::{Backend, Doomed, Trouble};

/// Composites of one step.
const WAVE: usize = 256;
/// Parts above which a step takes no further composite.
const PARTS: usize = 100_000;
/// How often the parts are gone through before a composite waits for the next
/// tick: each further time only because the catalog changed meanwhile.
const ROUNDS: usize = 5;

/// The right to delete deeply: two calls at a time could each leave a shared
/// part to the other.
struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    fn take(flag: &'a AtomicBool) -> Option<Self> {
        (!flag.swap(true, Ordering::AcqRel)).then_some(Self(flag))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A part, with a composite that links it.
type Part = (ObjectId, ObjectId);

/// Composites that go together.
#[derive(Debug, Default)]
struct Wave {
    /// Those still to go, with their parts.
    composites: BTreeMap<ObjectId, Arc<[ObjectId]>>,
    /// Parts whose bytes are gone.
    gone: HashSet<ObjectId>,
    /// Parts that cannot go, and what is said of the composite then.
    failed: HashMap<ObjectId, DeleteOutcome>,
}

impl<B: Backend> Guards<B> {
    /// Delete the DeepDelete marks of `ids` with what they link.
    pub(super) async fn delete_deep(
        &self,
        plugin: &str,
        ids: &[ObjectId],
        answers: &mut HashMap<ObjectId, Deletion>,
    ) -> Result<(), Trouble> {
        let Some(_turn) = Turn::take(&self.deep) else {
            let text =
                "another call is deleting composites with their parts; the next tick goes on";
            let outcome = Deletion::Outcome(DeleteOutcome::Retry(text.to_owned()));
            answers.extend(ids.iter().map(|&id| (id, outcome.clone())));
            return Ok(());
        };
        let mut rest = ids;
        while !rest.is_empty() {
            let view = self.informed().await?;
            let (next, _) = rest.split_at(rest.len().min(WAVE));
            self.learn_marked(&view.state, next).await?;
            let took = self.deep_wave(plugin, next, answers).await?;
            rest = rest.get(took..).unwrap_or_default();
        }
        Ok(())
    }

    /// One step: as many of `ids` as fit; how many those were.
    async fn deep_wave(
        &self,
        plugin: &str,
        ids: &[ObjectId],
        answers: &mut HashMap<ObjectId, Deletion>,
    ) -> Result<usize, Trouble> {
        let (mut wave, took) = self.gather(ids);
        let view = self.informed().await?;
        let candidates = self.sift(&view.state, &ids[..took], answers);
        // What is refused is refused once: it counts as one try.
        wave.composites.retain(|id, _| candidates.contains(id));
        if self
            .trusted(&view.state, &candidates, answers)
            .await?
            .is_none()
        {
            return Ok(took);
        }
        for _ in 0..ROUNDS {
            let view = self.informed().await?;
            let todo = self.settle_wave(&view.state, &mut wave, answers);
            if todo.is_empty() {
                let doomed: Vec<Doomed> = wave
                    .composites
                    .keys()
                    .map(|&id| Doomed::marked(&view.state, id))
                    .collect();
                self.send(plugin, &doomed, &HashSet::new(), answers).await?;
                return Ok(took);
            }
            self.delete_parts(plugin, &todo, &mut wave, answers).await?;
        }
        let text = "the catalog changes faster than its parts go; the next tick goes on";
        for &id in wave.composites.keys() {
            answers.insert(id, Deletion::Outcome(DeleteOutcome::Retry(text.to_owned())));
        }
        Ok(took)
    }

    /// As many of `ids` as make one step, with what they link.
    fn gather(&self, ids: &[ObjectId]) -> (Wave, usize) {
        let links = lock(&self.links);
        let mut wave = Wave::default();
        let mut parts = 0;
        for (took, id) in ids.iter().enumerate() {
            let linked = match links.known(*id) {
                Some(Look::Links(linked)) => linked,
                _ => Arc::default(),
            };
            parts += linked.len();
            if took > 0 && parts > PARTS {
                return (wave, took);
            }
            wave.composites.insert(*id, linked);
        }
        (wave, ids.len())
    }

    /// Judge the composites of the wave by this view: those that may not go now
    /// are answered and leave it.
    fn sift_wave(&self, state: &State, wave: &mut Wave, answers: &mut HashMap<ObjectId, Deletion>) {
        let ids: Vec<ObjectId> = wave.composites.keys().copied().collect();
        let allowed: HashSet<ObjectId> = self.sift(state, &ids, answers).into_iter().collect();
        // The mutant without a guard judges nothing, so it has no parts either.
        let deep = |id: &ObjectId| {
            cfg!(feature = "without-guard")
                || matches!(state.mark(*id), Some((_, Operation::DeepDelete)))
        };
        for id in allowed.iter().filter(|id| !deep(id)) {
            let text = "its mark has just changed; the next tick goes on".to_owned();
            answers.insert(*id, Deletion::Outcome(DeleteOutcome::Retry(text)));
        }
        wave.composites
            .retain(|id, _| allowed.contains(id) && deep(id));
    }

    /// Judge the wave by this view: composites that may not go now, also
    /// because of one of their parts, are answered and leave it. The parts that
    /// are still to go are returned, each with a composite that links it.
    fn settle_wave(
        &self,
        state: &State,
        wave: &mut Wave,
        answers: &mut HashMap<ObjectId, Deletion>,
    ) -> Vec<Part> {
        self.sift_wave(state, wave, answers);
        // A composite that waits keeps the parts that it shares with others.
        loop {
            let (todo, blocked) = self.judge_parts(state, wave);
            if blocked.is_empty() {
                return todo;
            }
            for (id, block) in blocked {
                wave.composites.remove(&id);
                let deletion = match block {
                    Block::Held(text) => {
                        self.set_aside(id, Why::Held(text.clone()));
                        Deletion::Refused(Refusal::Parked(text))
                    }
                    Block::Failed(outcome) => {
                        self.set_aside(id, Why::Failed(said(&outcome)));
                        Deletion::Outcome(outcome)
                    }
                };
                answers.insert(id, deletion);
            }
        }
    }

    /// The parts that are to go, and the composites that one of theirs blocks.
    fn judge_parts(&self, state: &State, wave: &Wave) -> (Vec<Part>, Vec<(ObjectId, Block)>) {
        let links = lock(&self.links);
        let deleted = lock(&self.deleted);
        let going = |id: ObjectId| wave.composites.contains_key(&id) || deleted.contains(&id);
        let mut todo = BTreeMap::new();
        let mut blocked = Vec::new();
        for (&id, parts) in &wave.composites {
            for &part in parts.iter() {
                if wave.gone.contains(&part) || todo.contains_key(&part) {
                    continue;
                }
                match judge_part(state, &links, part, going) {
                    PartVerdict::Stays => {}
                    PartVerdict::Held(text) => {
                        blocked.push((id, Block::Held(format!("its part {part}: {text}"))));
                        break;
                    }
                    PartVerdict::Take => match wave.failed.get(&part) {
                        None => drop(todo.insert(part, id)),
                        Some(outcome) => {
                            blocked.push((id, Block::Failed(outcome.clone())));
                            break;
                        }
                    },
                }
            }
        }
        (todo.into_iter().collect(), blocked)
    }

    /// Delete parts, chunk by chunk, each judged right before it is sent.
    async fn delete_parts(
        &self,
        plugin: &str,
        todo: &[Part],
        wave: &mut Wave,
        answers: &mut HashMap<ObjectId, Deletion>,
    ) -> Result<(), Trouble> {
        for chunk in todo.chunks(CHUNK) {
            let view = self.informed().await?;
            self.sift_wave(&view.state, wave, answers);
            let doomed = self.doomed_parts(&view.state, wave, chunk);
            if doomed.is_empty() {
                continue;
            }
            self.authority()?;
            for (part, outcome) in self.backend.delete(plugin, &doomed).await {
                match outcome {
                    DeleteOutcome::Deleted | DeleteOutcome::Absent => {
                        self.part_gone(&view.state, part, &outcome);
                        wave.gone.insert(part);
                    }
                    DeleteOutcome::NotSent => return Err(Trouble::LeaseLost),
                    failed => drop(wave.failed.insert(part, of_part(part, failed))),
                }
            }
        }
        Ok(())
    }

    /// Those of a chunk that may go by this view.
    fn doomed_parts(&self, state: &State, wave: &Wave, chunk: &[Part]) -> Vec<Doomed> {
        let links = lock(&self.links);
        let deleted = lock(&self.deleted);
        let going = |id: ObjectId| wave.composites.contains_key(&id) || deleted.contains(&id);
        let takes = |part| judge_part(state, &links, part, going) == PartVerdict::Take;
        chunk
            .iter()
            .filter(|(part, of)| wave.composites.contains_key(of) && takes(*part))
            .map(|&(id, of)| Doomed {
                id,
                operation: Operation::DeepDelete,
                part_of: Some(of),
            })
            .collect()
    }

    /// Note that the bytes of a part are gone; a mark of its own may go then.
    fn part_gone(&self, state: &State, part: ObjectId, outcome: &DeleteOutcome) {
        if *outcome == DeleteOutcome::Deleted {
            self.counters.deleted.fetch_add(1, Ordering::Relaxed);
            self.counters.parts.fetch_add(1, Ordering::Relaxed);
        }
        if state.mark(part).is_some() {
            lock(&self.deleted).insert(part);
            self.aside.forget(part.0);
        }
    }
}

/// Why a part keeps its composite from going.
enum Block {
    Held(String),
    Failed(DeleteOutcome),
}

/// A part's failure, told of its composite.
fn of_part(part: ObjectId, outcome: DeleteOutcome) -> DeleteOutcome {
    let told = |text: String| format!("its part {part}: {text}");
    match outcome {
        DeleteOutcome::Retry(text) => DeleteOutcome::Retry(told(text)),
        DeleteOutcome::Denied(text) => DeleteOutcome::Denied(told(text)),
        other => other,
    }
}

fn said(outcome: &DeleteOutcome) -> String {
    match outcome {
        DeleteOutcome::Retry(text) | DeleteOutcome::Denied(text) => text.clone(),
        _ => "the store asks for fewer requests".to_owned(),
    }
}
