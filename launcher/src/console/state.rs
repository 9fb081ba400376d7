//! What the pump and the slots share.

use super::Options;
use super::replay;
use super::ring::Ring;
use crate::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

/// Typed bytes travel in pieces of this size …
pub(super) const PIECE: usize = 4 << 10;
/// … of which so many wait for QEMU.
const PIECES: usize = 16;
/// A reader is given so many bytes at once.
pub(super) const GIVEN: usize = 64 << 10;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Read. What it types goes nowhere.
    Read,
    /// Read and type, unless someone types already.
    Write,
    /// Read and type, in place of whoever does.
    Take,
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With the last screen.
    Screen,
    /// With all that is still there.
    Everything,
    /// With what comes next.
    Now,
}

/// How it is with a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// QEMU is there.
    pub connected: bool,
    /// So many bytes it has said.
    pub bytes: u64,
    /// So many clients there are.
    pub clients: usize,
    /// One of them types.
    pub writer: bool,
    /// Why QEMU's log could not be kept small, the last time it was tried.
    pub trouble: Option<String>,
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// For slots: there are bytes, another writer, or an end.
    pub(super) news: Notify,
    /// For the pump: a reader has moved on.
    room: Notify,
    /// For the pump: it should end.
    pub(super) ending: Notify,
    pub(super) input: mpsc::Sender<Vec<u8>>,
    patience: Duration,
    clients: usize,
}

#[derive(Debug)]
struct State {
    ring: Ring,
    readers: BTreeMap<u64, Reader>,
    next: u64,
    writer: Option<u64>,
    connected: bool,
    /// The pump waits for room.
    pressed: bool,
    /// So long it may still wait.
    credit: Duration,
    ending: bool,
    finished: bool,
    trouble: Option<String>,
}

#[derive(Debug)]
struct Reader {
    at: u64,
    /// So many bytes it has to read, or all there are, before the pump waits for it again: it was late.
    owes: u64,
}

/// What a slot is to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Bytes are in the buffer; so many were lost before them.
    Give { lost: u64 },
    /// Someone else types now.
    Replaced,
    /// Wait for news.
    Wait,
    /// There will be no more.
    End,
}

impl Shared {
    pub(super) fn new(options: &Options) -> (Shared, mpsc::Receiver<Vec<u8>>) {
        let (input, typed) = mpsc::channel(PIECES);
        let state = State {
            ring: Ring::new(options.ring.max(4 << 10)),
            readers: BTreeMap::new(),
            next: 0,
            writer: None,
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
            clients: options.clients,
        };
        (shared, typed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives bytes to all readers. Waits for those who are in the way and were timely so far, as long as there is credit.
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

    /// What is left of the patience, and what these bytes earn: all of it for each ringful, whoever it is spent on.
    fn credit(&self, left: Duration, bytes: usize, ring: usize) -> Duration {
        let earned = self.patience.mul_f64(bytes as f64 / ring as f64);
        left.saturating_add(earned).min(self.patience)
    }

    /// The largest piece that may be published at once.
    pub(super) fn piece(&self) -> usize {
        (self.state().ring.size() / 4).clamp(1 << 10, 64 << 10)
    }

    pub(super) fn enter(&self, mode: Mode, from: Begin) -> Result<u64> {
        let mut state = self.state();
        if state.finished || state.ending {
            return Err(Error::new(ErrorKind::NotFound, "the machine's console has ended"));
        }
        if state.readers.len() >= self.clients {
            let what =
                format!("{} clients are on this console already, and more are not served", self.clients);
            return Err(Error::new(ErrorKind::Busy, what));
        }
        if mode == Mode::Write && state.writer.is_some() {
            let what = "someone else types on this console; read it only, or take it over";
            return Err(Error::new(ErrorKind::Busy, what));
        }
        let id = state.next;
        state.next += 1;
        let at = state.start(from);
        state.readers.insert(id, Reader { at, owes: 0 });
        if mode != Mode::Read && state.writer.replace(id).is_some() {
            drop(state);
            self.news.notify_waiters();
        }
        Ok(id)
    }

    pub(super) fn leave(&self, id: u64) {
        let mut state = self.state();
        state.readers.remove(&id);
        if state.writer == Some(id) {
            state.writer = None;
        }
        drop(state);
        self.room.notify_one();
    }

    /// What the reader is to do next; its bytes are put into `buffer`, which is empty.
    pub(super) fn step(&self, id: u64, was_writer: bool, buffer: &mut Vec<u8>) -> Step {
        let mut state = self.state();
        let state = &mut *state;
        if was_writer && state.writer != Some(id) {
            return Step::Replaced;
        }
        let Some(reader) = state.readers.get_mut(&id) else { return Step::End };
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

    /// Whether what this client types goes to QEMU now.
    pub(super) fn may_type(&self, id: u64) -> bool {
        let state = self.state();
        state.connected && state.writer == Some(id)
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
            clients: state.readers.len(),
            writer: state.writer.is_some(),
            trouble: state.trouble.clone(),
        }
    }

    /// The pump is to end once QEMU has.
    pub(super) fn end(&self) {
        self.state().ending = true;
        self.ending.notify_one();
    }

    /// The last `size` bytes, as far as they are still there.
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

    /// There will be no more bytes.
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
