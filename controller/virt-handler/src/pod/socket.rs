//! Sockets in a tenant's folder.
//!
//! To connect, `launcher_client::try_connect` is wrapped for a held socket, and the listening process is
//! identified. It does not wait. A socket of our own is made for the launcher's user alone.

use super::confined::{Folder, PathHandle};
use super::process::Process;
use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{FileType, Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::io::ErrorKind::ConnectionRefused;
use std::os::unix::net::{UnixListener, UnixStream};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

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
    let process = Process::peer(&stream).map_err(|e| {
        Error::failed(format!("cannot identify the process that listens on {shown}")).because(e)
    })?;
    Ok(ConnectResult::Connected(stream, process))
}

/// Listens on a new socket directly in this folder, to which the launcher's user and root may connect. A socket
/// of that name, of an earlier virt-handler, is replaced; any other file is refused.
pub(super) fn listen_for_launcher(folder: &Folder, name: &str) -> Result<(UnixListener, PathHandle)> {
    let shown = folder.display_path().join(name);
    let shown = shown.display();
    match folder.metadata(name) {
        Ok(found) if found.kind() == FileType::Socket => folder.remove(name)?,
        Ok(_) => {
            let why =
                format!("cannot listen on {shown}: a file that is not a socket has this name; remove it");
            return Err(Error::refused(why));
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    let cannot = |e: Errno| Error::io(format!("cannot listen on {shown}"), e);
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(cannot)?;
    // The file is made with the mode of the socket, so that it is never open to others.
    fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(cannot)?;
    // The path from the node may be too long for a socket address. A link at the end is not followed.
    let address = SocketAddrUnix::new(folder.by_descriptor(name)?).map_err(cannot)?;
    bind(&socket, &address).map_err(cannot)?;
    let made = || {
        let file = folder.held(name)?;
        match file.kind() {
            FileType::Socket => file.give_to_launcher()?,
            _ => return Err(Error::refused(format!("{shown} was replaced while it was made"))),
        }
        listen(&socket, BACKLOG).map_err(cannot)?;
        Ok(file)
    };
    match made() {
        Ok(file) => Ok((socket.into(), file)),
        Err(e) => {
            drop(folder.remove(name));
            Err(e)
        }
    }
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
