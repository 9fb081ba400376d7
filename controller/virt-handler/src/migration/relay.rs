//! Stream of a migration: bytes in both directions between a pod's socket and the other node.
//!
//! The end of one direction is passed on, and the other one goes on. A connection that breaks off ends both: over
//! TLS an end is signed, so that a cut cannot pass for one.

use super::peer_silence;
use super::ports::Channel;
use super::session::{Session, StreamBytes};
use crate::error::{Error, Result};
use std::io;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf, copy_bidirectional_with_sizes,
};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

/// Size of one read. Larger ones are not faster.
const BUFFER: usize = 64 << 10;
/// Longest sentence of a target that refuses a stream.
const LONGEST: u16 = 1024;

/// Passes on bytes until both directions have ended.
pub(super) async fn relay(
    channel: Channel,
    pod: UnixStream,
    mut node: TlsStream<TcpStream>,
    session: &Session,
    silence: Duration,
) -> Result<()> {
    let own = StreamBytes::default();
    let after = || {
        let (sent, received) = (own.sent(), own.received());
        format!("the stream of {} after {sent} bytes sent and {received} bytes received", channel.content())
    };
    let cut = |e: io::Error| {
        let broke = format!("the connection to the other node broke off: {}", after());
        match e.kind() {
            // Without the end of TLS. The library's text is about its use.
            io::ErrorKind::UnexpectedEof => Error::failed(format!("{broke}: that node has closed it")),
            _ => Error::io(broke, e),
        }
    };
    let tcp = node.get_ref().0.as_fd().try_clone_to_owned().map_err(cut)?;
    let mut pod = CountedPodStream { stream: pod, own: &own, all: session.bytes() };
    tokio::select! {
        done = copy_bidirectional_with_sizes(&mut pod, &mut node, BUFFER, BUFFER) => done.map(drop).map_err(cut),
        () = peer_silence::lost(&tcp, silence) => {
            let seconds = silence.as_secs().saturating_mul(2);
            Err(Error::failed(format!(
                "the other node does not answer: no packet of it for {seconds} s, {}", after()
            )))
        }
    }
}

/// Tells the source that its stream is connected to the pod, or why not.
pub(super) async fn answer(node: &mut TlsStream<TcpStream>, refusal: Option<&str>) -> io::Result<()> {
    let text = refusal.unwrap_or_default().as_bytes();
    let text = text.get(..LONGEST.into()).unwrap_or(text);
    node.write_u16(u16::try_from(text.len()).unwrap_or(LONGEST)).await?;
    node.write_all(text).await?;
    node.flush().await
}

/// Reads the target's answer: `None` if the stream is connected.
pub(super) async fn read_answer(node: &mut TlsStream<TcpStream>) -> io::Result<Option<String>> {
    let length = node.read_u16().await?;
    if length == 0 {
        return Ok(None);
    }
    if length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer to a stream is too long"));
    }
    let mut text = vec![0; length.into()];
    node.read_exact(&mut text).await?;
    Ok(Some(String::from_utf8_lossy(&text).replace(char::is_control, " ")))
}

/// The pod's end of a stream, whose bytes are counted.
struct CountedPodStream<'a> {
    stream: UnixStream,
    /// Bytes of this stream.
    own: &'a StreamBytes,
    /// Bytes of all streams of the migration.
    all: &'a StreamBytes,
}

impl CountedPodStream<'_> {
    fn add(&self, counter: fn(&StreamBytes) -> &AtomicU64, bytes: usize) {
        for counted in [self.own, self.all] {
            counter(counted).fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

impl AsyncRead for CountedPodStream<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.add(|bytes| &bytes.sent, buffer.filled().len().saturating_sub(before));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CountedPodStream<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.add(|bytes| &bytes.received, written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
