//! Carries out a plan.

use aedile_plugin::{Answer, Failure, Host, HostError, Put};

use crate::look::Plan;

/// Most items and most bytes of one call; a host takes 1 MiB.
const ITEMS: usize = 500;
const BYTES: usize = 256 * 1024;

/// What became of a plan.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Keys that are gone.
    pub(crate) deleted: u64,
    /// Keys and entries that the host refused to write.
    pub(crate) failed: u64,
    refusal: Option<String>,
}

/// Sends the commands of a plan.
///
/// The entry of a key goes before the key itself: should the second get lost,
/// the key is timed afresh and lives longer. The other way about, a key written
/// again in between would be taken for the old one and die at once.
pub(crate) fn act(host: &mut impl Host, plan: &Plan) -> Result<Done, Failure> {
    let mut done = Done::default();
    for batch in batches(&plan.expire, |(key, entry)| key.len() + entry.len()) {
        let entries = batch.iter().map(|(_, entry)| entry.clone());
        let keys = batch.iter().map(|(key, _)| key.clone());
        let both: Vec<_> = entries.chain(keys).collect();
        let answers = host.delete_kv(&both)?;
        done.deleted += done.take(answers.into_iter().skip(batch.len()));
    }
    let deleted_nothing = done.deleted == 0;
    match done.refusal.take() {
        Some(refusal) if deleted_nothing => return Err(Failure::Reject(refusal)),
        Some(refusal) => host.warn(&refusal),
        None => {}
    }
    forget(host, &plan.forget, &mut done)?;
    for batch in batches(&plan.note, Put::len) {
        let answers = host.put_kv(batch)?;
        done.take(answers);
    }
    if let Some(refusal) = done.refusal.take() {
        host.warn(&refusal);
    }
    Ok(done)
}

fn forget(host: &mut impl Host, keys: &[String], done: &mut Done) -> Result<(), HostError> {
    for batch in batches(keys, String::len) {
        let answers = host.delete_kv(batch)?;
        done.take(answers);
    }
    Ok(())
}

impl Done {
    /// Counts answers; how many of them say that the thing is done. One that is
    /// unknown is neither: the next tick sees what became of it.
    fn take(&mut self, answers: impl IntoIterator<Item = Answer>) -> u64 {
        let mut good = 0;
        for answer in answers {
            match answer {
                Answer::Applied | Answer::Redundant => good += 1,
                Answer::Unknown => {}
                Answer::Rejected(rule) => {
                    self.failed += 1;
                    self.refusal.get_or_insert(rule);
                }
            }
        }
        good
    }
}

/// Cuts a list so that each part fits into one call.
fn batches<T>(items: &[T], size: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut batches = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (at, item) in items.iter().enumerate() {
        if at > from && (at - from == ITEMS || bytes + size(item) > BYTES) {
            batches.push(&items[from..at]);
            (from, bytes) = (at, 0);
        }
        bytes += size(item);
    }
    if from < items.len() {
        batches.push(&items[from..]);
    }
    batches
}

/// The size of an entry to write.
trait Length {
    fn len(&self) -> usize;
}

impl Length for Put {
    fn len(&self) -> usize {
        self.key.len() + self.value.len()
    }
}
