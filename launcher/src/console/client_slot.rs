//! A client's slot at the console.

use super::state::{Begin, GIVEN, PIECE, Shared, Step};
use crate::error::Result;
use crate::seats::{Gone, Mode};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Time limit of telling a client that another one took its slot.
const GOODBYE: Duration = Duration::from_secs(1);

/// A slot that is reserved for a client until it is dropped.
#[derive(Debug)]
pub struct ClientSlot {
    shared: Arc<Shared>,
    id: u64,
    types: bool,
    gone: Option<Gone>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotEnd {
    /// The client has closed its side, or cannot be reached.
    Client,
    /// The relay has ended, and the client has read all of its bytes.
    End,
    /// The slot was taken by another client.
    Replaced,
}

impl ClientSlot {
    pub(super) fn reserve(shared: Arc<Shared>, mode: Mode, from: Begin) -> Result<ClientSlot> {
        let (id, gone) = shared.enter(mode, from)?;
        Ok(ClientSlot { shared, id, types: mode.types(), gone: Some(gone) })
    }

    /// Serves the client until it leaves or the relay ends.
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send>(mut self, stream: S) -> SlotEnd {
        let (mut from, mut to) = tokio::io::split(stream);
        let gone = self.gone.take();
        tokio::select! {
            left = self.give(&mut to) => left.unwrap_or(SlotEnd::Client),
            () = self.take(&mut from) => SlotEnd::Client,
            () = wait_until_taken(gone) => SlotEnd::Replaced,
        }
    }

    async fn give(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<SlotEnd> {
        let mut buffer = Vec::with_capacity(GIVEN);
        let mut is_writer = self.types;
        loop {
            // Created before the check, so that no change between the check and the wait is missed.
            let news = self.shared.news.notified();
            match self.shared.step(self.id, is_writer, &mut buffer) {
                Step::Give { lost: 0 } => {}
                Step::Give { lost } => to.write_all(marker(&format!("{lost} bytes lost")).as_bytes()).await?,
                Step::Replaced => {
                    is_writer = false;
                    to.write_all(marker("someone else types here now").as_bytes()).await?;
                }
                Step::Closed => {
                    to.write_all(marker("another client has opened this console").as_bytes()).await?;
                    to.shutdown().await?;
                    return Ok(SlotEnd::Replaced);
                }
                Step::Wait => {
                    to.flush().await?;
                    news.await;
                }
                Step::End => {
                    to.shutdown().await?;
                    return Ok(SlotEnd::End);
                }
            }
            to.write_all(&buffer).await?;
            buffer.clear();
        }
    }

    /// Passes typed bytes on. The stream of a client that may not type is read as well, to notice its end.
    async fn take(&self, from: &mut (impl AsyncRead + Unpin)) {
        let mut buffer = vec![0; PIECE];
        while let Ok(size @ 1..) = from.read(&mut buffer).await {
            if self.types && self.shared.may_type(self.id) {
                // Waits while QEMU does not read, which also delays the client.
                let _ = self.shared.input.send(buffer[..size].to_vec()).await;
            }
        }
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.shared.leave(self.id);
    }
}

/// Waits until another client has taken the slot, and this client had time to read that. A client that does
/// not read is not told.
async fn wait_until_taken(gone: Option<Gone>) {
    if let Some(gone) = gone {
        // Never sent to, only dropped.
        let _ = gone.await;
    }
    tokio::time::sleep(GOODBYE).await;
}

/// A line of the relay's own between the guest's bytes, which may be interrupted anywhere in a line.
pub(super) fn marker(text: &str) -> String {
    format!("\r\n[… {text} …]\r\n")
}
