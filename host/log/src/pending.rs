//! Rows of ours that stand in the log or are about to, and who waits for them.
//!
//! The proposer registers a row before it sends it, because the tailer may meet
//! it before the reply to the append arrives. The bytes tell them apart from
//! another's row at the same index: a nonce makes each of ours unique.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aedile_clock::BootInstant;
use tokio::sync::{Notify, oneshot, watch};

use crate::LogError;
use crate::store::{Around, Fetch};
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

    /// Nothing of it stands in the log: its term is over.
    pub(crate) fn fenced_out(self, reason: &str) {
        let answers = vec![Answer::FencedOut(reason.to_owned()); self.count];
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
    until: BootInstant,
    /// Known to stand in the log.
    landed: bool,
    /// The first of so many rows, with what their append saw around them: they
    /// need not be read again.
    head: Option<(usize, Around)>,
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

#[derive(Debug, Default)]
struct Rows {
    rows: BTreeMap<u64, Row>,
    /// Nothing is applied any more: whoever would wait is let go.
    closed: bool,
}

/// The rows of ours, by index.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    rows: Mutex<Rows>,
    /// Told of each row that is registered.
    registered: Notify,
    /// Up to which index everybody was answered.
    answered: watch::Sender<u64>,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A row is about to be sent to `index`. Its answer is waited for until then.
    pub(crate) fn register(
        &self,
        index: u64,
        payload: Arc<[u8]>,
        waiters: Vec<Waiter>,
        until: BootInstant,
    ) {
        let row = Row {
            payload,
            waiters,
            until,
            landed: false,
            head: None,
        };
        let mut lock = self.lock();
        if !lock.closed {
            lock.rows.insert(index, row);
            drop(lock);
            self.registered.notify_one();
        }
    }

    /// Wait until a row was registered since this was last waited for.
    pub(crate) async fn registered(&self) {
        self.registered.notified().await;
    }

    /// The row that is to stand at `index`, if it is ours.
    pub(crate) fn payload(&self, index: u64) -> Option<Arc<[u8]>> {
        let lock = self.lock();
        lock.rows.get(&index).map(|row| row.payload.clone())
    }

    /// The rows from `first` on did not land there: take their waiters back.
    /// None for a row that the tailer has met and answered meanwhile.
    pub(crate) fn withdraw(&self, first: u64, count: usize) -> Vec<Option<Vec<Waiter>>> {
        let mut lock = self.lock();
        let rows = &mut lock.rows;
        (first..first + count as u64)
            .map(|index| rows.remove(&index).map(|row| row.waiters))
            .collect()
    }

    /// The rows from `first` on stand in the log, with this around them if that is
    /// known.
    pub(crate) fn landed(&self, first: u64, count: usize, around: Option<Around>) {
        let mut lock = self.lock();
        let rows = &mut lock.rows;
        for (_, row) in rows.range_mut(first..first + count as u64) {
            row.landed = true;
        }
        if let (Some(row), Some(around)) = (rows.get_mut(&first), around) {
            row.head = Some((count, around));
        }
    }

    /// What a look at the log from row `applied` on would bring, if an append of
    /// ours begins right behind it and has told.
    pub(crate) fn look(&self, applied: u64) -> Option<Fetch> {
        let mut lock = self.lock();
        let rows = &mut lock.rows;
        let (count, around) = rows.get_mut(&(applied + 1))?.head.take()?;
        let own = rows.range(applied + 1..=applied + count as u64);
        let own = own.map(|(index, row)| (*index, row.payload.to_vec()));
        let before = around.before.map(|payload| (applied, payload));
        Some(Fetch {
            snapshot: around.snapshot,
            rows: before.into_iter().chain(own).collect(),
        })
    }

    /// The tailer applied this row: if it is ours, note its answers.
    pub(crate) fn applied(
        &self,
        index: u64,
        payload: &[u8],
        answers: &mut dyn Iterator<Item = Answer>,
        delivery: &mut Delivery,
    ) {
        let mut lock = self.lock();
        let rows = &mut lock.rows;
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

    /// Everybody who waits for a row up to `index` was answered.
    pub(crate) fn answered(&self, index: u64) {
        self.answered.send_replace(index);
    }

    /// Wait until that is so.
    pub(crate) async fn until_answered(&self, index: u64) {
        let mut answered = self.answered.subscribe();
        // The sender lives as long as `self`.
        let _ = answered.wait_for(|answered| *answered >= index).await;
    }

    /// A snapshot was installed that covers every index up to `index`: what
    /// stands there has happened, but how it was answered is not known.
    pub(crate) fn covered(&self, index: u64) {
        let mut lock = self.lock();
        let rows = &mut lock.rows;
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

    /// What a reply said of the rows whose time is up is lost, or was never met:
    /// how they were answered is not known. The oldest come first.
    pub(crate) fn overdue(&self, now: BootInstant) {
        let mut lock = self.lock();
        while let Some(first) = lock.rows.first_entry()
            && first.get().until <= now
        {
            answer_unknown(first.remove().waiters);
        }
    }

    /// The client stops: nobody will be answered any more.
    pub(crate) fn abandon(&self) {
        let mut lock = self.lock();
        lock.closed = true;
        lock.rows.clear();
    }

    /// It goes on after all, from `index`.
    pub(crate) fn begin_anew(&self, index: u64) {
        let mut lock = self.lock();
        lock.closed = false;
        lock.rows.clear();
        drop(lock);
        self.answered(index);
    }
}

/// Answer waiters whose row may or may not stand in the log.
pub(crate) fn answer_unknown(waiters: Vec<Waiter>) {
    waiters.into_iter().for_each(Waiter::unknown);
}
