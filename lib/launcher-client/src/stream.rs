//! Stream of bytes in both directions after an HTTP upgrade: a console, a screen.
//!
//! Only the bytes that arrived together with the response header are buffered here: a slow reader holds the
//! launcher back, as the socket does, and a launcher that does not read holds its writer back. A shutdown
//! ends the sending side alone.

use crate::duplex::Duplex;
use hyper::body::Bytes;
use std::io;
use std::os::unix::net::UnixStream as Blocking;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream of bytes in both directions.
#[derive(Debug)]
pub struct Stream {
    /// Bytes that arrived with the response header.
    first: Bytes,
    rest: Duplex,
}

impl Stream {
    pub(crate) fn new(first: Bytes, rest: Duplex) -> Stream {
        Stream { first, rest }
    }

    /// Conversion for a blocking thread: the bytes that arrived already, and a blocking socket. Fails unless
    /// the stream is a unix socket.
    pub fn into_blocking(self) -> io::Result<(Vec<u8>, Blocking)> {
        let none =
            || io::Error::new(io::ErrorKind::Unsupported, "the launcher is not reached by a unix socket");
        let socket = self.rest.into_socket().ok_or_else(none)?.into_std()?;
        socket.set_nonblocking(false)?;
        Ok((self.first.into(), socket))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.rest).poll_read(context, buffer);
        }
        let size = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first.split_to(size));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.rest).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.rest).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.rest).poll_shutdown(context)
    }
}
