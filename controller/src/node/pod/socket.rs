//! A socket of a tenant, connected to without waiting.
//!
//! A connection to a unix socket blocks while its queue is full, for ever if nobody takes anything out of it: whoever has
//! the folder of a socket can make it so. Here the kernel is told not to wait, and a full queue is an answer.

use super::beneath::Held;
use super::process::Process;
use crate::node::error::{Error, Kind, Result};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::os::unix::net::UnixStream;

/// What became of trying to connect.
#[derive(Debug)]
pub(super) enum Tried {
    /// A connection that does not block, and the process that listens, where it can be seen from here.
    Connected(UnixStream, Option<Process>),
    /// Nobody has taken what waits in the queue; try again later, by what is held.
    Full(Held),
}

/// Tries once to connect to a socket, and sees who listens. Does not wait.
pub(super) fn try_connect(socket: Held) -> Result<Tried> {
    let shown = socket.shown().display();
    if socket.kind() != FileType::Socket {
        return Err(Error::refused(format!("{shown} is no socket")));
    }
    let cannot = |e: Errno| Error::io(format!("cannot connect to {shown}"), e);
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(cannot)?;
    // By what is held: a name could lead elsewhere by now, and be too long for a socket besides.
    match connect(&fd, &SocketAddrUnix::new(socket.by_descriptor()).map_err(cannot)?) {
        Ok(()) => {}
        Err(Errno::AGAIN) => return Ok(Tried::Full(socket)),
        Err(Errno::CONNREFUSED) => {
            return Err(Error::new(Kind::NotFound, format!("nobody listens on {shown} any more")));
        }
        Err(e) => return Err(cannot(e)),
    }
    let stream = UnixStream::from(fd);
    let process = Process::listening(&stream)
        .map_err(|e| Error::failed(format!("cannot see who listens on {shown}")).because(e))?;
    Ok(Tried::Connected(stream, process))
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
