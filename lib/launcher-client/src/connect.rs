//! A connection to a launcher, made without waiting.
//!
//! `connect` on a unix socket blocks while the socket's queue is full, for ever if nobody accepts: any owner of the
//! socket's folder can arrange that. Here the kernel is told not to wait, and a full queue is an answer.

use crate::duplex::Duplex;
use futures_util::future::BoxFuture;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::os::unix::net::UnixStream as Blocking;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;

/// The reason of a door that did not open.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The address of a launcher, and the knowledge of which process listens there.
pub trait Door<P = ()>: Send + Sync {
    /// A connection to it. Never blocks; goes on for as long as the launcher takes no connection, and may be dropped.
    fn open(&self) -> BoxFuture<'_, Result<Open<P>, Cause>>;
}

/// A connection to a launcher.
#[derive(Debug)]
pub struct Open<P = ()> {
    /// The connection.
    pub stream: Duplex,
    /// The process that listens, as far as the door can tell.
    pub peer: P,
}

/// A socket at a path that only its owner can change; the process that listens there is not checked.
#[derive(Clone, Debug)]
pub struct AtPath(pub PathBuf);

impl Door for AtPath {
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

/// Tries once to connect: to a socket that does not block, or to none while the queue is full. Does not wait, but for the
/// file system that has the path.
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

/// The pauses before a socket whose queue is full is tried again: short at first.
#[derive(Debug)]
pub struct Pauses(Duration);

impl Pauses {
    const LONGEST: Duration = Duration::from_millis(500);

    /// Waits until it is time to try again.
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
