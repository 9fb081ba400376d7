//! Responses of a handler: with a media type, and the one by which a connection leaves HTTP.

use http::header::{CONNECTION, CONTENT_TYPE, UPGRADE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::{Upgraded, on};
use hyper_util::rt::TokioIo;

/// A response with this status, media type and body.
pub fn response<B>(status: StatusCode, media_type: &'static str, body: impl Into<B>) -> Response<B> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// True if a request with these headers asks for this protocol in place of HTTP.
pub fn wants_upgrade(headers: &HeaderMap, protocol: &str) -> bool {
    let wanted = headers.get(UPGRADE).and_then(|value| value.to_str().ok());
    wanted.is_some_and(|wanted| wanted.eq_ignore_ascii_case(protocol))
}

/// Response of 101: the connection leaves HTTP for this protocol.
pub fn upgrade_response<B: Default>(protocol: &'static str) -> Response<B> {
    let mut response = Response::new(B::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(protocol));
    response
}

/// Leaves HTTP for this protocol, and serves the remaining stream in a task of its own.
pub fn upgrade<B: Default, F: Future<Output = ()> + Send + 'static>(
    mut request: Request<Incoming>,
    protocol: &'static str,
    serve: impl FnOnce(TokioIo<Upgraded>) -> F + Send + 'static,
) -> Response<B> {
    let upgrade = on(&mut request);
    tokio::spawn(async move {
        match upgrade.await {
            Ok(stream) => serve(TokioIo::new(stream)).await,
            Err(e) => tracing::debug!("a stream did not begin: {e}"),
        }
    });
    upgrade_response(protocol)
}
