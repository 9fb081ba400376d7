//! Connection for one HTTP request, without a background task: the future that waits for the answer drives
//! the connection.
//!
//! ```text
//!  poll ─► the waiting future ─► the connection: read, write ─► the waiting future again
//! ```

use crate::connect::Cause;
use crate::duplex::Duplex;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Error, Request, Response};
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::io;
use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Size limit of a response header, and of one piece of a body.
const HEAD: usize = 32 << 10;

/// A connection with one request. It is closed when this value is dropped.
pub(crate) struct Connection {
    /// Reads and writes until HTTP has ended. Errors are reported by the answer or its body.
    driver: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Kept since HTTP ends when it is dropped.
    _sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Sends a request, and receives the header of the response.
    pub(crate) async fn ask(
        stream: Duplex,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Connection), Error> {
        let socket = TokioIo::new(Socket { stream, has_asked: false, reader: None });
        let (mut sender, http) = Builder::new().max_buf_size(HEAD).handshake(socket).await?;
        let http = http.with_upgrades();
        let answer = sender.send_request(request);
        let mut connection =
            Connection { driver: Some(Box::pin(async move { drop(http.await) })), _sender: sender };
        let answer = connection.driving(answer).await?;
        Ok((answer, connection))
    }

    /// The next piece of a body. Cancellation-safe.
    pub(crate) async fn piece(&mut self, body: &mut Incoming) -> Option<Result<Bytes, Error>> {
        loop {
            match self.driving(body.frame()).await? {
                Ok(frame) => match frame.into_data() {
                    Ok(data) => return Some(Ok(data)),
                    // Trailers are ignored.
                    Err(_) => continue,
                },
                Err(e) => return Some(Err(e)),
            }
        }
    }

    /// Upgrades the connection: returns the stream below HTTP, and the bytes that were already received.
    pub(crate) async fn leave(mut self, mut answer: Response<Incoming>) -> Result<(Bytes, Duplex), Cause> {
        let upgraded = self.driving(hyper::upgrade::on(&mut answer)).await?;
        let parts = upgraded.downcast::<TokioIo<Socket>>().map_err(|_| "its socket is not found again")?;
        Ok((parts.read_buf, parts.io.into_inner().stream))
    }

    async fn driving<T>(&mut self, wait: impl Future<Output = T>) -> T {
        let mut wait = pin!(wait);
        poll_fn(|context| {
            // The waiting future goes first: it tells the connection what to read.
            if let Poll::Ready(done) = wait.as_mut().poll(context) {
                return Poll::Ready(done);
            }
            if let Some(driver) = &mut self.driver
                && driver.as_mut().poll(context).is_ready()
            {
                self.driver = None;
            }
            wait.as_mut().poll(context)
        })
        .await
    }
}

/// A socket that reports the answer even if the request could not be sent completely.
///
/// A launcher that refuses a request may not read all of it: the unsent rest is dropped, and the answer is
/// read all the same. The launcher may even answer before the request is sent; that answer is read
/// afterwards. A launcher that ends during a request resets the connection, which is treated as a normal end.
struct Socket {
    stream: Duplex,
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
