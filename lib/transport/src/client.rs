//! Client for one HTTP request at a time, without a background task: the future that waits for an answer drives
//! the connection. When it is dropped, all parts of its request end.
//!
//! ```text
//!  poll ─► the waiting future ─► the connection: read, write ─► the waiting future again
//! ```

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Error, Request, Response};
use hyper_util::rt::TokioIo;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncWrite};

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A connection to a server. It is closed when this value is dropped.
pub struct Connection<B> {
    /// Reads and writes until HTTP has ended. Errors are reported by the answer or its body.
    driver: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// HTTP ends when it is dropped.
    sender: SendRequest<B>,
}

impl<B> fmt::Debug for Connection<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a connection to a server")
    }
}

impl<B: Body<Data: Send, Error: Into<Cause>> + Send + 'static> Connection<B> {
    /// Begins HTTP on a stream. `buffer` limits the head of an answer, and each piece of its body.
    pub async fn begin<S>(stream: S, buffer: usize) -> Result<Connection<B>, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, http) = Builder::new().max_buf_size(buffer).handshake(TokioIo::new(stream)).await?;
        let http = http.with_upgrades();
        Ok(Connection { driver: Some(Box::pin(async move { drop(http.await) })), sender })
    }

    /// Waits until a connection that had a request takes another one.
    pub async fn ready(&mut self) -> Result<(), Error> {
        driving(&mut self.driver, self.sender.ready()).await
    }

    /// Sends a request, and receives the head of the answer.
    pub async fn send(&mut self, request: Request<B>) -> Result<Response<Incoming>, Error> {
        driving(&mut self.driver, self.sender.send_request(request)).await
    }

    /// The next piece of a body. Cancellation-safe.
    pub async fn piece(&mut self, body: &mut Incoming) -> Option<Result<Bytes, Error>> {
        loop {
            match driving(&mut self.driver, body.frame()).await? {
                Ok(frame) => match frame.into_data() {
                    Ok(data) => return Some(Ok(data)),
                    // Trailers are ignored.
                    Err(_) => continue,
                },
                Err(e) => return Some(Err(e)),
            }
        }
    }

    /// A body of at most `most` bytes. A longer one is an error of the kind `FileTooLarge`.
    pub async fn whole(&mut self, mut body: Incoming, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.piece(&mut body).await {
            let piece = piece.map_err(io::Error::other)?;
            if piece.len() > most.saturating_sub(bytes.len()) {
                let why = format!("it has more than {most} bytes");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    /// Leaves HTTP: returns the bytes that were already received, and the stream below HTTP, of the type that the
    /// connection began with.
    pub async fn leave<S: 'static>(mut self, mut answer: Response<Incoming>) -> Result<(Bytes, S), Cause>
    where
        TokioIo<S>: hyper::rt::Read + hyper::rt::Write + Unpin,
    {
        let upgraded = driving(&mut self.driver, hyper::upgrade::on(&mut answer)).await?;
        let parts = upgraded.downcast::<TokioIo<S>>().map_err(|_| "its socket is not found again")?;
        Ok((parts.read_buf, parts.io.into_inner()))
    }
}

/// Waits, and drives the connection meanwhile.
async fn driving<T>(
    driver: &mut Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    wait: impl Future<Output = T>,
) -> T {
    let mut wait = pin!(wait);
    poll_fn(|context| {
        // The waiting future goes first: it tells the connection what to read.
        if let Poll::Ready(done) = wait.as_mut().poll(context) {
            return Poll::Ready(done);
        }
        if let Some(http) = driver
            && http.as_mut().poll(context).is_ready()
        {
            *driver = None;
        }
        wait.as_mut().poll(context)
    })
    .await
}
