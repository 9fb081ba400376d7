//! Connection for one request to a launcher.

use crate::duplex::Duplex;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Error, Request, Response};
use std::io;
use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use transport::client;

pub(crate) type Connection = client::Connection<Full<Bytes>>;

/// Size limit of a response header, and of one piece of a body.
const HEAD: usize = 32 << 10;

/// Sends a request, and receives the header of the response.
pub(crate) async fn ask(
    stream: Duplex,
    request: Request<Full<Bytes>>,
) -> Result<(Response<Incoming>, Connection), Error> {
    let socket = Socket { stream, has_asked: false, reader: None };
    let mut connection = Connection::begin(socket, HEAD).await?;
    Ok((connection.send(request).await?, connection))
}

/// A socket that reports the answer even if the request could not be sent completely.
///
/// A launcher that refuses a request may not read all of it: the unsent rest is dropped, and the answer is
/// read all the same. The launcher may even answer before the request is sent; that answer is read
/// afterwards. A launcher that ends during a request resets the connection, which is treated as a normal end.
pub(crate) struct Socket {
    pub(crate) stream: Duplex,
    has_asked: bool,
    reader: Option<Waker>,
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.has_asked {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer).map(|read| match read {
            Err(e) if e.kind() == ConnectionReset => Ok(()),
            read => read,
        })
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes).map(|written| match written {
            Err(e) if [BrokenPipe, ConnectionReset].contains(&e.kind()) => Ok(bytes.len()),
            written => written,
        });
        if written.is_ready() && !self.has_asked {
            self.has_asked = true;
            self.reader.take().into_iter().for_each(Waker::wake);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
