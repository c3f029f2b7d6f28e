//! Commands and storage, carried out on the model.

use super::{Call, Host};
use crate::host::{Commands, Job, Storage};
use crate::{
    Answer, Compaction, DeleteOutcome, HostError, ObjectId, Operation, Put, Refusal, Stored,
    StreamAt, Transfer, Trim,
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
        self.destructive("trim-stream", trims)
    }

    fn delete_stream(&mut self, streams: &[StreamAt]) -> Result<Vec<Answer>, HostError> {
        self.destructive("delete-stream", streams)
    }

    fn compact_away(&mut self, compactions: &[Compaction]) -> Result<Vec<Answer>, HostError> {
        self.destructive("compact-away", compactions)
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
}
