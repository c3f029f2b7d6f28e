//! An answer that ends in its middle.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::StreamExt as _;
use hyper::Response;
use hyper::body::{Body as HttpBody, Bytes, Frame};
use hyper::header::{CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use s3s::Body;

use super::faults::Cut;

/// Half of the bytes, then an error: the server cuts the connection there.
struct Half {
    bytes: Option<Bytes>,
    /// There was nothing to send for a moment, so what is there goes out.
    flushed: bool,
}

impl HttpBody for Half {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        if let Some(bytes) = self.bytes.take() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if !self.flushed {
            self.flushed = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Err(Cut)))
    }
}

/// The same answer, whose body ends in its middle though its length is told.
pub(super) async fn half(response: Response<Body>) -> Result<Response<Body>, s3s::StdError> {
    let (mut parts, mut body) = response.into_parts();
    let mut whole = Vec::new();
    while let Some(part) = body.next().await {
        whole.extend_from_slice(&part?);
    }
    parts.headers.remove(TRANSFER_ENCODING);
    parts
        .headers
        .insert(CONTENT_LENGTH, HeaderValue::from(whole.len()));
    whole.truncate(whole.len() / 2);
    let half = Half {
        bytes: Some(whole.into()),
        flushed: false,
    };
    Ok(Response::from_parts(parts, Body::http_body(half)))
}
