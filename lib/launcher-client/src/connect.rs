//! Non-blocking connections to a launcher.
//!
//! `connect` on a unix socket blocks while the socket's queue is full, for ever if its listener never
//! accepts. Any owner of the socket's folder can arrange that, so connections are non-blocking, and a full
//! queue is an error of its own.

use crate::duplex::Duplex;
use futures_util::future::BoxFuture;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::os::unix::net::UnixStream as Blocking;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;

/// Cause of a failed connection.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Method of connecting to a launcher. Some connectors can also tell which process listens.
pub trait Connector<P = ()>: Send + Sync {
    /// Connects. Never blocks, waits for as long as the launcher accepts no connection, and may be dropped.
    fn open(&self) -> BoxFuture<'_, Result<Open<P>, Cause>>;
}

/// An open connection to a launcher.
#[derive(Debug)]
pub struct Open<P = ()> {
    /// Stream of bytes in both directions.
    pub stream: Duplex,
    /// The process that listens, as far as the connector can tell.
    pub peer: P,
}

/// Connector for a socket at a path that only its owner can change. The process that listens is not checked.
#[derive(Clone, Debug)]
pub struct AtPath(pub PathBuf);

impl Connector for AtPath {
    fn open(&self) -> BoxFuture<'_, Result<Open, Cause>> {
        Box::pin(async {
            let mut pauses = Pauses::default();
            loop {
                if let Some(stream) = try_connect(&self.0)? {
                    return Ok(Open { stream: UnixStream::from_std(stream)?.into(), peer: () });
                }
                pauses.next().await;
            }
        })
    }
}

/// Tries to connect once. `None` if the socket's queue is full. Blocks at most for the file system of the
/// path.
pub fn try_connect(path: &Path) -> io::Result<Option<Blocking>> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&fd, &SocketAddrUnix::new(path)?) {
        Ok(()) => Ok(Some(fd.into())),
        Err(Errno::AGAIN) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// True if a process listens on this socket, even if it accepts no more connections now.
pub fn is_listening(path: &Path) -> bool {
    try_connect(path).is_ok()
}

/// Growing pauses between attempts to connect to a socket whose queue is full.
#[derive(Debug)]
pub struct Pauses(Duration);

impl Pauses {
    const LONGEST: Duration = Duration::from_millis(500);

    /// Waits until the next attempt.
    pub async fn next(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(Pauses::LONGEST);
    }
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses(Duration::from_millis(10))
    }
}
