//! The screen: VNC passed on as it is, and screenshots.
//!
//! ```text
//!  client ◄──► Screen::reserve ─► ViewerConnection ◄── a connection each ──► QEMU's VNC socket
//!  QEMU's screendump (PPM) ─► png::from_ppm ─► a PNG
//! ```
//!
//! QEMU serves several viewers by itself, so nothing is shared here: each client has its own connection, and a slow reader
//! slows only itself (QEMU sends a viewer the changes since its last request). Clients are counted.
//!
//! Called by `server`, which reserves a [`ViewerConnection`] before it lets a stream leave HTTP.

pub mod png;
#[cfg(test)]
mod tests;

use crate::error::{Error, ErrorKind, Result};
use crate::root::socket_path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A connection to a unix socket is there at once, or QEMU is stuck with too many waiting clients.
const PATIENCE: Duration = Duration::from_secs(5);
/// A screen is sent in pieces of this size, at most.
const FROM_QEMU: usize = 64 << 10;
const FROM_CLIENT: usize = 4 << 10;

/// The VNC socket of a screen. Its clones count their clients together.
#[derive(Clone, Debug)]
pub struct Screen {
    socket: PathBuf,
    most: usize,
    free: Arc<Semaphore>,
}

/// A client's connection to QEMU.
#[derive(Debug)]
pub struct ViewerConnection {
    qemu: UnixStream,
    _counted: OwnedSemaphorePermit,
}

impl Screen {
    /// The screen whose VNC listens at `socket`, for so many clients at once.
    pub fn new(socket: PathBuf, most: usize) -> Result<Screen> {
        socket_path(&socket).map_err(|e| Error::refused("the screen cannot be shown").because(e))?;
        Ok(Screen { socket, most, free: Arc::new(Semaphore::new(most)) })
    }

    /// Connects, or returns the reason of a refusal: for a server that must answer before it gives its stream.
    pub async fn reserve(&self) -> Result<ViewerConnection> {
        let Ok(counted) = Arc::clone(&self.free).try_acquire_owned() else {
            let what = format!("this screen has {} clients already; end one of them", self.most);
            return Err(Error::new(ErrorKind::Busy, what));
        };
        let shown = self.socket.display();
        match tokio::time::timeout(PATIENCE, UnixStream::connect(&self.socket)).await {
            Ok(Ok(qemu)) => Ok(ViewerConnection { qemu, _counted: counted }),
            Ok(Err(e)) => Err(Error::io(format!("cannot reach the VM's screen at {shown}"), e)),
            Err(_) => {
                let what =
                    format!("the VM's screen at {shown} did not answer within {} s", PATIENCE.as_secs());
                Err(Error::new(ErrorKind::Failed, what))
            }
        }
    }
}

impl ViewerConnection {
    /// Copies both ways until one side ends.
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send>(mut self, mut stream: S) {
        // The result does not matter: the client has gone, or QEMU has.
        let _ = copy_bidirectional_with_sizes(&mut stream, &mut self.qemu, FROM_CLIENT, FROM_QEMU).await;
    }
}
