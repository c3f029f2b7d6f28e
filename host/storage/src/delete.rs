//! Deleting many objects: chunks, the gate, the pace, one outcome per object.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aedile_clock::SharedClock;
use futures_util::future::OptionFuture;
use tokio::task::{Id, JoinError, JoinSet};

use crate::pace::Pace;
use crate::store::Backend;
use crate::{DeleteOutcome, Gate, StoreOptions, object_key};

/// Objects that one worker on a directory takes at a time, at most.
const FILE_CHUNK: usize = 256;

/// How often the gate is asked while the store is given a rest.
const REST: Duration = Duration::from_millis(50);

/// How often one call sends an object that is throttled, each time after the
/// store had its rest. Throttling is no failure of the object's.
const TRIES: u8 = 3;

/// What one request said of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// This became of it.
    Done(DeleteOutcome),
    /// Nothing yet: ask again with a request of its own.
    Alone,
    /// Nothing yet: ask again in a smaller request.
    Again,
}

/// The parts of a store that a delete needs.
pub(crate) struct Deleting<'a> {
    pub(crate) backend: &'a Backend,
    pub(crate) options: &'a StoreOptions,
    pub(crate) clock: &'a SharedClock,
    pub(crate) pace: &'a Pace,
    pub(crate) gate: Gate<'a>,
}

/// A request on its way.
struct Flight {
    ids: Vec<u64>,
    bulk: bool,
}

/// One call of delete.
struct Run<'a> {
    with: Deleting<'a>,
    outcomes: HashMap<u64, DeleteOutcome>,
    /// To be sent many at a time, and one at a time.
    together: VecDeque<u64>,
    alone: VecDeque<u64>,
    /// How often each was throttled.
    throttled: HashMap<u64, u8>,
    /// The most objects of a request.
    chunk: usize,
    requests: JoinSet<Vec<(u64, Verdict)>>,
    flights: HashMap<Id, Flight>,
    bulk_in_flight: usize,
    stop: Arc<AtomicBool>,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // Only a blocking worker looks at it; any other request ends with its task.
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Deleting<'_> {
    pub(crate) async fn run(self, ids: &[u64]) -> Vec<(u64, DeleteOutcome)> {
        let mut unique = ids.to_vec();
        // Neighbouring ids lie in different partitions of the store.
        unique.sort_unstable();
        unique.dedup();
        let chunk = match self.backend {
            Backend::S3(_) => self.options.chunk,
            Backend::File(_) => (unique.len() / (self.options.concurrency * 4))
                .clamp(1, FILE_CHUNK.min(self.options.chunk)),
        };
        let mut run = Run {
            with: self,
            outcomes: HashMap::with_capacity(unique.len()),
            together: unique.into(),
            alone: VecDeque::new(),
            throttled: HashMap::new(),
            chunk,
            requests: JoinSet::new(),
            flights: HashMap::new(),
            bulk_in_flight: 0,
            stop: Arc::new(AtomicBool::new(false)),
        };
        run.drain().await;
        ids.iter()
            .map(|id| {
                let outcome = run.outcomes.get(id).cloned();
                (*id, outcome.unwrap_or(DeleteOutcome::NotSent))
            })
            .collect()
    }
}

