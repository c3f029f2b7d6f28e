//! The one appender of this client: packs proposals into rows and sends them,
//! one transaction at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock};
use aedile_state::{Command, codec};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::pending::{Pending, Waiter, answer_unknown};
use crate::store::{Append, AppendError, Store};
use crate::view::{LogHealth, View};
use crate::{LogError, LogErrorKind, LogOptions};

/// Keys of this prefix are never written: removing one changes nothing. A row
/// carries such a removal so that its bytes are like no other's.
const NONCE: &str = "aedile/nonce/";

/// Rows above this size are not packed any further.
const ROW_BYTES: usize = 1 << 20;

/// Shortest wait after a conflict or a failure.
const BACKOFF_MIN: Duration = Duration::from_millis(5);

/// Longest wait after a conflict or a failure.
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Commands that belong into one row, and who waits for them.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) commands: Vec<Command>,
    pub(crate) waiter: Waiter,
    /// When it is given up if it could not be sent.
    pub(crate) until: BootInstant,
}

/// A row that is built and not yet known to stand in the log.
struct Draft {
    payload: Arc<[u8]>,
    waiters: Vec<Waiter>,
}

/// The task that appends.
pub(crate) struct Proposer {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) options: LogOptions,
    pub(crate) clock: SharedClock,
    pub(crate) pending: Arc<Pending>,
    pub(crate) nudge: Arc<Notify>,
    pub(crate) views: watch::Receiver<Arc<View>>,
    pub(crate) health: watch::Receiver<LogHealth>,
    pub(crate) cancel: CancellationToken,
    /// The last index that is known to be taken.
    pub(crate) last: u64,
}

/// What became of one round of sending.
enum Sent {
    /// They stand from here on.
    Landed,
    /// They do not; the index is somebody else's.
    Conflict,
    /// A snapshot covers the index: it cannot be told.
    Covered,
    /// The database refused them.
    Refused(LogError),
    /// The client is to stop, or gave up asking.
    GaveUp,
}

impl Proposer {
    /// Append until cancelled and the queue is empty of what was in hand.
    pub(crate) async fn run(mut self, mut queue: mpsc::Receiver<Proposal>) {
        let mut spare: Option<Proposal> = None;
        loop {
            let first = match spare.take() {
                Some(proposal) => proposal,
                None => tokio::select! {
                    biased;
                    () = self.cancel.cancelled() => break,
                    next = queue.recv() => match next {
                        Some(proposal) => proposal,
                        None => break,
                    },
                },
            };
            if self.cancel.is_cancelled() {
                break;
            }
            if self.over(first.until) {
                first
                    .waiter
                    .not_appended("no place was free in time before it");
                continue;
            }
            let (drafts, until) = self.pack(first, &mut queue, &mut spare);
            self.send(drafts, until).await;
        }
        // Dropping the queue ends whoever waits.
    }

    /// Build up to `rows_max` rows of what is queued, without waiting.
    fn pack(
        &self,
        first: Proposal,
        queue: &mut mpsc::Receiver<Proposal>,
        spare: &mut Option<Proposal>,
    ) -> (VecDeque<Draft>, BootInstant) {
        let mut drafts = VecDeque::new();
        let mut until = first.until;
        let mut next = Some(first);
        while let Some(proposal) = next.take() {
            let mut commands = proposal.commands;
            let mut waiters = vec![proposal.waiter];
            let mut bytes = size(&commands);
            until = until.max(proposal.until);
            loop {
                let Ok(more) = queue.try_recv() else { break };
                let grown = bytes + size(&more.commands);
                if commands.len() + more.commands.len() > self.options.batch_max
                    || grown > ROW_BYTES
                {
                    next = Some(more);
                    break;
                }
                bytes = grown;
                until = until.max(more.until);
                commands.extend(more.commands);
                waiters.push(more.waiter);
            }
            commands.push(Command::DeleteKv { key: nonce() });
            drafts.push_back(Draft {
                payload: codec::encode_batch(&commands).into(),
                waiters,
            });
            if drafts.len() >= self.options.rows_max.max(1) {
                *spare = next.take();
            }
        }
        (drafts, until)
    }

    /// Send rows until they stand somewhere or it cannot be told.
    async fn send(&mut self, mut drafts: VecDeque<Draft>, deadline: BootInstant) {
        let mut backoff = BACKOFF_MIN;
        while !drafts.is_empty() {
            if self.health.borrow().is_final() {
                return;
            }
            let seen = self.views.borrow().index;
            self.last = self.last.max(seen);
            let first = self.last + 1;
            let rows: Vec<Arc<[u8]>> = drafts.iter().map(|draft| draft.payload.clone()).collect();
            for (draft, index) in drafts.drain(..).zip(first..) {
                self.pending.register(index, draft.payload, draft.waiters);
            }
            match self.settle(first, &rows, deadline).await {
                Sent::Landed => {
                    self.pending.landed(first, rows.len());
                    self.last = first + rows.len() as u64 - 1;
                    self.nudge.notify_one();
                    return;
                }
                Sent::Conflict => {
                    self.restore(first, rows, &mut drafts);
                    self.nudge.notify_one();
                    if self.over(deadline) {
                        return give_up(drafts, "every place was taken by others");
                    }
                    match self.store.tip().await {
                        Ok(tip) if tip.last() > self.last => self.last = tip.last(),
                        // Nothing new: the predecessor has yet to show.
                        _ => backoff = self.pause(backoff, deadline).await,
                    }
                }
                Sent::Covered | Sent::GaveUp => {
                    for waiters in self
                        .pending
                        .withdraw(first, rows.len())
                        .into_iter()
                        .flatten()
                    {
                        answer_unknown(waiters);
                    }
                    self.nudge.notify_one();
                    return;
                }
                Sent::Refused(error) => {
                    tracing::warn!(%error, "an append was refused");
                    self.restore(first, rows, &mut drafts);
                    // Only what may pass by itself is tried again.
                    if self.over(deadline) || error.kind() != LogErrorKind::Unavailable {
                        return give_up(drafts, &error.to_string());
                    }
                    backoff = self.pause(backoff, deadline).await;
                }
            }
        }
    }

