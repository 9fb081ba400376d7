//! The server: connections in, each request with its body to the routes, and an end that loses nothing.
//!
//! ```text
//!  accept (at most 512 at once) ─► TLS ─► HTTP/1.1 or HTTP/2 ─► body (at most 8 MiB, 32 MiB in all) ─► routes
//!        └── end: goes on for a while (others still send us work), then says good-bye on each connection
//! ```
//!
//! Whoever keeps us waiting, for a handshake, a head or a body, is cut off.

use super::routes::Routes;
use crate::error::{Error, Result};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// Where it answers, unless it is told another port.
pub const PORT: u16 = 8443;
/// Connections at once.
const CONNECTIONS: usize = 512;
/// Requests at once on one connection.
const STREAMS: u32 = 250;
/// The largest body: an object may have 3 MiB, and a change comes with the object as it was.
const BODY: usize = 8 << 20;
/// Bodies at once, in KiB.
const BODIES: u32 = 32 << 10;
/// How long a handshake, a head and a body may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
const HEAD: Duration = Duration::from_secs(10);
const READ: Duration = Duration::from_secs(10);
/// How long work is taken on after the end was asked for: until the last one knows that we go.
const LINGER: Duration = Duration::from_secs(5);
/// How long a connection may take to end.
const GOODBYE: Duration = Duration::from_secs(10);

/// A body with its answer.
pub(super) type Answer = Response<Full<Bytes>>;

/// What all connections share.
struct Shared {
    routes: Arc<Routes>,
    acceptor: TlsAcceptor,
    bodies: Semaphore,
}

/// Listens on an address.
pub async fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|e| Error::setup(format!("cannot listen on {address}"), e))
}

/// Answers until `ends` says so, and a little longer.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    routes: Arc<Routes>,
    ends: watch::Receiver<bool>,
) {
    let shared = Arc::new(Shared {
        routes,
        acceptor: TlsAcceptor::from(tls),
        bodies: Semaphore::new(BODIES as usize),
    });
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let (leave, left) = watch::channel(false);
    let mut asked = ends.clone();
    let end = async {
        // An error means that nobody is left who could ask: that is the end too.
        let _ = asked.wait_for(|ends| *ends).await;
        tokio::time::sleep(LINGER).await;
    };
    let accept = async {
        loop {
            let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (shared, left) = (Arc::clone(&shared), left.clone());
                    tokio::spawn(async move {
                        connection(stream, shared, left).await;
                        drop(place);
                    });
                }
                // Out of file descriptors, most likely: others end meanwhile.
                Err(error) => {
                    tracing::warn!("a connection cannot be taken: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    };
    tokio::select! {
        () = end => {}
        () = accept => {}
    }
    drop(listener);
    let _ = leave.send(true);
    // All places are free again when the last connection has ended.
    let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(GOODBYE, room.acquire_many(all)).await;
}

async fn connection(stream: TcpStream, shared: Arc<Shared>, mut left: watch::Receiver<bool>) {
    // An answer is small and must not wait for another.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, shared.acceptor.accept(stream)).await else {
        return;
    };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(answer(request, &shared).await) }
    });
    let io = TokioIo::new(stream);
    // What a client breaks off is no concern of ours.
    if is_http2 {
        let mut server = http2::Builder::new(TokioExecutor::new());
        server.timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
        server.keep_alive_interval(Duration::from_secs(30)).keep_alive_timeout(Duration::from_secs(10));
        let mut connection = std::pin::pin!(server.serve_connection(io, service));
        tokio::select! {
            _ = connection.as_mut() => {}
            _ = left.changed() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    } else {
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD);
        let mut connection = std::pin::pin!(server.serve_connection(io, service));
        tokio::select! {
            _ = connection.as_mut() => {}
            _ = left.changed() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }
}

async fn answer(request: Request<Incoming>, shared: &Shared) -> Answer {
    let (head, body) = request.into_parts();
    // Who does not say how much comes is taken to send as much as is allowed.
    let size = body.size_hint().upper().and_then(|size| usize::try_from(size).ok()).unwrap_or(BODY);
    if size > BODY {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "a body has at most 8 MiB");
    }
    let Ok(_room) = shared.bodies.try_acquire_many(u32::try_from(size / 1024 + 1).unwrap_or(BODIES)) else {
        let mut busy = plain(StatusCode::SERVICE_UNAVAILABLE, "too much is being asked at once");
        busy.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        return busy;
    };
    let body = match tokio::time::timeout(READ, Limited::new(body, BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => return plain(StatusCode::BAD_REQUEST, "the body broke off, or has more than 8 MiB"),
        Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the body did not come within 10 s"),
    };
    shared.routes.answer(&head, &body).await
}

/// A sentence.
pub(super) fn plain(status: StatusCode, text: &str) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
