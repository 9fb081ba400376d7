//! Stream below HTTP: a unix socket, or another connection to a launcher, such as TLS to the virt-handler of
//! its node.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

/// Stream of bytes in both directions. Made by `socket.into()` from a unix socket, and by
/// `Box::new(stream).into()` from any other stream.
pub struct Duplex(Transport);

enum Transport {
    Socket(UnixStream),
    Other(Box<dyn BothWays>),
}

/// Any stream of bytes in both directions.
trait BothWays: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> BothWays for T {}

impl Duplex {
    /// The unix socket, if the stream is one.
    pub(crate) fn into_socket(self) -> Option<UnixStream> {
        match self.0 {
            Transport::Socket(socket) => Some(socket),
            Transport::Other(_) => None,
        }
    }
}

impl From<UnixStream> for Duplex {
    fn from(socket: UnixStream) -> Duplex {
        Duplex(Transport::Socket(socket))
    }
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> From<Box<T>> for Duplex {
    fn from(stream: Box<T>) -> Duplex {
        Duplex(Transport::Other(stream))
    }
}

impl fmt::Debug for Duplex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Transport::Socket(socket) => fmt::Debug::fmt(socket, f),
            Transport::Other(_) => f.write_str("a connection to a launcher"),
        }
    }
}

impl AsyncRead for Duplex {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Transport::Socket(socket) => Pin::new(socket).poll_read(context, buffer),
            Transport::Other(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Duplex {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Transport::Socket(socket) => Pin::new(socket).poll_write(context, bytes),
            Transport::Other(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Transport::Socket(socket) => Pin::new(socket).poll_flush(context),
            Transport::Other(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Transport::Socket(socket) => Pin::new(socket).poll_shutdown(context),
            Transport::Other(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
