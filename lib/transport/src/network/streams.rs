//! Connections that leave HTTP/1.1: bytes both ways after an answer of 101 (a serial console, a screen).
//!
//! ```text
//!  IncomingRequest::upgrade() ─► Upgrade ── the answer: 101 ─► begin() ─► Upgraded: read, written, shut down one way or both
//!        │ too many: 503              │ another: an error          └─ ends(): the program is about to end
//!        └─ not HTTP/1.1, or nothing asked for: 400
//! ```
//!
//! A stream counts as a stream from `upgrade` until it is dropped, and no longer as a connection: no flood of
//! requests closes it, and it may be silent for days. Clients that are gone without closing are found by
//! `keepalive`. Streams are notified of the end of the program after [`Limits::linger`](super::Limits), when
//! no more requests are answered, and the program waits for them as it waits for connections.
//!
//! Only bytes that came together with the request are buffered here: a slow reader slows down the other end.

use super::{HttpResponse, busy, plain};
use http::request::Parts;
use http::{StatusCode, Version, header};
use hyper::upgrade::{self, OnUpgrade};
use hyper_util::rt::TokioIo;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

/// Time limit for the answer of 101 to be sent.
const BEGINS: Duration = Duration::from_secs(10);

/// Access of one request to its connection for an upgrade.
#[derive(Debug)]
pub(super) struct Exit {
    /// The connection, if the request asks for an upgrade and may have one.
    connection: Option<OnUpgrade>,
    /// Free places of streams.
    places: Arc<Semaphore>,
    /// Becomes true when the program ends.
    left: watch::Receiver<bool>,
    /// True once the answer to the request is 101.
    switched: Arc<AtomicBool>,
}

impl Exit {
    /// Access to the connection of the request with this head.
    pub(super) fn of(
        head: &mut Parts,
        places: Arc<Semaphore>,
        left: watch::Receiver<bool>,
        switched: Arc<AtomicBool>,
    ) -> Exit {
        // CONNECT, and extended CONNECT of HTTP/2, could leave HTTP too, but none of our programs is a proxy.
        let asks = head.version == Version::HTTP_11 && head.headers.contains_key(header::UPGRADE);
        let connection = head.extensions.remove::<OnUpgrade>().filter(|_| asks);
        Exit { connection, places, left, switched }
    }

    /// Takes the connection of this request, and a place for it. An error is the answer to a refused upgrade.
    #[allow(clippy::result_large_err, reason = "an answer is as large as an answer, and this is asked once")]
    pub(super) fn upgrade(&mut self) -> Result<Upgrade, HttpResponse> {
        let Some(connection) = self.connection.take() else {
            let said = "this needs an upgrade of the connection (HTTP/1.1)";
            return Err(plain(StatusCode::BAD_REQUEST, said));
        };
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return Err(busy(StatusCode::SERVICE_UNAVAILABLE, "too many streams are open"));
        };
        Ok(Upgrade { connection, place, left: self.left.clone(), switched: Arc::clone(&self.switched) })
    }
}

/// A connection that leaves HTTP once its request is answered with 101.
pub struct Upgrade {
    connection: OnUpgrade,
    place: OwnedSemaphorePermit,
    left: watch::Receiver<bool>,
    switched: Arc<AtomicBool>,
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a connection that leaves HTTP")
    }
}

impl Upgrade {
    /// Waits until the answer of 101 was sent. Call it in a task of its own: the answer is sent after the
    /// handler has returned it.
    pub async fn begin(self) -> io::Result<Upgraded> {
        let Upgrade { connection, place, left, switched } = self;
        let failed = |why: &str| io::Error::other(format!("cannot start a stream: {why}"));
        let bytes = timeout(BEGINS, connection)
            .await
            .map_err(|_| {
                failed(&format!("the answer to its client was not sent within {} s", BEGINS.as_secs()))
            })?
            .map_err(|e| failed(&format!("its client closed the connection: {e}")))?;
        // A connection whose last request had another answer is handed out as well when it ends.
        if !switched.load(Ordering::Relaxed) {
            return Err(failed("the answer to its client was not 101"));
        }
        Ok(Upgraded { bytes: TokioIo::new(bytes), left, _place: place })
    }
}

/// A connection that has left HTTP: bytes both ways.
pub struct Upgraded {
    bytes: TokioIo<upgrade::Upgraded>,
    left: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
}

impl fmt::Debug for Upgraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a connection that has left HTTP")
    }
}

impl Upgraded {
    /// Waits until the program is about to end; the other end can still be told. The future borrows nothing,
    /// so that the stream may be read and written meanwhile.
    pub fn ends(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut left = self.left.clone();
        async move {
            // An error means that the server is gone: the program ends as well.
            let _ = left.wait_for(|left| *left).await;
        }
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_read(context, buffer)
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
