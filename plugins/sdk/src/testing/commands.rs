//! Commands and storage, carried out on the model.

use super::{Call, Host};
use crate::host::{Commands, Job, Storage};
use crate::{
    Answer, Compaction, DeleteOutcome, HostError, ObjectId, Operation, Put, Refusal, Stored,
    StreamAt, Sweep, Transfer, Trim,
};

impl Host {
    /// Records a call; a scripted error goes before anything else.
    fn send(&mut self, call: Call) -> Result<(), HostError> {
        let failure = self.errors.remove(&self.calls.len());
        self.calls.push(call);
        failure.map_or(Ok(()), Err)
    }

    /// Answers each item as scripted, or else by `apply`.
    fn answer<T>(&mut self, items: &[T], apply: impl Fn(&mut Self, &T) -> Answer) -> Vec<Answer> {
        if let Some(answer) = self.answers.pop_front() {
            return items.iter().map(|_| answer.clone()).collect();
        }
        self.index += 1;
        items.iter().map(|item| apply(self, item)).collect()
    }

    /// Commands that are not modelled answer as scripted, else that nothing is.
    fn destructive<T>(
        &mut self,
        function: &'static str,
        items: &[T],
    ) -> Result<Vec<Answer>, HostError> {
        self.send(Call::Destructive(function))?;
        Ok(self.answer(items, |_, _| {
            Answer::Rejected(format!("{function}: no answer is scripted"))
        }))
    }

    /// Why a key may not be written, if so.
    fn refuse_key(&self, key: &str) -> Option<Answer> {
        let own = format!("aedile/kv/{}/", self.plugin());
        let granted = || {
            let prefixes = self.kv_prefixes.iter();
            let mut granted = prefixes.filter(|prefix| key.starts_with(prefix.as_str()));
            !key.starts_with("aedile/") && granted.next().is_some()
        };
        if key.starts_with(&own) || granted() {
            return None;
        }
        Some(Answer::Rejected(format!(
            "key {key}: neither below {own} nor below a granted prefix"
        )))
    }

    fn clean(&mut self, id: ObjectId) -> Answer {
        let queue = self.state.destroyed.iter();
        let mut marks = queue.filter(|(_, (marked, _))| *marked == id);
        let Some((&seq, &(_, operation))) = marks.next() else {
            return Answer::Redundant;
        };
        if operation != Operation::KeepData && !self.gone.contains(&id) {
            return Answer::Rejected(format!("object {id}: its bytes were not deleted"));
        }
        self.state.destroyed.remove(&seq);
        Answer::Applied
    }

    fn put(&mut self, entry: &Put, only_if_absent: bool) -> Answer {
        if let Some(refusal) = self.refuse_key(&entry.key) {
            return refusal;
        }
        let present = self.state.kv.get(&entry.key);
        if present.is_some_and(|value| only_if_absent || *value == entry.value) {
            return Answer::Redundant;
        }
        self.state.kv.insert(entry.key.clone(), entry.value.clone());
        Answer::Applied
    }

    /// Takes trimmed objects out of the catalog and marks them, by the host's rule.
    fn unindex(&mut self, compaction: &Compaction) -> Answer {
        let Some(stream) = self.state.streams.get(&compaction.id).copied() else {
            return Answer::Rejected(format!("stream {} does not exist", compaction.id));
        };
        if stream.epoch != compaction.epoch {
            return Answer::Rejected(format!("stream {} is at another epoch", stream.id));
        }
        for id in &compaction.objects {
            let mut objects = self.state.stream_objects.iter();
            let found = objects.find(|((of, _, object), _)| *of == stream.id && object == id);
            match found {
                Some((_, object)) if object.end_offset <= stream.start_offset => {}
                _ => return Answer::Rejected(format!("object {id} holds live data")),
            }
        }
        for id in &compaction.objects {
            let objects = &mut self.state.stream_objects;
            objects.retain(|(of, _, object), _| *of != stream.id || object != id);
            self.state.mark(*id, Operation::Delete);
        }
        Answer::Applied
    }

