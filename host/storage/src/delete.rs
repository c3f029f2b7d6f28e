//! Deleting many objects: chunks, the gate, the pace, one outcome per object.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aedile_clock::SharedClock;
use tokio::task::{Id, JoinError, JoinSet};

use crate::pace::Pace;
use crate::store::Backend;
use crate::{DeleteOutcome, Gate, StoreOptions, object_key};

/// Objects that one worker on a directory takes at a time, at most.
const FILE_CHUNK: usize = 256;

/// How often the gate is asked while the store is given a rest.
const REST: Duration = Duration::from_millis(50);

/// What one request said of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// This became of it.
    Done(DeleteOutcome),
    /// Nothing yet: ask again with a request of its own.
    Alone,
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
    chunks: VecDeque<Vec<u64>>,
    alone: VecDeque<u64>,
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
        let chunk = self.pace.chunk(chunk);
        let mut run = Run {
            with: self,
            outcomes: HashMap::with_capacity(unique.len()),
            chunks: unique.chunks(chunk).map(<[u64]>::to_vec).collect(),
            alone: VecDeque::new(),
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
            match self.requests.join_next_with_id().await {
                Some(landed) => self.land(landed),
                None if self.chunks.is_empty() && self.alone.is_empty() => return,
                None => self.with.clock.sleep(rest.unwrap_or(REST).min(REST)).await,
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
            let work = self.next()?;
            let left = (self.with.gate)().filter(|left| !left.is_zero());
            let Some(left) = left else {
                // Shut: whatever has no outcome yet was not sent.
                self.chunks.clear();
                self.alone.clear();
                return None;
            };
            if let Some(rest) = self.with.pace.rest(self.with.clock.boot()) {
                self.put_back(work);
                return Some(rest);
            }
            self.with.pace.sent(self.with.clock.boot(), work.ids.len());
            self.send(work, left.min(self.with.options.request_timeout));
        }
    }

    fn next(&mut self) -> Option<Flight> {
        if let Backend::S3(store) = self.with.backend
            && store.without_bulk()
        {
            self.alone.extend(self.chunks.drain(..).flatten());
        }
        let in_flight = self.flights.len() - self.bulk_in_flight;
        if in_flight < self.with.pace.of(self.with.options.single_concurrency)
            && let Some(id) = self.alone.pop_front()
        {
            return Some(Flight {
                ids: vec![id],
                bulk: false,
            });
        }
        if self.bulk_in_flight < self.with.pace.of(self.with.options.concurrency) {
            let ids = self.chunks.pop_front()?;
            return Some(Flight { ids, bulk: true });
        }
        None
    }

    fn put_back(&mut self, flight: Flight) {
        if flight.bulk {
            self.chunks.push_front(flight.ids);
        } else {
            self.alone.extend(flight.ids);
        }
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
        let share = if flight.bulk {
            self.with.options.concurrency
        } else {
            self.with.options.single_concurrency
        };
        let throttled =
            |(_, verdict): &(u64, Verdict)| *verdict == Verdict::Done(DeleteOutcome::Throttled);
        if verdicts.iter().any(throttled) {
            let some = !verdicts.iter().all(throttled);
            self.with.pace.throttled(self.with.clock.boot(), some);
        } else {
            self.with.pace.eased(share);
        }
        for (id, verdict) in verdicts {
            match verdict {
                Verdict::Done(outcome) => {
                    if let DeleteOutcome::Denied(reason) = &outcome {
                        tracing::debug!(key = object_key(id), %reason, "delete denied");
                    }
                    self.outcomes.insert(id, outcome);
                }
                Verdict::Alone => self.alone.push_back(id),
            }
        }
    }

    /// The store refused again and again: asking on would only add to it.
    fn rest_is_throttled(&mut self) {
        let rest = self.chunks.drain(..).flatten().chain(self.alone.drain(..));
        self.outcomes
            .extend(rest.map(|id| (id, DeleteOutcome::Throttled)));
    }
}
