//! The one appender of this client: packs proposals into rows and sends them,
//! one transaction at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock};
use aedile_state::{Command, codec};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::pending::{Pending, Waiter, answer_unknown};
use crate::store::{Append, AppendError, Around, Store};
use crate::view::{LogHealth, View};
use crate::{Fence, LogError, LogErrorKind, LogOptions};

/// Keys of this prefix are never written: removing one changes nothing. A row
/// carries such a removal so that its bytes are like no other's.
const NONCE: &str = "aedile/nonce/";

/// Rows above this size are not packed any further.
const ROW_BYTES: usize = 1 << 20;

/// Shortest wait after a conflict or a failure.
const BACKOFF_MIN: Duration = Duration::from_millis(5);

/// Longest wait after a conflict or a failure.
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// How long the answer to a row that stands is waited for, beyond the time that
/// appending may take.
const ANSWER: Duration = Duration::from_secs(10);

/// Longest wait for the answers to the last rows before the next are packed.
const GATHER: Duration = Duration::from_millis(2);

/// Commands that belong into one row, and who waits for them.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) commands: Vec<Command>,
    pub(crate) waiter: Waiter,
    /// When it is given up if it could not be sent.
    pub(crate) until: BootInstant,
    /// The term that must stand for it to land.
    pub(crate) fence: Option<Arc<Fence>>,
}

/// A row that is built and not yet known to stand in the log.
struct Draft {
    payload: Arc<[u8]>,
    waiters: Vec<Waiter>,
}

/// Rows that go out in one transaction.
struct Batch {
    drafts: VecDeque<Draft>,
    until: BootInstant,
    /// Of all of them: what is not fenced must not be lost with what is.
    fence: Option<Arc<Fence>>,
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
    /// How often the log was read anew; what is known of it is void then.
    pub(crate) reloads: Arc<AtomicU64>,
    pub(crate) reloads_seen: u64,
}

/// What became of one round of sending.
enum Sent {
    /// They stand from here on; what is around them, unless the reply was lost.
    Landed(Option<Around>),
    /// They do not; the index is somebody else's.
    Conflict,
    /// A snapshot covers the index: it cannot be told.
    Covered,
    /// They do not: the term of their fence is over.
    FencedOut(String),
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
            self.gather(&queue).await;
            let batch = self.pack(first, &mut queue, &mut spare);
            self.send(batch).await;
        }
        // Dropping the queue ends whoever waits.
    }

    /// Callers that were answered together are about to propose again: let them, or
    /// the first of them costs a commit of its own while all others wait. So the
    /// last rows are answered first, and then whoever is on the way arrives.
    async fn gather(&self, queue: &mpsc::Receiver<Proposal>) {
        let answered = self.pending.until_answered(self.last);
        tokio::select! {
            biased;
            () = answered => {}
            () = self.cancel.cancelled() => return,
            // Never long: an append need not wait for a reader.
            () = self.clock.sleep(GATHER) => {}
        }
        let (mut before, mut calm) = (queue.len(), 0);
        while calm < 2 && before < self.options.batch_max {
            tokio::task::yield_now().await;
            let now = queue.len();
            calm = if now == before { calm + 1 } else { 0 };
            before = now;
        }
    }

    /// Build up to `rows_max` rows of what is queued, without waiting. What has
    /// another fence waits for the next transaction.
    fn pack(
        &self,
        first: Proposal,
        queue: &mut mpsc::Receiver<Proposal>,
        spare: &mut Option<Proposal>,
    ) -> Batch {
        let mut drafts = VecDeque::new();
        let mut until = first.until;
        let fence = first.fence.clone();
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
                    || more.fence != fence
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
            let other = next.as_ref().is_some_and(|next| next.fence != fence);
            if other || drafts.len() >= self.options.rows_max.max(1) {
                *spare = next.take();
            }
        }
        Batch {
            drafts,
            until,
            fence,
        }
    }

    /// Send rows until they stand somewhere or it cannot be told.
    async fn send(&mut self, batch: Batch) {
        let Batch {
            mut drafts,
            until: deadline,
            fence,
        } = batch;
        let fence = fence.as_deref();
        let mut backoff = BACKOFF_MIN;
        while !drafts.is_empty() {
            if self.health.borrow().has_stopped() {
                return;
            }
            let reloads = self.reloads.load(Ordering::SeqCst);
            if reloads != self.reloads_seen {
                self.reloads_seen = reloads;
                self.last = 0;
            }
            let seen = self.views.borrow().index;
            self.last = self.last.max(seen);
            let first = self.last + 1;
            let rows: Vec<Arc<[u8]>> = drafts.iter().map(|draft| draft.payload.clone()).collect();
            // The proposer gives up by itself; this bounds an answer that the tailer
            // cannot fetch.
            let until = self.clock.boot() + self.options.propose_timeout + ANSWER;
            for (draft, index) in drafts.drain(..).zip(first..) {
                let Draft { payload, waiters } = draft;
                self.pending.register(index, payload, waiters, until);
            }
            match self.settle(first, &rows, fence, deadline).await {
                Sent::Landed(around) => {
                    self.pending.landed(first, rows.len(), around);
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
                Sent::FencedOut(reason) => {
                    tracing::warn!(%reason, "an append was fenced out");
                    let withdrawn = self.pending.withdraw(first, rows.len());
                    for waiter in withdrawn.into_iter().flatten().flatten() {
                        waiter.fenced_out(&reason);
                    }
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
    async fn settle(
        &self,
        first: u64,
        rows: &[Arc<[u8]>],
        fence: Option<&Fence>,
        deadline: BootInstant,
    ) -> Sent {
        let mut backoff = BACKOFF_MIN;
        let mut lost = false;
        loop {
            match self.store.append(first, rows, fence).await {
                Ok(Append::Landed(around)) => return Sent::Landed(Some(around)),
                Ok(Append::FencedOut(says)) => {
                    let out = Sent::FencedOut(fence.map_or(says.clone(), |own| own.out(&says)));
                    if !lost {
                        return out;
                    }
                    // What was sent before may stand there since a better time.
                    match self.compare(first, rows).await {
                        Some(Sent::Conflict) => return out,
                        Some(sent) => return sent,
                        None => {}
                    }
                }
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
            if self.over(deadline) || self.health.borrow().has_stopped() {
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
                Sent::Landed(None)
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
