//! The screen: VNC for many viewers of which one types, and screenshots.
//!
//! ```text
//!  viewer ─► Screen::reserve ─► ViewerConnection ── a connection each ──► QEMU's VNC socket
//!              │ seats: who types        │
//!              │                         ├─ keys.rs   of a viewer that may not type, only what asks for pictures passes
//!              └─ gone: closed           └─ wake.rs   moves the pointer, for a screenshot
//!  QEMU's screendump (PPM) ─► png::from_ppm ─► a PNG
//! ```
//!
//! QEMU serves several viewers by itself, so no picture is shared here: each client has its own connection, and a slow
//! reader slows only itself (QEMU sends a viewer the changes since its last request). QEMU would also close all viewers for
//! one that wants the screen for itself; that is decided here ([`crate::seats`]), and no viewer can ask QEMU for it.
//!
//! Called by `server`, which reserves a [`ViewerConnection`] before it lets a stream leave HTTP.

mod keys;
pub mod png;
#[cfg(test)]
mod tests;
mod wake;

use crate::error::{Error, ErrorKind, Result};
use crate::root::socket_path;
use crate::seats::{Gone, Mode, Seats};
use keys::Keys;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::UnixStream;

/// A connection to a unix socket is there at once, or QEMU is stuck with too many waiting clients.
const PATIENCE: Duration = Duration::from_secs(5);
/// A screen is sent in pieces of this size, at most.
const FROM_QEMU: usize = 64 << 10;
const FROM_CLIENT: usize = 4 << 10;

/// The VNC socket of a screen. Its clones count their clients together.
#[derive(Clone, Debug)]
pub struct Screen {
    socket: PathBuf,
    seats: Arc<Mutex<Seats>>,
}

/// A client's connection to QEMU.
#[derive(Debug)]
pub struct ViewerConnection {
    qemu: UnixStream,
    seat: Seat,
    gone: Gone,
}

/// A client's seat, until it is dropped.
#[derive(Debug)]
struct Seat {
    seats: Arc<Mutex<Seats>>,
    id: u64,
}

impl Screen {
    /// The screen whose VNC listens at `socket`, for so many clients at once.
    pub fn new(socket: PathBuf, most: usize) -> Result<Screen> {
        socket_path(&socket).map_err(|e| Error::refused("the screen cannot be shown").because(e))?;
        Ok(Screen { socket, seats: Arc::new(Mutex::new(Seats::new("screen", most))) })
    }

    /// Connects, or returns the reason of a refusal: for a server that must answer before it gives its stream.
    pub async fn reserve(&self, mode: Mode) -> Result<ViewerConnection> {
        // First, so that nobody is closed for a client that finds no screen.
        let qemu = self.connect().await?;
        let entered = lock(&self.seats).enter(mode)?;
        let seat = Seat { seats: Arc::clone(&self.seats), id: entered.id };
        Ok(ViewerConnection { qemu, seat, gone: entered.gone })
    }

    async fn connect(&self) -> Result<UnixStream> {
        let shown = self.socket.display();
        match tokio::time::timeout(PATIENCE, UnixStream::connect(&self.socket)).await {
            Ok(Ok(qemu)) => Ok(qemu),
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
    /// Copies both ways until both sides have ended, one has broken off, or another client has the seat.
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send>(self, client: S) {
        let ViewerConnection { qemu, seat, gone } = self;
        let (of_client, to_client) = split(client);
        let (of_qemu, to_qemu) = split(qemu);
        let both = async {
            tokio::try_join!(keys(of_client, to_qemu, &seat), pictures(of_qemu, to_client)).map(drop)
        };
        tokio::select! {
            // The client has gone, or QEMU has.
            done = both => tracing::debug!("a viewer of the screen: {done:?}"),
            _ = gone => tracing::info!("a viewer of the screen is closed: another client has opened it"),
        }
    }
}

/// A viewer's messages to QEMU, as far as it may send them.
async fn keys(
    mut of: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    seat: &Seat,
) -> io::Result<()> {
    let (mut keys, mut buffer, mut out) = (Keys::new(), vec![0; FROM_CLIENT], Vec::new());
    loop {
        let size = of.read(&mut buffer).await?;
        let bytes = buffer.get(..size).unwrap_or_default();
        if bytes.is_empty() {
            return to.shutdown().await;
        }
        let known = keys.pass(bytes, || seat.may_type(), &mut out);
        to.write_all(&out).await?;
        to.flush().await?;
        out.clear();
        known.map_err(|_| io::Error::other("a message of a viewer that only reads is not known"))?;
    }
}

async fn pictures(mut of: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut buffer = vec![0; FROM_QEMU];
    loop {
        let size = of.read(&mut buffer).await?;
        let bytes = buffer.get(..size).unwrap_or_default();
        if bytes.is_empty() {
            return to.shutdown().await;
        }
        to.write_all(bytes).await?;
        to.flush().await?;
    }
}

impl Seat {
    fn may_type(&self) -> bool {
        lock(&self.seats).typist() == Some(self.id)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.seats).leave(self.id);
    }
}

fn lock(seats: &Mutex<Seats>) -> MutexGuard<'_, Seats> {
    // No code of theirs panics half way through a change.
    seats.lock().unwrap_or_else(PoisonError::into_inner)
}
