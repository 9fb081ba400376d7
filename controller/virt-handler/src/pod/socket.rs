//! A socket of a tenant, connected to without waiting.
//!
//! `launcher_client::try_connect`, by what is held of the socket; and who listens.

use super::beneath::Held;
use super::process::Process;
use crate::error::{Error, ErrorKind, Result};
use rustix::fs::FileType;
use std::io::ErrorKind::ConnectionRefused;
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
    // By what is held: a name could lead elsewhere by now, and be too long for a socket besides.
    let stream = match launcher_client::try_connect(socket.by_descriptor().as_ref()) {
        Ok(Some(stream)) => stream,
        Ok(None) => return Ok(Tried::Full(socket)),
        Err(e) if e.kind() == ConnectionRefused => {
            return Err(Error::new(ErrorKind::NotFound, format!("nobody listens on {shown} any more")));
        }
        Err(e) => return Err(Error::io(format!("cannot connect to {shown}"), e)),
    };
    let process = Process::listening(&stream)
        .map_err(|e| Error::failed(format!("cannot see who listens on {shown}")).because(e))?;
    Ok(Tried::Connected(stream, process))
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
