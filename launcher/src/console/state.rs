//! The state that the pump and the slots share.

use super::Options;
use super::replay;
use super::ring::Ring;
use crate::error::{Error, ErrorKind, Result};
use crate::seats::{Gone, Mode, Seats};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

/// Size of a piece of typed bytes …
pub(super) const PIECE: usize = 4 << 10;
/// … and the number of pieces that may wait for QEMU.
const PIECES: usize = 16;
/// Most bytes that a reader gets at once.
pub(super) const GIVEN: usize = 64 << 10;

/// Position at which a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At the last screen.
    Screen,
    /// At the oldest byte in the ring.
    Everything,
    /// At the next byte.
    Now,
}

/// Counts of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// True if QEMU is connected.
    pub connected: bool,
    /// Bytes of QEMU's output so far.
    pub bytes: u64,
    /// Number of connected clients.
    pub clients: usize,
    /// True if one of them types.
    pub writer: bool,
    /// Last error of trimming QEMU's log.
    pub trouble: Option<String>,
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Wakes the slots: there are bytes, another writer, or an end.
    pub(super) news: Notify,
    /// Wakes the pump: a reader has moved on.
    room: Notify,
    /// Wakes the pump: the relay should end.
    pub(super) ending: Notify,
    pub(super) input: mpsc::Sender<Vec<u8>>,
    patience: Duration,
}

#[derive(Debug)]
struct State {
    ring: Ring,
    seats: Seats,
    /// Readers, by their seats.
    readers: BTreeMap<u64, Reader>,
    connected: bool,
    /// True while the pump waits for readers.
    pressed: bool,
    /// Time for which the pump may still wait.
    credit: Duration,
    ending: bool,
    finished: bool,
    trouble: Option<String>,
}

#[derive(Debug)]
struct Reader {
    at: u64,
    /// Bytes that a late reader has to read before the pump waits for it again; all of them count as enough.
    owes: u64,
}

/// The next step of a slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Bytes are in the buffer, after this many lost ones.
    Give { lost: u64 },
    /// The client has lost its turn to type to another client.
    Replaced,
    /// The slot was taken by another client.
    Closed,
    /// No new bytes have arrived.
    Wait,
    /// The console has ended, and all of its bytes were read.
    End,
}

