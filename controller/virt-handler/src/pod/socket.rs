//! Connections to a tenant's socket without waiting.
//!
//! Wraps `launcher_client::try_connect` for a held socket, and identifies the listening process.

use super::confined::PathHandle;
use super::process::Process;
use crate::error::{Error, ErrorKind, Result};
use rustix::fs::FileType;
use std::io::ErrorKind::ConnectionRefused;
use std::os::unix::net::UnixStream;

/// Result of an attempt to connect.
#[derive(Debug)]
pub(super) enum ConnectResult {
    /// Non-blocking connection, and the listening process if it is visible.
    Connected(UnixStream, Option<Process>),
    /// The queue of the socket is full; retry later with the held socket.
    Full(PathHandle),
}

/// Tries once to connect to a socket, and identifies the listening process. Does not wait.
pub(super) fn try_connect(socket: PathHandle) -> Result<ConnectResult> {
    let shown = socket.display_path().display();
    if socket.kind() != FileType::Socket {
        return Err(Error::refused(format!("{shown} is not a socket")));
    }
    // The held socket is used: its path may have changed by now, and may be too long for a socket address.
    let stream = match launcher_client::try_connect(socket.by_descriptor().as_ref()) {
        Ok(Some(stream)) => stream,
        Ok(None) => return Ok(ConnectResult::Full(socket)),
        Err(e) if e.kind() == ConnectionRefused => {
            return Err(Error::new(ErrorKind::NotFound, format!("no process listens on {shown} any more")));
        }
        Err(e) => return Err(Error::io(format!("cannot connect to {shown}"), e)),
    };
    let process = Process::listening(&stream).map_err(|e| {
        Error::failed(format!("cannot identify the process that listens on {shown}")).because(e)
    })?;
    Ok(ConnectResult::Connected(stream, process))
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
