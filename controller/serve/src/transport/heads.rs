//! The head of a request while it comes, by HTTP/1.1: the bytes of it that a connection has sent are charged to the
//! memory of all requests, as those of a body are.
//!
//! ```text
//!  TLS ─► Counted ─► HTTP: no request is worked on ─► a share of the room, from BASE on
//!                          a request begins ────────► the share is given back; the request has its own
//! ```
//!
//! Thousands of connections that begin a head and do not end it would otherwise hold thirty times the memory that there is
//! for requests, and for as long as an idle connection may stay. By HTTP/2 a head that has not ended holds a frame.

use super::Peer;
use super::body::Shared;
use super::connections::Admitted;
use super::room::{BASE, Phase};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The heads of one connection.
pub(super) struct Heads {
    shared: Arc<Shared>,
    admitted: Admitted,
    peer: Peer,
    coming: Mutex<Coming>,
}

#[derive(Debug, Default)]
struct Coming {
    /// Bytes since the last request, while none is worked on.
    bytes: usize,
    share: Option<u64>,
    /// Requests that are worked on; a connection that has left HTTP counts as one.
    requests: usize,
}

impl Heads {
    pub(super) fn new(shared: Arc<Shared>, admitted: Admitted, peer: Peer) -> Arc<Heads> {
        Arc::new(Heads { shared, admitted, peer, coming: Mutex::default() })
    }

    /// A request begins: its head has ended.
    pub(super) fn begins(&self) {
        let mut coming = self.coming();
        coming.requests += 1;
        coming.bytes = 0;
        if let Some(share) = coming.share.take() {
            self.shared.room().end(share);
        }
    }

    /// A request has ended.
    pub(super) fn ends(&self) {
        let mut coming = self.coming();
        coming.requests = coming.requests.saturating_sub(1);
    }

    /// So many bytes have come. Where there is no room for them, the connection is closed.
    fn came(&self, size: usize) {
        let mut coming = self.coming();
        if coming.requests > 0 {
            return;
        }
        coming.bytes = coming.bytes.saturating_add(size);
        if coming.bytes <= BASE {
            return;
        }
        let (now, mut room) = (Instant::now(), self.shared.room());
        if coming.share.is_none() {
            let (share, cut) = room.begin(self.peer, BASE, Arc::clone(&self.admitted.leave), now);
            self.shared.counters.cut(cut);
            coming.share = share;
        }
        let fits = coming.share.is_some_and(|share| {
            room.enters(share, Phase::Arriving);
            let (fits, cut) = room.takes(share, coming.bytes, now);
            self.shared.counters.cut(cut);
            fits
        });
        if !fits {
            self.admitted.leave.notify_one();
        }
    }

    fn coming(&self) -> MutexGuard<'_, Coming> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Heads {
    fn drop(&mut self) {
        if let Some(share) = self.coming().share.take() {
            self.shared.room().end(share);
        }
    }
}

/// A connection whose bytes are counted as they come.
pub(super) struct Counted<S> {
    inner: S,
    heads: Arc<Heads>,
}

impl<S> Counted<S> {
    pub(super) fn new(inner: S, heads: Arc<Heads>) -> Counted<S> {
        Counted { inner, heads }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        self.heads.came(buffer.filled().len().saturating_sub(before));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
