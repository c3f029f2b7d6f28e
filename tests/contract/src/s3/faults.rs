//! What goes wrong at the wire, and what was asked there.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aedile_clock::SharedClock;
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use s3s::Body;
use s3s::service::S3Service;

/// Kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any of them.
    Any,
    /// A delete of many objects.
    Bulk,
    /// A delete of one object.
    Single,
    /// A read of an object.
    Get,
    /// A look at an object.
    Head,
    /// A listing.
    List,
}

/// An error answer.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The service's code; empty for an answer without a body.
    pub code: &'static str,
}

/// What a bulk delete is answered with instead of the truth, after the work.
#[derive(Clone, Debug)]
pub enum BulkBody {
    /// Nothing but errors are named, as in quiet mode.
    Quiet,
    /// This text.
    Text(String),
}

/// Requests seen at the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Deletes of many objects.
    pub bulk: usize,
    /// Deletes of one object.
    pub single: usize,
    /// Reads.
    pub get: usize,
    /// Looks.
    pub head: usize,
    /// Listings.
    pub list: usize,
    /// Anything else.
    pub other: usize,
    /// The most that were in work at the same time.
    pub most_in_flight: usize,
    /// Requests that a fault at the wire answered or cut.
    pub faulted: usize,
}

/// Faults of a server, changed while it runs.
#[derive(Debug, Default)]
pub struct Faults {
    state: Mutex<State>,
    in_flight: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    denied: HashSet<String>,
    poison: HashSet<String>,
    refusals: Vec<(Kind, Refusal, usize)>,
    drops: usize,
    latency: Duration,
    bulk_body: Option<BulkBody>,
    requests: Requests,
    asked: HashMap<String, usize>,
    bulk_in_flight: usize,
}

impl Faults {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These keys may not be deleted: an error of their own.
    pub fn deny(&self, keys: impl IntoIterator<Item = String>) {
        self.state().denied.extend(keys);
    }

    /// A bulk delete that names one of these keys is refused as a whole.
    pub fn poison(&self, keys: impl IntoIterator<Item = String>) {
        let mut state = self.state();
        for key in keys {
            state.denied.insert(key.clone());
            state.poison.insert(key);
        }
    }

    /// Refuse the next `times` requests of this kind without doing the work.
    pub fn refuse(&self, kind: Kind, status: u16, code: &'static str, times: usize) {
        self.state()
            .refusals
            .push((kind, Refusal { status, code }, times));
    }

    /// Do the work of the next `times` deletes, then cut the connection.
    pub fn drop_replies(&self, times: usize) {
        self.state().drops = times;
    }

    /// Let every request wait.
    pub fn set_latency(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// Answer bulk deletes so, after the work.
    pub fn set_bulk_body(&self, body: Option<BulkBody>) {
        self.state().bulk_body = body;
    }

    /// No more faults.
    pub fn clear(&self) {
        let mut state = self.state();
        let requests = state.requests;
        let bulk_in_flight = state.bulk_in_flight;
        let asked = std::mem::take(&mut state.asked);
        *state = State {
            requests,
            asked,
            bulk_in_flight,
            ..State::default()
        };
    }

    /// What was asked so far.
    pub fn requests(&self) -> Requests {
        self.state().requests
    }

    /// How often the delete of each key was asked for, in any kind of request
    /// that reached the objects.
    pub fn asked(&self) -> HashMap<String, usize> {
        self.state().asked.clone()
    }

    /// Bulk deletes that are in work.
    pub fn bulk_in_flight(&self) -> usize {
        self.state().bulk_in_flight
    }

    pub(super) fn note_asked<'a>(&self, keys: impl Iterator<Item = &'a String>) {
        let mut state = self.state();
        for key in keys {
            *state.asked.entry(key.clone()).or_default() += 1;
        }
    }

    pub(super) fn is_denied(&self, key: &str) -> bool {
        self.state().denied.contains(key)
    }

    pub(super) fn is_poison(&self, key: &str) -> bool {
        self.state().poison.contains(key)
    }

    fn seen(&self, kind: Kind) -> (Duration, Option<Refusal>) {
        let in_flight = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        let mut state = self.state();
        if kind == Kind::Bulk {
            state.bulk_in_flight += 1;
        }
        let requests = &mut state.requests;
        requests.most_in_flight = requests.most_in_flight.max(in_flight);
        match kind {
            Kind::Bulk => requests.bulk += 1,
            Kind::Single => requests.single += 1,
            Kind::Get => requests.get += 1,
            Kind::Head => requests.head += 1,
            Kind::List => requests.list += 1,
            Kind::Any => requests.other += 1,
        }
        let refusal = state
            .refusals
            .iter_mut()
            .find(|(of, _, times)| (*of == Kind::Any || *of == kind) && *times > 0)
            .map(|(_, refusal, times)| {
                *times -= 1;
                refusal.clone()
            });
        if refusal.is_some() {
            state.requests.faulted += 1;
        }
        (state.latency, refusal)
    }

    fn after_delete(&self, kind: Kind) -> After {
        let mut state = self.state();
        if state.drops > 0 {
            state.drops -= 1;
            state.requests.faulted += 1;
            return After::Cut;
        }
        match (&state.bulk_body, kind) {
            (Some(body), Kind::Bulk) => {
                let body = body.clone();
                state.requests.faulted += 1;
                After::Body(body)
            }
            _ => After::Truth,
        }
    }
}

enum After {
    Truth,
    Cut,
    Body(BulkBody),
}

/// The connection is cut.
#[derive(Debug)]
pub(super) struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cut on request")
    }
}

impl std::error::Error for Cut {}

struct InFlight<'a>(&'a Faults, Kind);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
        if self.1 == Kind::Bulk {
            self.0.state().bulk_in_flight -= 1;
        }
    }
}

pub(super) async fn answer(
    service: S3Service,
    faults: Arc<Faults>,
    clock: SharedClock,
    request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    let kind = kind(&request);
    let (latency, refusal) = faults.seen(kind);
    let _in_flight = InFlight(&faults, kind);
    if !latency.is_zero() {
        clock.sleep(latency).await;
    }
    if let Some(refusal) = refusal {
        return Ok(refused(&refusal));
    }
    let response = service
        .call(request.map(Body::from))
        .await
        .map_err(|_| Cut)?;
    if !matches!(kind, Kind::Bulk | Kind::Single) {
        return Ok(response);
    }
    match faults.after_delete(kind) {
        After::Cut => Err(Cut),
        After::Truth => Ok(response),
        After::Body(BulkBody::Text(text)) => Ok(Response::new(Body::from(text))),
        After::Body(BulkBody::Quiet) => {
            let empty = "<DeleteResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"/>";
            Ok(Response::new(Body::from(empty.to_owned())))
        }
    }
}

fn kind(request: &Request<Incoming>) -> Kind {
    let query = request.uri().query().unwrap_or("");
    match *request.method() {
        Method::POST
            if query
                .split('&')
                .any(|pair| pair.trim_end_matches('=') == "delete") =>
        {
            Kind::Bulk
        }
        Method::DELETE => Kind::Single,
        Method::HEAD => Kind::Head,
        Method::GET if query.contains("list-type=") => Kind::List,
        Method::GET => Kind::Get,
        _ => Kind::Any,
    }
}

fn refused(refusal: &Refusal) -> Response<Body> {
    let body = match refusal.code {
        "" => Body::empty(),
        code => Body::from(format!(
            "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as requested</Message></Error>"
        )),
    };
    let mut response = Response::new(body);
    *response.status_mut() = hyper::StatusCode::from_u16(refusal.status)
        .unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    response
}
