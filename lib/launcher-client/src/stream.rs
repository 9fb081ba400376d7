//! Bytes both ways, once HTTP was left: a console, a screen.
//!
//! Only the bytes that came together with the answer are kept here: a slow reader holds the launcher back, as the socket
//! does, and a launcher that does not read holds its writer back. A shutdown ends the sending side alone.

use crate::duplex::Duplex;
use hyper::body::Bytes;
use std::io;
use std::os::unix::net::UnixStream as Blocking;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes both ways.
#[derive(Debug)]
pub struct Stream {
    /// Bytes that arrived before the first read of the connection.
    first: Bytes,
    rest: Duplex,
}

impl Stream {
    pub(crate) fn new(first: Bytes, rest: Duplex) -> Stream {
        Stream { first, rest }
    }

    /// For a thread of its own: the bytes that arrived already, and a blocking socket. Only a unix socket can block.
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
