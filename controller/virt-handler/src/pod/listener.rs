//! Socket in a pod's folder on which virt-handler listens for the launcher. Its file is removed at the end.

use super::confined::{Folder, PathHandle};
use crate::blocking::Blocking;
use crate::error::{Error, ErrorKind, Result};
use std::io;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream, unix::SocketAddr};
use tokio::runtime::Handle;

/// Time limit of the removal of a socket.
const PATIENCE: Duration = Duration::from_secs(10);

/// Listening socket in a pod's folder. On drop, its file is removed by a task.
#[derive(Debug)]
pub struct PodListener {
    listener: UnixListener,
    blocking: Blocking,
    socket: Option<OwnSocket>,
}

/// File of a socket of ours.
#[derive(Debug)]
pub(super) struct OwnSocket {
    pub(super) folder: Folder,
    pub(super) name: String,
    pub(super) file: PathHandle,
}

impl PodListener {
    pub(super) fn new(
        blocking: Blocking,
        listener: std::os::unix::net::UnixListener,
        socket: OwnSocket,
    ) -> Result<PodListener> {
        match UnixListener::from_std(listener) {
            Ok(listener) => Ok(PodListener { listener, blocking, socket: Some(socket) }),
            Err(e) => {
                remove(&blocking, socket);
                Err(Error::io("cannot use a socket of the pod", e))
            }
        }
    }

    /// The next connection. Check its client before it is used.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        self.listener.accept().await
    }
}

impl Drop for PodListener {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take() {
            remove(&self.blocking, socket);
        }
    }
}

/// Removes the file of a socket, unless it was replaced. At the end of the program it stays: the next one
/// replaces it.
fn remove(blocking: &Blocking, socket: OwnSocket) {
    let Ok(runtime) = Handle::try_current() else { return };
    let blocking = blocking.clone();
    runtime.spawn(async move {
        let remove = move || match socket.folder.held(&socket.name) {
            Ok(found) if found.is(&socket.file) => socket.folder.remove(&socket.name),
            Ok(_) => Ok(()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        };
        if let Err(e) = blocking.run("removing a socket", PATIENCE, remove).await {
            tracing::warn!("{}", e.chain());
        }
    });
}
