//! The screen: VNC for many viewers of which one types, and screenshots.
//!
//! ```text
//!  viewer ─► Screen::reserve ─► ViewerConnection ── a connection each ──► QEMU's VNC socket
//!              │ seats: who types        │
//!              │                         ├─ keys.rs   only requests for pictures pass, of a viewer that may not type
//!              └─ gone: closed           └─ wake.rs   moves the pointer, for a screenshot
//!  QEMU's screendump (PPM) ─► png::from_ppm ─► a PNG
//! ```
//!
//! QEMU itself serves several viewers, so no picture is shared here: each client has its own connection, and
//! a slow reader slows only itself (QEMU sends a viewer the changes since its last request). QEMU would also
//! close all viewers for one that asks for exclusive access. The launcher decides that instead
//! ([`crate::seats`]), and no viewer can ask QEMU for it.
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

/// Time limit of connecting to QEMU's socket. It connects at once, or QEMU has too many waiting clients.
const PATIENCE: Duration = Duration::from_secs(5);
/// Size of the pieces in which a screen is sent.
const FROM_QEMU: usize = 64 << 10;
const FROM_CLIENT: usize = 4 << 10;

/// The VNC socket of a screen. All clones share their clients' count.
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
    /// The screen with the VNC socket `socket`, for this many clients at once.
    pub fn new(socket: PathBuf, most: usize) -> Result<Screen> {
        socket_path(&socket).map_err(|e| Error::refused("the screen cannot be shown").because(e))?;
        Ok(Screen { socket, seats: Arc::new(Mutex::new(Seats::new("screen", most))) })
    }

    /// Connects to QEMU, or returns the reason of a refusal. For a server that must answer before it hands
    /// its stream over.
    pub async fn reserve(&self, mode: Mode) -> Result<ViewerConnection> {
        // Connects before it takes a seat, so that no other client is closed for one that finds no screen.
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
    /// Copies both ways until both sides have ended, one has failed, or another client has taken the seat.
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send>(self, client: S) {
        let ViewerConnection { qemu, seat, gone } = self;
        let (of_client, to_client) = split(client);
        let (of_qemu, to_qemu) = split(qemu);
        let both = async {
            tokio::try_join!(keys(of_client, to_qemu, &seat), pictures(of_qemu, to_client)).map(drop)
        };
        tokio::select! {
            // The client or QEMU has ended the connection.
            done = both => tracing::debug!("a viewer of the screen: {done:?}"),
            _ = gone => tracing::info!("a viewer of the screen is closed: another client has opened it"),
        }
    }
}

/// Passes a viewer's messages to QEMU, as far as it may send them.
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
    // No holder of the lock panics in the middle of a change.
    seats.lock().unwrap_or_else(PoisonError::into_inner)
}
