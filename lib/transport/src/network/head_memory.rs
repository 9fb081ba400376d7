//! Memory of a request's head while it arrives by HTTP/1.1: its bytes are charged to the memory of requests,
//! like those of a body.
//!
//! ```text
//!  TLS ─► Counted ─► HTTP: no request is worked on ─► a share of the room, from BASE on
//!                          a request begins ────────► the share is given back; the request has its own
//! ```
//!
//! Thousands of connections that begin a head and do not complete it would otherwise hold thirty times the
//! memory that requests may have, for as long as an idle connection may stay. By HTTP/2 an incomplete head
//! holds one frame.

use super::Peer;
use super::body::Shared;
use super::connections::Admitted;
use super::memory_budget::{BASE, Phase};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Heads of one connection.
pub(super) struct Heads {
    shared: Arc<Shared>,
    admitted: Admitted,
    peer: Peer,
    coming: Mutex<Coming>,
}

#[derive(Debug, Default)]
struct Coming {
    /// Bytes since the last request, while no request is being worked on.
    bytes: usize,
    share: Option<u64>,
    /// Requests being worked on; a connection that has left HTTP counts as one.
    requests: usize,
}

impl Heads {
    pub(super) fn new(shared: Arc<Shared>, admitted: Admitted, peer: Peer) -> Arc<Heads> {
        Arc::new(Heads { shared, admitted, peer, coming: Mutex::default() })
    }

    /// Begins a request: its head is complete.
    pub(super) fn begins(&self) {
        let mut coming = self.coming();
        coming.requests += 1;
        coming.bytes = 0;
        if let Some(share) = coming.share.take() {
            self.shared.room().end(share);
        }
    }

    pub(super) fn ends(&self) {
        let mut coming = self.coming();
        coming.requests = coming.requests.saturating_sub(1);
    }

    /// Charges bytes that have arrived. Without memory for them, the connection is closed.
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
            let (fits, cut) = room.set_bytes(share, coming.bytes, now);
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

/// A connection that counts the bytes it reads.
pub(super) struct CountingStream<S> {
    inner: S,
    heads: Arc<Heads>,
}

impl<S> CountingStream<S> {
    pub(super) fn new(inner: S, heads: Arc<Heads>) -> CountingStream<S> {
        CountingStream { inner, heads }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountingStream<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for CountingStream<S> {
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
