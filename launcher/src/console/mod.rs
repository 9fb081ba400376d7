//! The serial console: one line to QEMU, many clients that read it, one that types.
//!
//! ```text
//!           terminal                   ring (256 KiB)                       streams
//!  QEMU ───────────────► pump ──────► [······last screen·] ──► slot ──────► reader
//!    ▲                    │ ▲                              ├─► slot ──────► reader
//!    │   at most 64 KiB   │ │ waits 20 ms at most          └─► slot ──────► reader and writer
//!    └──────── queue ◄────┼─┴──────────────────────────────────  │
//!                         │                                      │
//!  QEMU ──► its own log ◄─┘ trimmed when it grows (log.rs)       └─ keys of the one writer
//! ```
//!
//! - **A new reader** first gets the last screen.
//! - **A slow reader never blocks QEMU.** The pump waits for readers that are about to lose bytes: 20 ms for each
//!   ringful, all waits together. A reader without room after that loses the oldest bytes, and gets their number
//!   (`[… N bytes lost …]`). The pump does not wait for it again until it has caught up or read a ringful. So a
//!   reader of 13 MB/s or more loses nothing, and one that has stopped costs 20 ms once. Readers, however many and
//!   hostile, never hold the line below 13 MB/s, which is more than any serial port has.
//! - **One writer.** A second writer is refused, or takes over, and then the first one is told. A writer may also
//!   ask to be alone: then all clients that came to write are told and closed ([`crate::seats`]). Bytes that are
//!   typed while no QEMU runs are dropped, since they were not meant for the next start. A QEMU that does not read
//!   stops the writer, and no reader.
//! - **QEMU may come and go.** The relay gets a line for each start ([`lines`]) before the guest begins, so that its
//!   first words are read. Its last words are read from its log. While no launcher runs, only the log has the
//!   guest's output.
//! - A client that closes its side has left. When the relay ends, each reader gets the rest first.
//!
//! Called by `server`, which reserves a [`ClientSlot`] before it lets a stream leave HTTP.

mod client_slot;
mod line;
pub mod log;
mod pump;
mod replay;
mod ring;
mod state;
#[cfg(test)]
mod tests;

pub use crate::seats::Mode;
pub use client_slot::{ClientSlot, SlotEnd};
pub use line::{Give, Lines, lines};
pub use state::{Begin, Status};

use crate::error::Result;
use log::Log;
use state::Shared;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

/// Time limit of the last bytes of a QEMU that is ending.
const REST: Duration = Duration::from_secs(1);

/// Settings of a relay.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes kept for readers, at least 4 KiB.
    pub ring: usize,
    /// Most clients at once.
    pub clients: usize,
    /// Time for which the line waits for readers that are about to lose bytes, for each ringful.
    pub patience: Duration,
    /// QEMU's own log of the serial console, to be kept small.
    pub log: Option<Log>,
}

impl Default for Options {
    fn default() -> Options {
        Options { ring: 256 << 10, clients: 32, patience: Duration::from_millis(20), log: None }
    }
}

/// A relay. Its clones are the same relay, which ends with the last of them.
#[derive(Clone, Debug)]
pub struct Relay {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Starts the relay, which waits for lines. Called inside a runtime of tokio.
    pub fn start(lines: Lines, options: Options) -> Relay {
        let (shared, input) = Shared::new(&options);
        let shared = Arc::new(shared);
        let task = tokio::spawn(pump::run(Arc::clone(&shared), lines, input, options.log));
        Relay { inner: Arc::new(Inner { shared, task }) }
    }

    /// Reserves a slot for a client, or returns the reason of a refusal. For a server that must answer before
    /// it hands its stream over.
    pub fn reserve(&self, mode: Mode, from: Begin) -> Result<ClientSlot> {
        ClientSlot::reserve(Arc::clone(&self.inner.shared), mode, from)
    }

    /// Serves a client until it leaves or the relay ends. It first gets the last screen.
    pub async fn attach<S: AsyncRead + AsyncWrite + Unpin + Send>(
        &self,
        stream: S,
        mode: Mode,
    ) -> Result<SlotEnd> {
        Ok(self.reserve(mode, Begin::Screen)?.serve(stream).await)
    }

    /// Counts of the relay.
    pub fn status(&self) -> Status {
        self.inner.shared.status()
    }

    /// Ends the relay: reads QEMU's remaining output (QEMU is expected to end too), passes it to all readers,
    /// and closes them.
    pub async fn finish(&self) {
        self.inner.shared.end();
        let _ = tokio::time::timeout(REST, self.inner.shared.wait_for_the_end()).await;
        self.inner.task.abort();
        self.inner.shared.finished();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.task.abort();
        self.shared.finished();
    }
}
