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
//! - **A new reader** is first given the last screen.
//! - **A slow reader never blocks QEMU.** The pump waits for readers that are about to lose bytes, for 20 ms a ringful,
//!   all waits together. A reader that has not made room by then loses the oldest bytes, is told how many (`[… N bytes
//!   lost …]`), and is not waited for again until it has caught up or read a ringful. So a reader of 13 MB/s or more loses
//!   nothing, one that has stopped costs 20 ms once, and no readers, however many and hostile, hold the line below 13 MB/s:
//!   more than any serial port has.
//! - **One writer.** A second is refused, or takes over, and then the first is told; or it wants to be alone, and then those
//!   that came to write are told and closed ([`crate::seats`]). Bytes that are typed while there is no QEMU are dropped: they
//!   were not meant for the next start. A QEMU that does not read stops the writer, and no reader.
//! - **QEMU may come and go**; the relay gets a line for each start ([`lines`]), before the guest begins, so that its first
//!   words are read. Its last words are read from its log. While no launcher runs, the log alone has the guest's output.
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
pub use client_slot::{ClientSlot, Left};
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
    /// The most clients at once.
    pub clients: usize,
    /// Time that the line waits for readers that are about to lose bytes, for each ringful.
    pub patience: Duration,
    /// QEMU's own log of the serial console, to be kept small.
    pub log: Option<Log>,
}

impl Default for Options {
    fn default() -> Options {
        Options { ring: 256 << 10, clients: 32, patience: Duration::from_millis(20), log: None }
    }
}

/// A relay. Its clones are the same relay, and it ends with the last of them.
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
    /// Begins to wait for lines. Called inside a runtime of tokio.
    pub fn start(lines: Lines, options: Options) -> Relay {
        let (shared, input) = Shared::new(&options);
        let shared = Arc::new(shared);
        let task = tokio::spawn(pump::run(Arc::clone(&shared), lines, input, options.log));
        Relay { inner: Arc::new(Inner { shared, task }) }
    }

    /// Keeps a place for a client, or says why there is none: for a server that must answer before it gives its stream.
    pub fn reserve(&self, mode: Mode, from: Begin) -> Result<ClientSlot> {
        ClientSlot::reserve(Arc::clone(&self.inner.shared), mode, from)
    }

    /// Serves a client until it leaves or the relay ends. It is first given the last screen.
    pub async fn attach<S: AsyncRead + AsyncWrite + Unpin + Send>(
        &self,
        stream: S,
        mode: Mode,
    ) -> Result<Left> {
        Ok(self.reserve(mode, Begin::Screen)?.serve(stream).await)
    }

    /// Counts of the relay.
    pub fn status(&self) -> Status {
        self.inner.shared.status()
    }

    /// Ends: takes QEMU's remaining output (QEMU is expected to end too), gives it to all readers, closes them.
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