    /// Moves the start of an open stream, by the host's rule.
    fn trim(&mut self, trim: &Trim) -> Answer {
        let Some(stream) = self.state.streams.get_mut(&trim.id) else {
            return Answer::Rejected(format!("stream {} does not exist", trim.id));
        };
        if stream.epoch != trim.epoch || !stream.opened {
            return Answer::Rejected(format!("stream {} is at another epoch, or closed", trim.id));
        }
        if trim.start_offset < stream.start_offset || trim.start_offset > stream.end_offset {
            return Answer::Rejected(format!(
                "offset {} is outside the stream",
                trim.start_offset
            ));
        }
        if trim.start_offset == stream.start_offset {
            return Answer::Redundant;
        }
        stream.start_offset = trim.start_offset;
        Answer::Applied
    }

    /// Deletes a closed stream and marks its objects, by the host's rule.
    fn delete_one_stream(&mut self, at: &StreamAt) -> Answer {
        let Some(stream) = self.state.streams.get(&at.id).copied() else {
            return Answer::Rejected(format!("stream {} does not exist", at.id));
        };
        if stream.epoch != at.epoch || stream.opened {
            return Answer::Rejected(format!("stream {} is at another epoch, or open", at.id));
        }
        self.state.streams.remove(&at.id);
        let objects = self.state.stream_objects.keys();
        let own: Vec<_> = objects.filter(|(of, ..)| *of == at.id).copied().collect();
        for key in own {
            self.state.stream_objects.remove(&key);
            self.state.mark(key.2, Operation::Delete);
        }
        Answer::Applied
    }

    fn delete_object(&mut self, id: ObjectId) -> DeleteOutcome {
        if let Some(outcome) = self.delete_outcomes.get(&id) {
            return outcome.clone();
        }
        let mut marks = self.state.destroyed.values();
        match marks.find(|(marked, _)| *marked == id) {
            None => DeleteOutcome::Refused(Refusal::NotMarked),
            Some((_, Operation::KeepData)) => DeleteOutcome::Refused(Refusal::KeepData),
            Some(_) if self.stored.remove(&id).is_some() => DeleteOutcome::Deleted,
            Some(_) => DeleteOutcome::Absent,
        }
    }
}

fn keys(entries: &[Put]) -> Vec<String> {
    entries.iter().map(|entry| entry.key.clone()).collect()
}

impl Commands for Host {
    fn expire_reservations(&mut self) -> Result<Answer, HostError> {
        self.send(Call::ExpireReservations)?;
        let answers = self.answer(&[()], |host, ()| {
            let now = host.now();
            let before = host.state.reservations.len();
            host.state
                .reservations
                .retain(|_, deadline| *deadline > now);
            if host.state.reservations.len() == before {
                Answer::Redundant
            } else {
                Answer::Applied
            }
        });
        Ok(answers.into_iter().next().expect("one item, one answer"))
    }

    fn clean_destroyed(&mut self, ids: &[ObjectId]) -> Result<Vec<Answer>, HostError> {
        self.send(Call::CleanDestroyed(ids.to_vec()))?;
        Ok(self.answer(ids, |host, id| host.clean(*id)))
    }

    fn put_kv(&mut self, entries: &[Put]) -> Result<Vec<Answer>, HostError> {
        self.send(Call::PutKv(keys(entries)))?;
        Ok(self.answer(entries, |host, entry| host.put(entry, false)))
    }

    fn put_kv_if_absent(&mut self, entries: &[Put]) -> Result<Vec<Answer>, HostError> {
        self.send(Call::PutKv(keys(entries)))?;
        Ok(self.answer(entries, |host, entry| host.put(entry, true)))
    }

