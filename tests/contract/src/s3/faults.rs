//! What goes wrong at the wire, and what was asked there.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use s3s::Body;
use s3s::service::S3Service;
use tokio::sync::Notify;

use super::half::half;
use super::quota::Quota;
use crate::logs::{BOUND, clock};

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
    /// Those that are in work.
    pub in_flight: usize,
    /// The most that were in work at the same time.
    pub most_in_flight: usize,
    /// Those whose client went away before they were answered.
    pub abandoned: usize,
    /// Deletes of many objects that came with a `Content-MD5`.
    pub with_md5: usize,
    /// Deletes that the quota refused.
    pub over_quota: usize,
    /// Keys whose delete the quota granted.
    pub granted: usize,
    /// Requests that a fault at the wire answered or cut.
    pub faulted: usize,
}

/// Faults of a server, changed while it runs.
#[derive(Debug, Default)]
pub struct Faults {
    state: Mutex<State>,
    /// Something about the requests has changed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Keys with the code of the error that their delete gets.
    denied: HashMap<String, &'static str>,
    poison: HashSet<String>,
    longest_bulk: Option<usize>,
    refusals: Vec<(Kind, Refusal, usize)>,
    drops: usize,
    halves: usize,
    held: bool,
    latency: Duration,
    bulk_body: Option<BulkBody>,
    quota: Option<Quota>,
    versioning: Option<&'static str>,
    object_lock: bool,
    setting_body: Option<&'static str>,
    requests: Requests,
    asked: HashMap<String, usize>,
    bulk_sizes: Vec<usize>,
    bulk_in_flight: usize,
    arrivals: Vec<usize>,
}

impl Faults {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These keys may not be deleted: an error of their own.
    pub fn deny(&self, keys: impl IntoIterator<Item = String>) {
        self.fail(keys, "AccessDenied");
    }

    /// The delete of each of these keys gets an error of this code.
    pub fn fail(&self, keys: impl IntoIterator<Item = String>, code: &'static str) {
        let keys = keys.into_iter().map(|key| (key, code));
        self.state().denied.extend(keys);
    }

    /// A bulk delete that names one of these keys is refused as a whole.
    pub fn poison(&self, keys: impl IntoIterator<Item = String>) {
        let mut state = self.state();
        for key in keys {
            state.denied.insert(key.clone(), "AccessDenied");
            state.poison.insert(key);
        }
    }

    /// A bulk delete of more keys is malformed.
    pub fn set_longest_bulk(&self, keys: usize) {
        self.state().longest_bulk = Some(keys);
    }

    /// Grant the deletes of so many keys a second, as many saved up at most.
    pub fn set_quota(&self, keys_per_second: f64, now: BootInstant) {
        self.state().quota = Some(Quota::new(keys_per_second, now));
    }

    /// What the bucket answers when asked for its versioning.
    pub fn set_versioning(&self, status: &'static str) {
        self.state().versioning = Some(status);
    }

    /// The bucket has an object lock.
    pub fn set_object_lock(&self) {
        self.state().object_lock = true;
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

    /// Answer every question for a setting of the bucket so.
    pub fn set_setting_body(&self, body: &'static str) {
        self.state().setting_body = Some(body);
    }

    /// Do the work of the next `times` deletes, then send half of the answer
    /// and cut the connection.
    pub fn halve_replies(&self, times: usize) {
        self.state().halves = times;
    }

    /// Let every request wait.
    pub fn set_latency(&self, latency: Duration) {
        self.state().latency = latency;
    }

    /// Answer bulk deletes so, after the work.
    pub fn set_bulk_body(&self, body: Option<BulkBody>) {
        self.state().bulk_body = body;
    }

    /// Deletes wait at the wire until they are let go.
    pub fn hold_deletes(&self) {
        self.state().held = true;
    }

    /// Deletes that were held go on, and no more are.
    pub fn let_deletes_go(&self) {
        self.state().held = false;
        self.changed.notify_waiters();
    }

    /// No more faults.
    pub fn clear(&self) {
        let mut state = self.state();
        let requests = state.requests;
        let asked = std::mem::take(&mut state.asked);
        let bulk_sizes = std::mem::take(&mut state.bulk_sizes);
        let bulk_in_flight = state.bulk_in_flight;
        let arrivals = std::mem::take(&mut state.arrivals);
        *state = State {
            requests,
            bulk_in_flight,
            arrivals,
            asked,
            bulk_sizes,
            ..State::default()
        };
        drop(state);
        self.changed.notify_waiters();
    }

    /// Wait until what was asked is as wanted.
    ///
    /// # Panics
    /// If it is not within [`BOUND`], by the system's clock.
    pub async fn until(&self, wanted: impl Fn(&Requests) -> bool) {
        let waited = self.changed_until(|| wanted(&self.requests()));
        let waited = clock().timeout(BOUND, waited).await;
        assert!(waited.is_ok(), "it stays at {:?}", self.requests());
    }

    async fn while_held(&self) {
        self.changed_until(|| !self.state().held).await;
    }

    async fn changed_until(&self, done: impl Fn() -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if done() {
                return;
            }
            changed.await;
        }
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

    /// How many requests were in work when each delete arrived, itself included.
    pub fn arrivals(&self) -> Vec<usize> {
        self.state().arrivals.clone()
    }

    /// How many keys each bulk delete named that reached the objects.
    pub fn bulk_sizes(&self) -> Vec<usize> {
        self.state().bulk_sizes.clone()
    }

    pub(super) fn note_bulk(&self, keys: usize) {
        self.state().bulk_sizes.push(keys);
    }

    pub(super) fn note_asked<'a>(&self, keys: impl Iterator<Item = &'a String>) {
        let mut state = self.state();
        for key in keys {
            *state.asked.entry(key.clone()).or_default() += 1;
        }
    }

