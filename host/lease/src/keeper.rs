//! The keeper's handle and its two threads.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aedile_clock::SharedClock;
use tokio::runtime::{self, Runtime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::driver::{Command, Driver};
use crate::protocol::{Rules, State};
use crate::store::{self, Connector};
use crate::{Leadership, LeaseError, LeaseName, LeaseOptions, Term, holder};

/// The TTL of PicoMQ's own nodes, which nothing in the row tells.
const NATIVE_TTL: Duration = Duration::from_secs(10);

/// Contends for one lease, on a thread and a connection of its own.
///
/// A second thread ends a term in time should the first be blocked. Dropping the
/// handle ends the authority at once and leaves the row to lapse, since nobody
/// has said that the ticks have ended; [`Keeper::stop`] releases it.
pub struct Keeper {
    board: Arc<Board>,
    commands: mpsc::UnboundedSender<Command>,
    /// Cancelled when the handle is dropped.
    dropped: CancellationToken,
    /// Cancelled when the keeper's thread ends, however it does.
    ended: CancellationToken,
    threads: Vec<JoinHandle<()>>,
    clock: SharedClock,
    patience: Duration,
}

impl Keeper {
    /// Start contending, not yet eligible.
    ///
    /// # Errors
    /// The options are wrong, or the system gives no thread.
    pub fn start(options: LeaseOptions, clock: SharedClock) -> Result<Self, LeaseError> {
        options.validate()?;
        let holder = holder::unique(&options.node)?;
        let connector = store::connector(&options, &holder)?;
        Self::start_on(options, clock, holder, connector)
    }

    pub(crate) fn start_on(
        options: LeaseOptions,
        clock: SharedClock,
        holder: String,
        connector: Box<dyn Connector>,
    ) -> Result<Self, LeaseError> {
        let mut seed = [0_u8; 8];
        getrandom::fill(&mut seed).map_err(LeaseError::Randomness)?;
        let rules = Rules {
            holder: holder.clone(),
            ttl: options.ttl,
            interval: options.interval,
            margin: options.margin,
            timeout: options.attempt_limit(),
            take_over: options.take_over,
            others_ttl: match options.name {
                LeaseName::Shared => NATIVE_TTL,
                LeaseName::Named(_) => Duration::ZERO,
            },
            seed: Some(u64::from_le_bytes(seed)),
        };
        let board = Arc::new(Board::new(clock.clone(), options.name, holder));
        let (commands, received) = mpsc::unbounded_channel();
        let dropped = CancellationToken::new();
        let ended = CancellationToken::new();
        let patience = 6 * rules.timeout + Duration::from_secs(1);
        let state = State::new(rules, clock.boot());
        let driver = Driver::new(
            clock.clone(),
            connector,
            board.clone(),
            received,
            dropped.clone(),
        );
        let exit = Exit {
            board: board.clone(),
            ended: ended.clone(),
            stopped: false,
        };
        let keeping = spawn("lease-keeper", move |runtime| {
            let mut exit = exit;
            runtime.block_on(driver.run(state));
            exit.stopped = true;
            // A statement or a look-up that hangs is left behind.
            runtime.shutdown_background();
        })?;
        // Without its guard the keeper must not run.
        let unfinished = dropped.clone().drop_guard();
        let (guarded, over) = (board.clone(), ended.clone());
        let guarding = spawn("lease-guard", move |runtime| {
            runtime.block_on(guarded.guard(over));
        })?;
        unfinished.disarm();
        Ok(Self {
            board,
            commands,
            dropped,
            ended,
            threads: vec![keeping, guarding],
            clock,
            patience,
        })
    }

    /// The name this process holds under: unique per start.
    pub fn holder(&self) -> &str {
        self.board.holder()
    }

    /// Where this node stands, now and from now on. Whoever looks rarely may miss
    /// the end of a term that began anew, but never that the epoch differs.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.board.subscribe()
    }

    /// Say whether this node may hold the lease, or why not. A term that it holds
    /// is renewed no more once it may not: end its ticks, then release it.
    pub fn set_eligible(&self, eligible: Result<(), String>) {
        self.tell(Command::Eligible(eligible));
    }

    /// The ticks of this term have ended: give its lease up, if it still stands.
    /// A term that is over, or was followed by another, is not touched.
    ///
    /// Returns when the lease is released, or when nothing more can be done.
    /// Where the node is still eligible it leaves the lease to others for one
    /// interval.
    pub async fn release(&self, term: &Term) {
        self.owner_done(term, None).await;
    }

    /// As [`Keeper::release`], and do not contend for this long.
    pub async fn step_down(&self, term: &Term, cool_down: Duration) {
        self.owner_done(term, Some(cool_down)).await;
    }

    /// End: the ticks have ended. Releases what is held and joins the threads.
    pub async fn stop(mut self) {
        self.tell(Command::Stop);
        let ended = self.ended.clone();
        let waited = self.clock.timeout(self.patience, ended.cancelled()).await;
        if waited.is_err() {
            tracing::error!("the lease's thread hangs; it is left behind without authority");
            return;
        }
        for thread in self.threads.drain(..) {
            // A panic has been shown as the end of the leadership.
            let _ = thread.join();
        }
    }

    async fn owner_done(&self, term: &Term, cool_down: Option<Duration>) {
        let (done, released) = oneshot::channel();
        self.tell(Command::OwnerDone {
            epoch: term.epoch,
            cool_down,
            done,
        });
        // Without an answer the thread is gone or hangs, and the lease lapses.
        let _ = self.clock.timeout(self.patience, released).await;
    }

    fn tell(&self, command: Command) {
        // A thread that has ended holds nothing and contends for nothing.
        let _ = self.commands.send(command);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.ended.is_cancelled() {
            self.dropped.cancel();
            self.board.abandon(Leadership::Ineligible {
                reason: "the keeper was dropped".to_owned(),
            });
        }
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper")
            .field("holder", &self.holder())
            .finish_non_exhaustive()
    }
}

/// Shows the end of the keeper's thread, also when it ends by a panic.
struct Exit {
    board: Arc<Board>,
    ended: CancellationToken,
    stopped: bool,
}

impl Drop for Exit {
    fn drop(&mut self) {
        self.board.abandon(if self.stopped {
            Leadership::Ineligible {
                reason: "stopped".to_owned(),
            }
        } else {
            Leadership::Unreachable {
                since: self.board.now(),
                error: "the lease's thread has died".to_owned(),
            }
        });
        self.ended.cancel();
    }
}

fn spawn(
    name: &str,
    work: impl FnOnce(Runtime) + Send + 'static,
) -> Result<JoinHandle<()>, LeaseError> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(LeaseError::Thread)?;
    let started: io::Result<JoinHandle<()>> = thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || work(runtime));
    started.map_err(LeaseError::Thread)
}