impl Run<'_> {
    /// Send and receive until nothing is left to send and nothing on its way.
    async fn drain(&mut self) {
        loop {
            let rest = self.send_what_may_go();
            let pause = rest.map(|rest| self.with.clock.sleep(rest.min(REST)));
            tokio::select! {
                biased;
                Some(landed) = self.requests.join_next_with_id() => self.land(landed),
                Some(()) = OptionFuture::from(pause) => {}
                else => return,
            }
        }
    }

    /// Send as much as pace and gate allow. What is left waits for something to
    /// land, or for the store to have had its rest.
    fn send_what_may_go(&mut self) -> Option<Duration> {
        loop {
            if self.with.pace.gave_up() {
                self.rest_is_throttled();
            }
            let bulk = self.bulk_is_next()?;
            let left = (self.with.gate)().filter(|left| !left.is_zero());
            let Some(left) = left else {
                // Shut: whatever has no outcome yet was not sent.
                self.together.clear();
                self.alone.clear();
                return None;
            };
            if let Some(rest) = self.with.pace.rest(self.with.clock.boot()) {
                return Some(rest);
            }
            let flight = self.take(bulk);
            self.with
                .pace
                .sent(self.with.clock.boot(), flight.ids.len());
            self.send(flight, left.min(self.with.options.request_timeout));
        }
    }

    /// Whether the next request is for many objects or for one; none if nothing
    /// is left, or as much is in flight as may be.
    fn bulk_is_next(&mut self) -> Option<bool> {
        if let Backend::S3(store) = self.with.backend
            && store.without_bulk()
        {
            self.alone.append(&mut self.together);
        }
        let options = self.with.options;
        let (singles, chunks) = match self.with.backend {
            // A directory does not throttle.
            Backend::File(_) => (0, options.concurrency),
            Backend::S3(_) => (
                self.with.pace.of(options.single_concurrency),
                self.with.pace.of(options.concurrency),
            ),
        };
        if !self.alone.is_empty() && self.flights.len() - self.bulk_in_flight < singles {
            return Some(false);
        }
        (!self.together.is_empty() && self.bulk_in_flight < chunks).then_some(true)
    }

    fn take(&mut self, bulk: bool) -> Flight {
        let ids = if bulk {
            let most = match self.with.backend {
                Backend::File(_) => self.chunk,
                Backend::S3(store) => self.chunk.min(store.bulk_limit()),
            };
            let most = self.with.pace.chunk(most).min(self.together.len());
            self.together.drain(..most).collect()
        } else {
            self.alone.pop_front().into_iter().collect()
        };
        Flight { ids, bulk }
    }

    fn send(&mut self, flight: Flight, limit: Duration) {
        let ids = flight.ids.clone();
        let bulk = flight.bulk;
        let handle = match self.with.backend {
            Backend::File(store) => {
                let store = Arc::clone(store);
                let clock = Arc::clone(self.with.clock);
                let stop = Arc::clone(&self.stop);
                let until = clock.boot() + limit;
                self.requests.spawn_blocking(move || {
                    store.delete(&ids, || {
                        !stop.load(Ordering::Relaxed) && clock.boot() < until
                    })
                })
            }
            Backend::S3(store) => {
                let store = Arc::clone(store);
                self.requests.spawn(async move {
                    if bulk {
                        return store.delete_chunk(&ids, limit).await;
                    }
                    let mut verdicts = Vec::with_capacity(ids.len());
                    for id in ids {
                        verdicts.push((id, Verdict::Done(store.delete_one(id, limit).await)));
                    }
                    verdicts
                })
            }
        };
        self.bulk_in_flight += usize::from(bulk);
        self.flights.insert(handle.id(), flight);
    }

    fn land(&mut self, landed: Result<(Id, Vec<(u64, Verdict)>), JoinError>) {
        let (id, verdicts) = match landed {
            Ok((id, verdicts)) => (id, Ok(verdicts)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(flight) = self.flights.remove(&id) else {
            return;
        };
        self.bulk_in_flight -= usize::from(flight.bulk);
        let verdicts = verdicts.unwrap_or_else(|error| {
            tracing::error!(%error, objects = flight.ids.len(), "a delete request ended without an answer");
            let lost = DeleteOutcome::Retry("the request ended without an answer".into());
            flight
                .ids
                .iter()
                .map(|id| (*id, Verdict::Done(lost.clone())))
                .collect()
        });
        let most = if flight.bulk {
            self.with.options.concurrency
        } else {
            self.with.options.single_concurrency
        };
        let throttled = verdicts
            .iter()
            .filter(|(_, verdict)| *verdict == Verdict::Done(DeleteOutcome::Throttled))
            .count();
        let (now, taken) = (self.with.clock.boot(), verdicts.len() - throttled);
        if throttled > 0 {
            self.with.pace.throttled(now, throttled, taken);
        } else {
            self.with.pace.eased(now, taken, most);
        }
        for (id, verdict) in verdicts {
            match verdict {
                Verdict::Done(outcome) => self.note(id, outcome, flight.bulk),
                Verdict::Alone => self.alone.push_back(id),
                Verdict::Again => self.together.push_back(id),
            }
        }
    }

    fn note(&mut self, id: u64, outcome: DeleteOutcome, bulk: bool) {
        match &outcome {
            DeleteOutcome::Throttled => {
                let tries = self.throttled.entry(id).or_default();
                *tries += 1;
                if *tries < TRIES {
                    let queue = if bulk {
                        &mut self.together
                    } else {
                        &mut self.alone
                    };
                    queue.push_back(id);
                }
            }
            DeleteOutcome::Denied(reason) => {
                tracing::debug!(key = object_key(id), %reason, "delete denied");
            }
            _ => {}
        }
        self.outcomes.insert(id, outcome);
    }

    /// The store refused again and again: asking on would only add to it.
    fn rest_is_throttled(&mut self) {
        let rest = self.together.drain(..).chain(self.alone.drain(..));
        self.outcomes
            .extend(rest.map(|id| (id, DeleteOutcome::Throttled)));
    }
}
