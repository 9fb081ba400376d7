//! Read-ahead: runs a reader on its own thread, so that it works while its consumer does. Size and zeros:
//! unchanged.
//!
//! At most `buffers` buffers exist. They go round between the two sides and are allocated when first needed.
//! The thread fills each completely before it passes it on (except at the end). It ends by itself when the
//! consumer is dropped, at the latest after the read it is in. It gives up all rights but open descriptors
//! ([`guard::confine::parser`]), so a reader that still has to open files must not be used here.

use super::holes::HoleRead;
use super::marks::Marks;
use crate::Error;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// The extent of a read-ahead: `buffers` × `size` bytes of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of buffers; one is being filled, one being consumed, the others wait.
    pub buffers: usize,
    /// Bytes of each buffer.
    pub size: usize,
}

impl Shape {
    /// Four buffers of 512 KiB: two would do, two more absorb the jitter of a network.
    pub const DEFAULT: Shape = Shape { buffers: 4, size: 512 << 10 };

    /// Memory of all buffers.
    pub const fn memory(self) -> u64 {
        (self.buffers * self.size) as u64
    }
}

/// The consumer's side of a reader that runs ahead.
pub struct ReadAhead {
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

impl ReadAhead {
    /// Starts the thread; `name` shows up in debuggers.
    pub fn new(name: &str, inner: impl Read + Send + 'static, shape: Shape) -> crate::Result<Self> {
        ReadAhead::with_marks(name, inner, shape, None, 0)
    }

    /// Also reports to `marks` how far the consumer has come; its bytes begin at `start`.
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
            .spawn(move || {
                guard::confine::parser();
                run(inner, buffers, size, &full_in, &empty_out);
            })
            .map_err(|e| Error::failed(format!("cannot start the thread {name}")).because(e))?;
        Ok(ReadAhead {
            full,
            empty,
            buf: Vec::new(),
            range: 0..0,
            handed: start,
            marks,
            state: State::Running,
        })
    }
}

impl Read for ReadAhead {
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

impl HoleRead for ReadAhead {}

impl ReadAhead {
    fn next(&mut self) -> io::Result<()> {
        let used = std::mem::take(&mut self.buf);
        if !used.is_empty() {
            // The thread may have ended already; then the buffer is not needed.
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
                return Err(Error::failed("a reading thread ended without a result; this is a bug").into());
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
            // The consumer may be gone; that is fine.
            let _ = full.send(end);
            return;
        }
    }
}

/// Reads until `buf` is full or the input ends; bytes read before an error are not lost.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Boundary;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// Gives so many bytes, then does something else.
    struct Then {
        left: usize,
        given: Arc<AtomicUsize>,
        then: fn() -> io::Result<usize>,
    }

    impl Then {
        fn new(bytes: usize, then: fn() -> io::Result<usize>) -> Self {
            Then { left: bytes, given: Arc::default(), then }
        }
    }

    impl Read for Then {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            if self.left == 0 {
                return (self.then)();
            }
            let n = self.left.min(out.len()).min(77);
            out[..n].fill(7);
            self.left -= n;
            self.given.fetch_add(n, Ordering::SeqCst);
            Ok(n)
        }
    }

    const SMALL: Shape = Shape { buffers: 3, size: 1000 };

    #[test]
    fn all_bytes_come_and_then_the_end_for_ever() {
        for len in [0, 1, 999, 1000, 1001, 50_000] {
            let mut ahead = ReadAhead::new("t", Then::new(len, || Ok(0)), SMALL).unwrap();
            let mut out = Vec::new();
            assert_eq!(ahead.read_to_end(&mut out).unwrap(), len);
            assert!(out.iter().all(|&b| b == 7));
            assert_eq!(ahead.read(&mut [0; 10]).unwrap(), 0);
        }
    }

    #[test]
    fn an_error_comes_after_the_bytes_before_it_and_stays() {
        let fails: [fn() -> io::Result<usize>; 2] =
            [|| Err(Error::refused("as told").into()), || panic!("a reader that panics")];
        for (fail, sentence, before) in [(fails[0], "as told", 2500), (fails[1], "this is a bug", 2000)] {
            let mut ahead = ReadAhead::new("t", Then::new(2500, fail), SMALL).unwrap();
            let mut out = Vec::new();
            let e = ahead.read_to_end(&mut out).unwrap_err();
            assert!(e.to_string().contains(sentence), "{e}");
            assert_eq!(out.len(), before);
            for _ in 0..3 {
                ahead.read(&mut [0; 10]).unwrap_err();
            }
        }
    }

    #[test]
    fn it_runs_ahead_so_far_and_no_further() {
        let inner = Then::new(100_000, || Ok(0));
        let given = inner.given.clone();
        let mut ahead = ReadAhead::new("t", inner, SMALL).unwrap();
        ahead.read_exact(&mut [0; 10]).unwrap();
        let settled = |most: usize| {
            for _ in 0..1000 {
                if given.load(Ordering::SeqCst) == most {
                    break;
                }
                thread::sleep(Duration::from_millis(2));
            }
            thread::sleep(Duration::from_millis(20));
            assert_eq!(given.load(Ordering::SeqCst), most);
        };
        settled(3000);
        ahead.read_exact(&mut [0; 2000]).unwrap();
        settled(5000);
    }

    #[test]
    fn boundaries_are_told_when_their_bytes_have_been_returned() {
        let seen: Arc<Mutex<Vec<u64>>> = Arc::default();
        let marks = {
            let seen = seen.clone();
            Marks::new(Arc::new(move |b: Boundary| seen.lock().unwrap().push(b.output)), 100)
        };
        // At 100 decoding begins; 200 is too near to it to be worth a boundary.
        for output in [100, 200, 70_000, 140_000] {
            marks.put(Boundary { input: output / 2, output, state: Vec::new() });
        }
        let mut ahead =
            ReadAhead::with_marks("t", Then::new(150_000, || Ok(0)), SMALL, Some(marks), 100).unwrap();
        let mut read = |n: usize| ahead.read_exact(&mut vec![0; n]).unwrap();
        read(69_899);
        read(1);
        assert!(seen.lock().unwrap().is_empty());
        read(1);
        assert_eq!(*seen.lock().unwrap(), [70_000]);
        read(80_000);
        assert_eq!(*seen.lock().unwrap(), [70_000, 140_000]);
    }
}