impl Shared {
    pub(super) fn new(options: &Options) -> (Shared, mpsc::Receiver<Vec<u8>>) {
        let (input, typed) = mpsc::channel(PIECES);
        let state = State {
            ring: Ring::new(options.ring.max(4 << 10)),
            seats: Seats::new("console", options.clients),
            readers: BTreeMap::new(),
            connected: false,
            pressed: false,
            credit: options.patience,
            ending: false,
            finished: false,
            trouble: None,
        };
        let shared = Shared {
            state: Mutex::new(state),
            news: Notify::new(),
            room: Notify::new(),
            ending: Notify::new(),
            input,
            patience: options.patience,
        };
        (shared, typed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code in here panics half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes bytes to all readers. Waits for slow readers that were timely so far, as long as there is
    /// credit.
    pub(super) async fn publish(&self, bytes: &[u8]) {
        let began = Instant::now();
        loop {
            let left;
            {
                let mut state = self.state();
                let state = &mut *state;
                let oldest = state.ring.oldest_after(bytes.len());
                left = state.credit.saturating_sub(began.elapsed());
                state.pressed = false;
                for reader in state.readers.values_mut().filter(|r| r.owes == 0 && r.at < oldest) {
                    if left.is_zero() {
                        reader.owes = state.ring.size() as u64;
                    } else {
                        state.pressed = true;
                    }
                }
                if !state.pressed {
                    state.ring.write(bytes);
                    state.credit = self.credit(left, bytes.len(), state.ring.size());
                    break;
                }
            }
            let _ = tokio::time::timeout(left, self.room.notified()).await;
        }
        self.news.notify_waiters();
    }

    /// The remaining patience, and the credit of these bytes: all of the patience for each ringful, shared by
    /// all readers.
    fn credit(&self, left: Duration, bytes: usize, ring: usize) -> Duration {
        let earned = self.patience.mul_f64(bytes as f64 / ring as f64);
        left.saturating_add(earned).min(self.patience)
    }

    /// Largest piece that may be published at once.
    pub(super) fn piece(&self) -> usize {
        (self.state().ring.size() / 4).clamp(1 << 10, 64 << 10)
    }

    pub(super) fn enter(&self, mode: Mode, from: Begin) -> Result<(u64, Gone)> {
        let mut state = self.state();
        if state.finished || state.ending {
            return Err(Error::new(ErrorKind::NotFound, "the console of the VM has ended"));
        }
        let entered = state.seats.enter(mode)?;
        let at = state.start(from);
        state.readers.insert(entered.id, Reader { at, owes: 0 });
        for id in &entered.closed {
            state.readers.remove(id);
        }
        drop(state);
        if entered.replaced || !entered.closed.is_empty() {
            self.news.notify_waiters();
            // The pump may be waiting for this reader.
            self.room.notify_one();
        }
        Ok((entered.id, entered.gone))
    }

    pub(super) fn leave(&self, id: u64) {
        let mut state = self.state();
        state.readers.remove(&id);
        state.seats.leave(id);
        drop(state);
        self.room.notify_one();
    }

    /// The next step of the reader. Its bytes are put into `buffer`, which must be empty.
    pub(super) fn step(&self, id: u64, was_writer: bool, buffer: &mut Vec<u8>) -> Step {
        let mut state = self.state();
        let state = &mut *state;
        // Only the reader itself removes its entry before it leaves.
        let Some(reader) = state.readers.get_mut(&id) else { return Step::Closed };
        if was_writer && state.seats.typist() != Some(id) {
            return Step::Replaced;
        }
        let oldest = state.ring.oldest();
        let lost = oldest.saturating_sub(reader.at);
        reader.at = state.ring.copy(reader.at.max(oldest), GIVEN, buffer);
        let has_all = reader.at == state.ring.head();
        reader.owes = if has_all { 0 } else { reader.owes.saturating_sub(buffer.len() as u64) };
        if state.pressed {
            self.room.notify_one();
        }
        match buffer.is_empty() {
            false => Step::Give { lost },
            true if state.finished => Step::End,
            true => Step::Wait,
        }
    }

    /// True if this client types.
    pub(super) fn may_type(&self, id: u64) -> bool {
        let state = self.state();
        state.connected && state.seats.typist() == Some(id)
    }

    pub(super) fn connected(&self, connected: bool) {
        self.state().connected = connected;
    }

    pub(super) fn trouble(&self, trouble: Option<String>) {
        self.state().trouble = trouble;
    }

    pub(super) fn status(&self) -> Status {
        let state = self.state();
        Status {
            connected: state.connected,
            bytes: state.ring.head(),
            clients: state.seats.count(),
            writer: state.seats.typist().is_some(),
            trouble: state.trouble.clone(),
        }
    }

    /// Ends the relay after QEMU's end.
    pub(super) fn end(&self) {
        self.state().ending = true;
        self.ending.notify_one();
    }

    /// The last `size` bytes, if they are still in the ring.
    pub(super) fn last(&self, size: usize) -> Vec<u8> {
        let state = self.state();
        let mut last = Vec::new();
        let begin = state.ring.head().saturating_sub(size as u64).max(state.ring.oldest());
        state.ring.copy(begin, size, &mut last);
        last
    }

    pub(super) fn is_ending(&self) -> bool {
        self.state().ending
    }

    /// Marks the end of the output.
    pub(super) fn finished(&self) {
        let mut state = self.state();
        state.finished = true;
        state.connected = false;
        drop(state);
        self.news.notify_waiters();
    }

    pub(super) async fn wait_for_the_end(&self) {
        loop {
            let news = self.news.notified();
            if self.state().finished {
                return;
            }
            news.await;
        }
    }
}

impl State {
    fn start(&self, from: Begin) -> u64 {
        let oldest = self.ring.oldest();
        match from {
            Begin::Now => self.ring.head(),
            Begin::Everything => oldest,
            Begin::Screen => {
                let begin = oldest.max(self.ring.head().saturating_sub(GIVEN as u64));
                let mut tail = Vec::new();
                self.ring.copy(begin, GIVEN, &mut tail);
                begin + replay::screen(&tail, begin == 0) as u64
            }
        }
    }
}
