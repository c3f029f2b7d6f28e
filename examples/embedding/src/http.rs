//! The service around it.

use std::convert::Infallible;

use aedile_runtime::{RuntimeHandle, Status};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;

/// Answer requests until the listener fails.
///
/// # Errors
/// The listener's.
pub(crate) async fn serve(
    listener: &TcpListener,
    maintenance: &RuntimeHandle,
) -> anyhow::Result<()> {
    let status = maintenance.watch();
    loop {
        let (stream, _) = listener.accept().await?;
        let status = status.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let answer = answer(&request, &status.borrow());
                async { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
}

fn answer<B>(request: &Request<B>, status: &Status) -> Response<String> {
    let (code, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => (StatusCode::OK, json!({ "service": "an example" })),
        (&Method::GET, "/maintenance") => (StatusCode::OK, json!(status)),
        (&Method::GET, _) => (
            StatusCode::NOT_FOUND,
            json!({ "error": "there is / and /maintenance" }),
        ),
        _ => (
            StatusCode::METHOD_NOT_ALLOWED,
            json!({ "error": "there is only GET" }),
        ),
    };
    let mut response = Response::new(format!("{body}\n"));
    *response.status_mut() = code;
    let json = hyper::header::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, json);
    response
}
