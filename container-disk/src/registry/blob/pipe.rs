//! From the runtime to a plain thread: bytes in order, no more of them on the way than the pipe may hold.

use super::transfer::Sink;
use crate::Error;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, error::TryRecvError, unbounded_channel};

/// What the shortest chunk counts for: a server that sends single bytes must not fill memory with their book-keeping.
const LEAST: usize = 4 << 10;

/// A pipe that holds so many bytes.
pub(super) fn pipe(capacity: usize) -> (Inlet, Outlet) {
    let (tx, rx) = unbounded_channel();
    let room = Arc::new(Semaphore::new(capacity));
    (Inlet { tx, room: Arc::clone(&room), capacity }, Outlet { rx, room, capacity })
}

pub(super) struct Inlet {
    tx: UnboundedSender<Result<Bytes, Error>>,
    room: Arc<Semaphore>,
    capacity: usize,
}

pub(super) struct Outlet {
    rx: UnboundedReceiver<Result<Bytes, Error>>,
    room: Arc<Semaphore>,
    capacity: usize,
}

impl Sink for Inlet {
    async fn take(&mut self, bytes: Bytes) -> bool {
        let weight = weight(&bytes, self.capacity);
        match self.room.acquire_many(weight).await {
            // The reader gives the room back.
            Ok(permit) => permit.forget(),
            Err(_) => return false,
        }
        self.tx.send(Ok(bytes)).is_ok()
    }
}

impl Inlet {
    /// Nothing more comes, for this reason.
    pub(super) fn fail(self, error: Error) {
        // A reader that is gone does not mind.
        let _ = self.tx.send(Err(error));
    }
}

impl Outlet {
    /// What is there already: `Some(None)` at the end, `None` if nothing is there yet.
    pub(super) fn ready(&mut self) -> Option<Option<Result<Bytes, Error>>> {
        match self.rx.try_recv() {
            Ok(item) => Some(Some(self.freed(item))),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(None),
        }
    }

    /// The next bytes; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Result<Bytes, Error>> {
        let item = self.rx.blocking_recv()?;
        Some(self.freed(item))
    }

    fn freed(&self, item: Result<Bytes, Error>) -> Result<Bytes, Error> {
        if let Ok(bytes) = &item {
            self.room.add_permits(weight(bytes, self.capacity) as usize);
        }
        item
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.room.close();
    }
}

fn weight(bytes: &Bytes, capacity: usize) -> u32 {
    u32::try_from(bytes.len().max(LEAST).min(capacity)).unwrap_or(u32::MAX)
}