    fn delete_kv(&mut self, keys: &[String]) -> Result<Vec<Answer>, HostError> {
        self.send(Call::DeleteKv(keys.to_vec()))?;
        Ok(self.answer(keys, |host, key| {
            if let Some(refusal) = host.refuse_key(key) {
                return refusal;
            }
            match host.state.kv.remove(key) {
                Some(_) => Answer::Applied,
                None => Answer::Redundant,
            }
        }))
    }

    fn trim_stream(&mut self, trims: &[Trim]) -> Result<Vec<Answer>, HostError> {
        let named = trims.iter().map(|trim| (trim.id, trim.start_offset));
        self.send(Call::TrimStream(named.collect()))?;
        Ok(self.answer(trims, |host, trim| host.trim(trim)))
    }

    fn delete_stream(&mut self, streams: &[StreamAt]) -> Result<Vec<Answer>, HostError> {
        self.send(Call::DeleteStream(streams.iter().map(|at| at.id).collect()))?;
        Ok(self.answer(streams, |host, at| host.delete_one_stream(at)))
    }

    fn compact_away(&mut self, compactions: &[Compaction]) -> Result<Vec<Answer>, HostError> {
        let named = compactions.iter();
        let named = named.map(|compaction| (compaction.id, compaction.objects.clone()));
        self.send(Call::CompactAway(named.collect()))?;
        Ok(self.answer(compactions, |host, compaction| host.unindex(compaction)))
    }

    fn transfer_stream(&mut self, transfers: &[Transfer]) -> Result<Vec<Answer>, HostError> {
        self.destructive("transfer-stream", transfers)
    }
}

impl Storage for Host {
    fn delete(&mut self, ids: &[ObjectId]) -> Result<Vec<DeleteOutcome>, HostError> {
        self.send(Call::Delete(ids.to_vec()))?;
        let mut outcomes = Vec::with_capacity(ids.len());
        for &id in ids {
            let outcome = self.delete_object(id);
            match outcome {
                DeleteOutcome::Deleted | DeleteOutcome::Absent => self.gone.insert(id),
                _ => self.failed.insert(id),
            };
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Stored>, HostError> {
        let mut found: Vec<_> = self
            .stored
            .keys()
            .filter_map(|id| self.stored(*id))
            .collect();
        found.sort_by(|one, other| one.key.cmp(&other.key));
        found.retain(|stored| {
            stored.key.starts_with(prefix) && after.is_none_or(|after| stored.key.as_str() > after)
        });
        found.truncate(limit as usize);
        Ok(found)
    }

    fn head(&self, id: ObjectId) -> Result<Option<Stored>, HostError> {
        Ok(self.stored(id))
    }

    fn read(&self, id: ObjectId, offset: u64, length: u32) -> Result<Option<Vec<u8>>, HostError> {
        let Some(bytes) = self.stored.get(&id) else {
            return Ok(None);
        };
        let from = usize::try_from(offset).map_or(bytes.len(), |from| from.min(bytes.len()));
        let to = from.saturating_add(length as usize).min(bytes.len());
        Ok(Some(bytes[from..to].to_vec()))
    }

    fn find_orphans(&mut self) -> Result<Sweep, HostError> {
        self.send(Call::FindOrphans)?;
        let none = Sweep {
            listed: self.stored.len() as u64,
            candidates: 0,
            bytes: 0,
            complete: true,
            ripe: Vec::new(),
            held: None,
        };
        Ok(match self.sweeps.len() {
            0 => none,
            1 => self.sweeps[0].clone(),
            _ => self.sweeps.pop_front().unwrap_or(none),
        })
    }

    fn delete_orphan(&mut self, ids: &[ObjectId]) -> Result<Vec<DeleteOutcome>, HostError> {
        self.send(Call::DeleteOrphan(ids.to_vec()))?;
        let outcomes = ids.iter().map(|id| {
            if let Some(outcome) = self.delete_outcomes.get(id) {
                return outcome.clone();
            }
            match self.stored.remove(id) {
                Some(_) => DeleteOutcome::Deleted,
                None => DeleteOutcome::Absent,
            }
        });
        Ok(outcomes.collect())
    }
}
