//! Runs a reader on its own thread, so that it works while its consumer does. Size and zeros: unchanged.
//!
//! At most `buffers` buffers exist; they go round between the two sides and are made only as they are first needed. The
//! thread fills each wholly before it hands it on (or at the end), and ends by itself when the consumer is dropped, at
//! the latest after the read it is in.

use super::marks::Marks;
use crate::Error;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// How far a reader runs ahead: `buffers` × `size` bytes of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// How many buffers; one is being filled, one being consumed, the others wait.
    pub buffers: usize,
    /// Bytes in each.
    pub size: usize,
}

impl Shape {
    /// Four buffers of 512 KiB: two would do, two more take up the jitter of a network.
    pub const DEFAULT: Shape = Shape { buffers: 4, size: 512 << 10 };

    /// The memory this takes.
    pub const fn memory(self) -> u64 {
        (self.buffers * self.size) as u64
    }
}

/// The consumer's side of a reader that runs ahead.
pub struct Ahead {
    full: Receiver<Piece>,
    empty: Sender<Vec<u8>>,
    buf: Vec<u8>,
    range: std::ops::Range<usize>,
    handed: u64,
    marks: Option<Marks>,
    state: State,
}

enum State {
    Running,
    Ended,
    Failed,
}

enum Piece {
    Bytes(Vec<u8>, usize),
    End,
    Failed(io::Error),
}

impl Ahead {
    /// Starts the thread; `name` shows up in debuggers.
    pub fn new(name: &str, inner: impl Read + Send + 'static, shape: Shape) -> crate::Result<Self> {
        Ahead::with_marks(name, inner, shape, None, 0)
    }

    /// Also tells `marks` how far the consumer has come; its bytes begin at `start`.
    pub(super) fn with_marks(
        name: &str,
        inner: impl Read + Send + 'static,
        shape: Shape,
        marks: Option<Marks>,
        start: u64,
    ) -> crate::Result<Self> {
        let buffers = shape.buffers.max(2);
        let (full_in, full) = sync_channel(buffers);
        let (empty, empty_out) = channel();
        let size = shape.size.max(1);
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(inner, buffers, size, &full_in, &empty_out))
            .map_err(|e| Error::failed(format!("cannot start the thread {name}")).because(e))?;
        Ok(Ahead { full, empty, buf: Vec::new(), range: 0..0, handed: start, marks, state: State::Running })
    }
}

impl Read for Ahead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let Some(marks) = &self.marks {
            marks.passed(self.handed);
        }
        if out.is_empty() {
            return Ok(0);
        }
        while self.range.is_empty() {
            match self.state {
                State::Running => self.next()?,
                State::Ended => return Ok(0),
                State::Failed => return Err(io::Error::other("the stream has already failed")),
            }
        }
        let n = out.len().min(self.range.len());
        out[..n].copy_from_slice(&self.buf[self.range.start..self.range.start + n]);
        self.range.start += n;
        self.handed += n as u64;
        Ok(n)
    }
}

impl Ahead {
    fn next(&mut self) -> io::Result<()> {
        let used = std::mem::take(&mut self.buf);
        if !used.is_empty() {
            // The thread may have ended already; then nobody wants the buffer.
            let _ = self.empty.send(used);
        }
        match self.full.recv() {
            Ok(Piece::Bytes(buf, len)) => {
                self.buf = buf;
                self.range = 0..len;
            }
            Ok(Piece::End) => self.state = State::Ended,
            Ok(Piece::Failed(e)) => {
                self.state = State::Failed;
                return Err(e);
            }
            Err(_) => {
                self.state = State::Failed;
                return Err(Error::failed("a reading thread ended without a word; this is a bug").into());
            }
        }
        Ok(())
    }
}

fn run(
    mut inner: impl Read,
    buffers: usize,
    size: usize,
    full: &SyncSender<Piece>,
    empty: &Receiver<Vec<u8>>,
) {
    let mut made = 0;
    loop {
        let mut buf = match empty.try_recv() {
            Ok(buf) => buf,
            Err(_) if made < buffers => {
                made += 1;
                vec![0; size]
            }
            Err(_) => match empty.recv() {
                Ok(buf) => buf,
                Err(_) => return,
            },
        };
        let (len, end) = fill(&mut inner, &mut buf);
        if len > 0 && full.send(Piece::Bytes(buf, len)).is_err() {
            return;
        }
        if let Some(end) = end {
            // Nobody listens any more: fine.
            let _ = full.send(end);
            return;
        }
    }
}

/// Reads until `buf` is full or nothing follows; what was read before an error is not lost.
fn fill(inner: &mut impl Read, buf: &mut [u8]) -> (usize, Option<Piece>) {
    let mut len = 0;
    while len < buf.len() {
        match inner.read(&mut buf[len..]) {
            Ok(0) => return (len, Some(Piece::End)),
            Ok(n) => len += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return (len, Some(Piece::Failed(e))),
        }
    }
    (len, None)
}