    /// Take rows that did not land back, but for those that the tailer has met.
    fn restore(&self, first: u64, rows: Vec<Arc<[u8]>>, drafts: &mut VecDeque<Draft>) {
        let withdrawn = self.pending.withdraw(first, rows.len());
        for (payload, waiters) in rows.into_iter().zip(withdrawn) {
            if let Some(waiters) = waiters {
                drafts.push_back(Draft { payload, waiters });
            }
        }
    }

    /// Send rows to one place until it is known what stands there. After a lost
    /// reply the same bytes go to the same place again, until it is taken.
    async fn settle(&self, first: u64, rows: &[Arc<[u8]>], deadline: BootInstant) -> Sent {
        let mut backoff = BACKOFF_MIN;
        let mut lost = false;
        loop {
            match self.store.append(first, rows).await {
                Ok(Append::Landed) => return Sent::Landed,
                Ok(Append::Conflict) if !lost => return Sent::Conflict,
                Ok(Append::Conflict) => {
                    if let Some(sent) = self.compare(first, rows).await {
                        return sent;
                    }
                }
                Err(AppendError::Refused(error)) if !lost => return Sent::Refused(error),
                Err(AppendError::Refused(error) | AppendError::Unknown(error)) => {
                    lost = true;
                    tracing::warn!(%error, index = first, "the reply to an append was lost");
                }
            }
            if self.over(deadline) {
                return Sent::GaveUp;
            }
            backoff = self.pause(backoff, deadline).await;
        }
    }

    /// After a lost reply the place is taken, or none: by whom?
    async fn compare(&self, first: u64, rows: &[Arc<[u8]>]) -> Option<Sent> {
        let fetch = self.store.fetch(first, 1).await.ok()?;
        let ours = rows.first()?;
        match fetch.rows.first() {
            // All of them or none: the first tells of the rest.
            Some((index, payload)) if *index == first => Some(if payload[..] == ours[..] {
                Sent::Landed
            } else if fetch.snapshot.is_some_and(|snapshot| snapshot >= first) {
                // Another's row below the snapshot proves nothing.
                Sent::Covered
            } else {
                Sent::Conflict
            }),
            _ if fetch.snapshot.is_some_and(|snapshot| snapshot >= first) => Some(Sent::Covered),
            // Neither: its predecessor is gone. The tailer will say why.
            _ => Some(Sent::Conflict),
        }
    }

    fn over(&self, deadline: BootInstant) -> bool {
        self.cancel.is_cancelled() || self.clock.boot() >= deadline
    }

    /// Wait, a random share of the backoff, but not past the deadline; returns
    /// the next one.
    async fn pause(&self, backoff: Duration, deadline: BootInstant) -> Duration {
        let jittered = backoff.mul_f64(0.5 + f64::from(random() % 512) / 1024.0);
        let jittered = jittered.min(deadline.since(self.clock.boot()));
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.clock.sleep(jittered) => {}
        }
        (backoff * 2).min(BACKOFF_MAX)
    }
}

/// End drafts that stand nowhere.
fn give_up(drafts: VecDeque<Draft>, reason: &str) {
    for waiter in drafts.into_iter().flat_map(|draft| draft.waiters) {
        waiter.not_appended(reason);
    }
}

/// A guess at the encoded size, from what can be large.
fn size(commands: &[Command]) -> usize {
    commands
        .iter()
        .map(|command| match command {
            Command::PutKv { key, value } | Command::PutKvIfAbsent { key, value } => {
                key.len() + value.len() + 16
            }
            Command::CleanDestroyedObjects { objects } => objects.len() * 8 + 16,
            _ => 128,
        })
        .sum()
}

fn nonce() -> String {
    let mut bytes = [0_u8; 16];
    fill(&mut bytes);
    format!("{NONCE}{}", hex::encode(bytes))
}

fn random() -> u32 {
    let mut bytes = [0_u8; 4];
    fill(&mut bytes);
    u32::from_le_bytes(bytes)
}

fn fill(bytes: &mut [u8]) {
    // The system's generator fails only where there is none; a nonce that
    // repeats would let two rows be taken for one, so that must not go unseen.
    getrandom::fill(bytes).expect("the system has a random generator");
}