    pub(super) fn is_too_long(&self, keys: usize) -> bool {
        self.state().longest_bulk.is_some_and(|most| keys > most)
    }

    /// Whether the quota grants the delete of so many keys.
    pub(super) fn grants(&self, keys: usize, now: BootInstant) -> bool {
        let mut state = self.state();
        let granted = state
            .quota
            .as_mut()
            .is_none_or(|quota| quota.grants(keys, now));
        if granted {
            state.requests.granted += keys;
        } else {
            state.requests.over_quota += 1;
        }
        granted
    }

    pub(super) fn versioning(&self) -> Option<&'static str> {
        self.state().versioning
    }

    pub(super) fn object_lock(&self) -> bool {
        self.state().object_lock
    }

    /// The code of the error that the delete of this key gets.
    pub(super) fn denied(&self, key: &str) -> Option<&'static str> {
        self.state().denied.get(key).copied()
    }

    pub(super) fn is_poison(&self, key: &str) -> bool {
        self.state().poison.contains(key)
    }

    fn seen(&self, kind: Kind, md5: bool) -> (Duration, Option<Refusal>) {
        let mut state = self.state();
        state.bulk_in_flight += usize::from(kind == Kind::Bulk);
        if matches!(kind, Kind::Bulk | Kind::Single) {
            let at_once = state.requests.in_flight + 1;
            state.arrivals.push(at_once);
        }
        let requests = &mut state.requests;
        requests.in_flight += 1;
        requests.most_in_flight = requests.most_in_flight.max(requests.in_flight);
        match kind {
            Kind::Bulk => requests.bulk += 1,
            Kind::Single => requests.single += 1,
            Kind::Get => requests.get += 1,
            Kind::Head => requests.head += 1,
            Kind::List => requests.list += 1,
            Kind::Any => requests.other += 1,
        }
        requests.with_md5 += usize::from(kind == Kind::Bulk && md5);
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
        self.changed.notify_waiters();
        (state.latency, refusal)
    }

    fn after_delete(&self, kind: Kind) -> After {
        let mut state = self.state();
        if state.drops > 0 {
            state.drops -= 1;
            state.requests.faulted += 1;
            return After::Cut;
        }
        if state.halves > 0 {
            state.halves -= 1;
            state.requests.faulted += 1;
            return After::Half;
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
    Half,
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

/// A request in work; it was abandoned if it was not answered when this goes.
struct InFlight<'a> {
    faults: &'a Faults,
    kind: Kind,
    answered: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut state = self.faults.state();
        state.bulk_in_flight -= usize::from(self.kind == Kind::Bulk);
        state.requests.in_flight -= 1;
        state.requests.abandoned += usize::from(!self.answered);
        self.faults.changed.notify_waiters();
    }
}

pub(super) async fn answer(
    service: S3Service,
    faults: Arc<Faults>,
    clock: SharedClock,
    request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    let kind = kind(&request);
    let (latency, refusal) = faults.seen(kind, request.headers().contains_key("content-md5"));
    let mut in_flight = InFlight {
        faults: &faults,
        kind,
        answered: false,
    };
    if !latency.is_zero() {
        clock.sleep(latency).await;
    }
    if matches!(kind, Kind::Bulk | Kind::Single) {
        faults.while_held().await;
    }
    let setting = faults.state().setting_body.filter(|_| kind == Kind::Any);
    let answer = match (refusal, setting) {
        (Some(refusal), _) => Ok(refused(&refusal)),
        (None, Some(body)) => Ok(Response::new(Body::from(body.to_owned()))),
        (None, None) => serve(service, &faults, kind, request).await,
    };
    in_flight.answered = true;
    answer
}

async fn serve(
    service: S3Service,
    faults: &Faults,
    kind: Kind,
    request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    let response = service
        .call(request.map(Body::from))
        .await
        .map_err(|_| Cut)?;
    if !matches!(kind, Kind::Bulk | Kind::Single) {
        return Ok(response);
    }
    match faults.after_delete(kind) {
        After::Cut => Err(Cut),
        After::Half => half(response).await.map_err(|_| Cut),
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
        // A setting of the bucket.
        Method::GET
            if request.uri().path().matches('/').count() < 3 && query.contains("X-Amz-") =>
        {
            Kind::Any
        }
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
