//! Carries out what the protocol decides, on the keeper's own thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::protocol::{Action, Event, Reply, Request, State};
use crate::store::{Connector, Session, StoreError};

/// What the handle asks of the keeper's thread.
#[derive(Debug)]
pub(crate) enum Command {
    Eligible(Result<(), String>),
    /// The ticks of this term have ended; answered when its lease is released.
    OwnerDone {
        epoch: u64,
        cool_down: Option<Duration>,
        done: oneshot::Sender<()>,
    },
    Stop,
}

type Answer = (Option<Box<dyn Session>>, Reply);

/// A request under way; it owns the connection.
struct Flight {
    attempt: u64,
    work: Pin<Box<dyn Future<Output = Answer> + Send>>,
}

pub(crate) struct Driver {
    clock: SharedClock,
    connector: Arc<dyn Connector>,
    board: Arc<Board>,
    commands: mpsc::UnboundedReceiver<Command>,
    /// Cancelled when the handle is dropped without a stop.
    dropped: CancellationToken,
    session: Option<Box<dyn Session>>,
    flight: Option<Flight>,
    waiting: Vec<(u64, oneshot::Sender<()>)>,
    /// An event that an action brought about.
    follow_up: Option<Event>,
    stopped: bool,
}

impl Driver {
    pub(crate) fn new(
        clock: SharedClock,
        connector: Box<dyn Connector>,
        board: Arc<Board>,
        commands: mpsc::UnboundedReceiver<Command>,
        dropped: CancellationToken,
    ) -> Self {
        Self {
            clock,
            connector: connector.into(),
            board,
            commands,
            dropped,
            session: None,
            flight: None,
            waiting: Vec::new(),
            follow_up: None,
            stopped: false,
        }
    }

    /// Run until stopped, or until the handle is dropped: then what is held runs
    /// out by itself, since nobody says that the ticks have ended.
    pub(crate) async fn run(mut self, mut state: State) {
        while !self.stopped {
            let event = match self.follow_up.take() {
                Some(event) => event,
                None => match self.next(state.wake()).await {
                    Some(event) => event,
                    None => return,
                },
            };
            let (next, actions) = state.step(event, self.clock.boot());
            state = next;
            for action in actions {
                self.carry_out(action);
            }
        }
    }

    async fn next(&mut self, wake: Option<BootInstant>) -> Option<Event> {
        let clock = self.clock.clone();
        let timer = async {
            match wake {
                Some(wake) => clock.sleep_until(wake).await,
                None => std::future::pending().await,
            }
        };
        let idle = self.flight.is_none();
        tokio::select! {
            biased;
            () = self.dropped.cancelled() => None,
            command = self.commands.recv() => Some(match command? {
                Command::Eligible(eligible) => Event::Eligible(eligible),
                Command::OwnerDone { epoch, cool_down, done } => {
                    self.waiting.push((epoch, done));
                    Event::OwnerDone { epoch, cool_down }
                }
                Command::Stop => Event::Stop,
            }),
            (attempt, (session, reply)) = answer(&mut self.flight) => {
                self.flight = None;
                self.session = session;
                Some(Event::Reply { attempt, reply })
            }
            () = timer => Some(Event::Timer),
            announced = announced(idle, &mut self.session) => {
                match announced {
                    Ok(()) => Some(Event::Announced),
                    Err(error) => {
                        tracing::debug!(?error, "the lease's connection was lost while idle");
                        self.session = None;
                        Some(Event::Disconnected)
                    }
                }
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Send { attempt, request } => {
                let work = ask(self.connector.clone(), self.session.take(), request);
                self.flight = Some(Flight {
                    attempt,
                    work: Box::pin(work),
                });
            }
            Action::Cancel { attempt } => {
                if self
                    .flight
                    .take_if(|flight| flight.attempt == attempt)
                    .is_some()
                {
                    tracing::debug!(attempt, "gave up a request about the lease");
                }
            }
            Action::Open { epoch, until } => self.board.open(epoch, until),
            Action::Extend { epoch, until } => {
                if !self.board.extend(epoch, until) {
                    self.follow_up = Some(Event::Ended { epoch });
                }
            }
            Action::Close { epoch } => self.board.close(epoch),
            Action::Publish(standing) => self.board.publish(standing),
            Action::Released { epoch } => {
                for (_, done) in self.waiting.extract_if(.., |(of, _)| *of == epoch) {
                    // Who waited may have gone.
                    let _ = done.send(());
                }
            }
            Action::WarnNative { holder } => tracing::warn!(
                %holder,
                "a PicoMQ node holds the lease and will renew it until it stops; maintenance \
                 waits for that, unless taking over is allowed"
            ),
            Action::Stopped => self.stopped = true,
        }
    }
}

/// One request on the connection there is, or on a new one.
async fn ask(
    connector: Arc<dyn Connector>,
    session: Option<Box<dyn Session>>,
    request: Request,
) -> Answer {
    let session = match session {
        Some(session) => Ok(session),
        None => connector.connect().await,
    };
    let mut session = match session {
        Ok(session) => session,
        Err(error) => return (None, error.into_reply().0),
    };
    match session.perform(&request).await {
        Ok(Some(row)) => (Some(session), Reply::Row(row)),
        Ok(None) => (Some(session), Reply::Refused),
        Err(error) => {
            let (reply, usable) = error.into_reply();
            (usable.then_some(session), reply)
        }
    }
}

async fn answer(flight: &mut Option<Flight>) -> (u64, Answer) {
    match flight {
        Some(flight) => (flight.attempt, flight.work.as_mut().await),
        None => std::future::pending().await,
    }
}

async fn announced(idle: bool, session: &mut Option<Box<dyn Session>>) -> Result<(), StoreError> {
    match session {
        Some(session) if idle => session.announced().await,
        _ => std::future::pending().await,
    }
}
