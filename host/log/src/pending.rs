//! Rows of ours that stand in the log or are about to, and who waits for them.
//!
//! The proposer registers a row before it sends it, because the tailer may meet
//! it before the reply to the append arrives. The bytes tell them apart from
//! another's row at the same index: a nonce makes each of ours unique.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::LogError;
use crate::view::Answer;

/// Who waits for some consecutive commands of a row.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// How many commands.
    pub(crate) count: usize,
    /// Where the answers go.
    pub(crate) reply: oneshot::Sender<Result<Vec<Answer>, LogError>>,
}

impl Waiter {
    fn unknown(self) {
        let answers = vec![Answer::Unknown; self.count];
        let _ = self.reply.send(Ok(answers));
    }

    /// Nothing of it stands in the log.
    pub(crate) fn not_appended(self, reason: &str) {
        let _ = self.reply.send(Err(LogError::NotAppended {
            reason: reason.to_owned(),
        }));
    }
}

#[derive(Debug)]
struct Row {
    payload: Arc<[u8]>,
    waiters: Vec<Waiter>,
    /// Known to stand in the log.
    landed: bool,
}

/// Answers that are delivered once the view that holds them is published.
#[derive(Debug, Default)]
pub(crate) struct Delivery(Vec<(Waiter, Vec<Answer>)>);

impl Delivery {
    /// Deliver.
    pub(crate) fn send(self) {
        for (waiter, answers) in self.0 {
            let _ = waiter.reply.send(Ok(answers));
        }
    }
}

/// The rows of ours, by index.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    rows: Mutex<BTreeMap<u64, Row>>,
}

impl Pending {
    fn rows(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A row is about to be sent to `index`.
    pub(crate) fn register(&self, index: u64, payload: Arc<[u8]>, waiters: Vec<Waiter>) {
        let row = Row {
            payload,
            waiters,
            landed: false,
        };
        self.rows().insert(index, row);
    }

    /// The rows from `first` on did not land there: take their waiters back.
    /// None for a row that the tailer has met and answered meanwhile.
    pub(crate) fn withdraw(&self, first: u64, count: usize) -> Vec<Option<Vec<Waiter>>> {
        let mut rows = self.rows();
        (first..first + count as u64)
            .map(|index| rows.remove(&index).map(|row| row.waiters))
            .collect()
    }

    /// The rows from `first` on stand in the log.
    pub(crate) fn landed(&self, first: u64, count: usize) {
        let mut rows = self.rows();
        for (_, row) in rows.range_mut(first..first + count as u64) {
            row.landed = true;
        }
    }

    /// The tailer applied this row: if it is ours, note its answers.
    pub(crate) fn applied(
        &self,
        index: u64,
        payload: &[u8],
        answers: &mut dyn Iterator<Item = Answer>,
        delivery: &mut Delivery,
    ) {
        let mut rows = self.rows();
        if rows.get(&index).is_none_or(|row| *row.payload != *payload) {
            return;
        }
        let Some(row) = rows.remove(&index) else {
            return;
        };
        for waiter in row.waiters {
            let mine: Vec<Answer> = answers.take(waiter.count).collect();
            delivery.0.push((waiter, mine));
        }
    }

    /// A snapshot was installed that covers every index up to `index`: what
    /// stands there has happened, but how it was answered is not known.
    pub(crate) fn covered(&self, index: u64) {
        let mut rows = self.rows();
        let covered: Vec<u64> = rows
            .range(..=index)
            .filter(|(_, row)| row.landed)
            .map(|(&index, _)| index)
            .collect();
        for index in covered {
            if let Some(row) = rows.remove(&index) {
                row.waiters.into_iter().for_each(Waiter::unknown);
            }
        }
    }

    /// The client stops: nobody will be answered any more.
    pub(crate) fn abandon(&self) {
        self.rows().clear();
    }
}

/// Answer waiters whose row may or may not stand in the log.
pub(crate) fn answer_unknown(waiters: Vec<Waiter>) {
    waiters.into_iter().for_each(Waiter::unknown);
}
