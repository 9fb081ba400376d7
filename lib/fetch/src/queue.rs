//! A bounded queue of bytes from an async task to a reader, which is an ordinary thread.

use crate::{Error, PartSink, Permit, Result};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Pieces below this are gathered: each piece costs more than its bytes.
const TINY: usize = 4 << 10;
const GATHER: usize = 64 << 10;

/// The queue, shared by its two ends.
pub struct Queue {
    most: usize,
    state: Mutex<State>,
    filled: Condvar,
    room: Notify,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Bytes>,
    gathered: BytesMut,
    held: usize,
    end: Option<Result<()>>,
}

/// The result of a wait for the next piece.
pub enum Next {
    Bytes(Bytes),
    /// The end, or the error that ended the transfer. It is given once; the reader must not ask again.
    End(Result<()>),
}

impl Queue {
    /// A queue of up to `most` bytes and one piece more.
    pub fn new(most: usize) -> Arc<Queue> {
        Arc::new(Queue { most, state: Mutex::default(), filled: Condvar::new(), room: Notify::new() })
    }

    /// Waits for the next piece; also returns how long that took.
    pub fn next(&self) -> (Next, Duration) {
        let mut since = None;
        let mut state = self.lock();
        let next = loop {
            if let Some(piece) = state.take() {
                state.held -= piece.len();
                break Next::Bytes(piece);
            }
            if let Some(end) = state.end.take() {
                break Next::End(end);
            }
            since.get_or_insert_with(Instant::now);
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        drop(state);
        self.room.notify_one();
        (next, since.map_or(Duration::ZERO, |since| since.elapsed()))
    }

    /// Ends the queue with this result. The reader still gets the pieces before it.
    pub fn close(&self, end: Result<()>) {
        self.lock().end.get_or_insert(end);
        self.filled.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self) -> Option<Bytes> {
        let gathered = |rest: &mut BytesMut| (!rest.is_empty()).then(|| rest.split().freeze());
        self.pieces.pop_front().or_else(|| gathered(&mut self.gathered))
    }

    fn put(&mut self, bytes: Bytes) {
        self.held += bytes.len();
        if bytes.len() < TINY {
            self.gathered.extend_from_slice(&bytes);
        } else if self.gathered.is_empty() {
            self.pieces.push_back(bytes);
            return;
        } else {
            self.pieces.extend([self.gathered.split().freeze(), bytes]);
        }
        if self.gathered.len() >= GATHER {
            self.pieces.push_back(self.gathered.split().freeze());
        }
    }
}

/// The task's end of the queue. Dropped without `close` (the task panicked or was stopped), it leaves an
/// error, so that no reader waits for ever.
pub struct Filler(pub Arc<Queue>);

impl PartSink for Filler {
    const READER_WAITS: bool = false;

    async fn take(&mut self, bytes: Bytes, permit: &mut Option<Permit<'_>>) {
        loop {
            {
                let mut state = self.0.lock();
                if state.held < self.0.most {
                    state.put(bytes);
                    break;
                }
            }
            permit.take();
            self.0.room.notified().await;
        }
        self.0.filled.notify_one();
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.0.close(Err(Error::failed("the transfer was stopped")));
    }
}
