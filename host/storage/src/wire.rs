//! What an S3 service answered to a request, as it came over the wire.
//!
//! The client library turns answers into errors whose status and code it does
//! not show, fails a whole bulk delete for one key's `SlowDown`, and panics on
//! a key that it did not send. So the answer is read here, below the library,
//! which is shown a bulk answer of our own making instead.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService, ReqwestConnector,
};

use crate::answer::{BulkAnswer, Refusal, line};

/// The longest error answer that is read.
const ERROR_LIMIT: usize = 64 << 10;

/// The longest answer to a bulk delete that is read: 1000 keys with an error
/// each stay far below.
const BULK_LIMIT: usize = 8 << 20;

/// What the library is shown when a bulk delete was answered.
const SHOWN: &[u8] = b"<DeleteResult><Deleted><Key>-</Key></Deleted></DeleteResult>";

tokio::task_local! {
    static RECORD: Arc<Mutex<Record>>;
}

/// The last answer to a request of this task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// The answer; none if the request was never sent.
    pub(crate) answer: Option<Answer>,
    /// The service's clock in milliseconds, if it told it.
    pub(crate) date_ms: Option<i64>,
    /// The service put a marker over the bytes instead of deleting them.
    pub(crate) marked: bool,
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// A success other than of a bulk delete.
    Success,
    /// The answer to a bulk delete.
    Bulk(BulkAnswer),
    /// A success whose body is no answer to a bulk delete.
    Garbled(String),
    /// An error.
    Refused(Refusal),
    /// No answer: not connected, cut off.
    Broken(String),
}

/// Run requests and tell, besides their result, what the wire said last.
pub(crate) async fn recorded<F: Future>(requests: F) -> (F::Output, Record) {
    let record = Arc::new(Mutex::new(Record::default()));
    let output = RECORD.scope(Arc::clone(&record), requests).await;
    let record = record
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    (output, record)
}

fn record(change: impl FnOnce(&mut Record)) {
    // Outside of `recorded` nobody asks.
    let _ = RECORD.try_with(|record| {
        change(&mut record.lock().unwrap_or_else(PoisonError::into_inner));
    });
}

/// Makes the HTTP clients of a store.
#[derive(Debug)]
pub(crate) struct Connector {
    /// The service is on this machine: no proxy, no certificates.
    pub(crate) loopback: bool,
    pub(crate) connect_timeout: Duration,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = if self.loopback {
            let client = reqwest::Client::builder()
                .no_proxy()
                .http1_only()
                .tls_certs_only(std::iter::empty())
                .connect_timeout(self.connect_timeout)
                .build()
                .map_err(|source| object_store::Error::Generic {
                    store: "S3",
                    source: Box::new(source),
                })?;
            HttpClient::new(client)
        } else {
            ReqwestConnector::default().connect(options)?
        };
        Ok(HttpClient::new(Wire { inner }))
    }
}

#[derive(Debug)]
struct Wire {
    inner: HttpClient,
}

#[async_trait]
impl HttpService for Wire {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let bulk = request.method().as_str() == "POST" && request.uri().query() == Some("delete");
        record(|record| record.answer = Some(Answer::Broken("no answer".into())));
        let response = match self.inner.execute(request).await {
            Ok(response) => response,
            Err(error) => return Err(broken(error)),
        };
        let status = response.status();
        let (parts, body) = response.into_parts();
        let header = |name: &str| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let date_ms = header("date").and_then(milliseconds);
        let marked = header("x-amz-delete-marker") == Some("true");
        record(|record| {
            record.date_ms = date_ms;
            record.marked |= marked;
        });
        if status.is_success() && !bulk {
            record(|record| record.answer = Some(Answer::Success));
            return Ok(HttpResponse::from_parts(parts, body));
        }
        let limit = if bulk { BULK_LIMIT } else { ERROR_LIMIT };
        let body = match bounded(body, limit).await {
            Ok(body) => body,
            Err(error) => return Err(broken(error)),
        };
        if !status.is_success() {
            let refusal = Refusal::read(status.as_u16(), &body);
            record(|record| record.answer = Some(Answer::Refused(refusal)));
            return Ok(HttpResponse::from_parts(parts, body.into()));
        }
        match BulkAnswer::read(&body) {
            Ok(answer) => record(|record| {
                record.marked |= answer.marked;
                record.answer = Some(Answer::Bulk(answer));
            }),
            Err(reason) => record(|record| record.answer = Some(Answer::Garbled(reason))),
        }
        Ok(HttpResponse::from_parts(
            parts,
            Bytes::from_static(SHOWN).into(),
        ))
    }
}

fn broken(error: HttpError) -> HttpError {
    let text = line(&chain(&error));
    record(|record| record.answer = Some(Answer::Broken(text)));
    error
}

/// The error and what caused it; the first is the least telling.
fn chain(error: &dyn std::error::Error) -> String {
    let mut parts = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if parts.last() != Some(&text) {
            parts.push(text);
        }
        next = error.source();
    }
    parts.join(": ")
}

/// The body, as far as the limit.
pub(crate) async fn bounded(body: HttpResponseBody, limit: usize) -> Result<Bytes, HttpError> {
    let mut stream = body.bytes_stream();
    let mut read = BytesMut::new();
    while let Some(part) = stream.next().await {
        let part = part?;
        if read.len() + part.len() > limit {
            return Err(HttpError::new(HttpErrorKind::Decode, TooLong(limit)));
        }
        read.extend_from_slice(&part);
    }
    Ok(read.freeze())
}

#[derive(Debug, thiserror::Error)]
#[error("the answer is longer than {0} bytes")]
struct TooLong(usize);

fn milliseconds(date: &str) -> Option<i64> {
    let since = httpdate::parse_http_date(date)
        .ok()?
        .duration_since(std::time::UNIX_EPOCH)
        .ok()?;
    i64::try_from(since.as_millis()).ok()
}
