//! A reader that gives a file in order and fetches it as several ranges at once.
//!
//! ```text
//!   read() ◄── front │ segment │ segment │ segment (waits for its turn)      next ─► size
//!              its bytes are read while they come; the others fill their queues meanwhile
//! ```
//!
//! A [`Window`] sets the number of segments under way and their lengths. The first segment shows whether the
//! server supports ranges. If not, the rest comes in one answer from there.

use crate::queue::{Filler, Next, Queue};
use crate::{Error, Expect, Part, Ranged, Result, runtime};
use bytes::Bytes;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The memory of one segment's queue: its length, up to this.
pub const MOST_HELD: u64 = 4 << 20;

/// A policy for how far ahead of its reader a file is fetched.
pub trait Window: Send {
    /// The length of the next segment; `None` if no more are wanted. `under_way`: the number of segments in
    /// progress; `held`: their memory in bytes.
    fn next(&mut self, under_way: usize, held: u64) -> Option<u64>;

    /// The present number of segments at once.
    fn width(&self) -> usize;

    /// The front segment gave bytes or its end after this wait; `first` is true if it is the first wait for
    /// this segment.
    fn waited(&mut self, time: Duration, first: bool);

    /// No more segments: the rest comes in one answer.
    fn close(&mut self) {}
}

/// A reader of a file in order, over several ranges at once.
pub struct Ordered<R, W> {
    file: Arc<R>,
    window: W,
    segments: VecDeque<Segment>,
    /// The first byte that no segment has given yet.
    at: u64,
    /// The start of the next segment.
    next: u64,
    current: Bytes,
    begun: bool,
    /// The rest comes in one answer.
    whole: bool,
    failed: bool,
}

struct Segment {
    queue: Arc<Queue>,
    held: u64,
    end: u64,
    has_waited: bool,
    task: JoinHandle<()>,
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<R: Ranged, W: Window> Ordered<R, W> {
    /// A reader from the offset `from`, which is at most the size. Nothing is requested before the first
    /// read, or [`Self::begin`].
    pub fn new(file: Arc<R>, from: u64, window: W) -> Ordered<R, W> {
        let head = file.head();
        let known = usize::try_from(from).ok().filter(|from| *from < head.len());
        let current = known.map(|from| head.slice(from..)).unwrap_or_default();
        let next = from + current.len() as u64;
        let segments = VecDeque::new();
        Ordered { file, window, segments, at: next, next, current, begun: false, whole: false, failed: false }
    }

    /// Requests the first segments now.
    pub fn begin(mut self) -> Result<Ordered<R, W>> {
        self.top_up()?;
        Ok(self)
    }

    /// Keeps as many segments under way as the window allows.
    fn top_up(&mut self) -> Result<()> {
        while !self.whole && self.next < self.file.size() {
            let held = self.segments.iter().map(|segment| segment.held).sum();
            let Some(len) = self.window.next(self.segments.len(), held) else { return Ok(()) };
            let end = self.next.saturating_add(len.max(1)).min(self.file.size());
            let expect = if self.begun { Expect::Piece } else { Expect::Probe };
            self.start(end, expect)?;
        }
        Ok(())
    }

    fn start(&mut self, end: u64, expect: Expect) -> Result<()> {
        let range = self.next..end;
        let held = (end - self.next).min(MOST_HELD);
        let queue = Queue::new(usize::try_from(held).unwrap_or(usize::MAX));
        let share = if expect == Expect::Anything { 1 } else { self.window.width() };
        let part = Part { range, expect, share };
        let (file, mut filler) = (Arc::clone(&self.file), Filler(Arc::clone(&queue)));
        let task = runtime()?.spawn(async move {
            let end = file.transfer(part, &mut filler).await;
            filler.0.close(end);
        });
        self.segments.push_back(Segment { queue, held, end, has_waited: false, task });
        (self.next, self.begun) = (end, true);
        Ok(())
    }

    fn refill(&mut self) -> Result<()> {
        if self.failed {
            return Err(ended_by_error(self.file.name()));
        }
        self.top_up()?;
        while let Some(front) = self.segments.front_mut() {
            let (next, waited) = front.queue.next();
            let first = !waited.is_zero() && !std::mem::replace(&mut front.has_waited, true);
            let is_all = self.at == front.end;
            match next {
                Next::Bytes(bytes) => {
                    self.at += bytes.len() as u64;
                    self.current = bytes;
                    self.window.waited(waited, first);
                    return self.top_up();
                }
                Next::End(Ok(())) if is_all => {
                    self.window.waited(waited, first);
                    self.segments.pop_front();
                    self.top_up()?;
                }
                Next::End(Ok(())) => {
                    let (at, end) = (self.at, front.end);
                    return Err(self.fail(Error::failed(format!(
                        "{}: the transfer ended at byte {at}, before byte {end}",
                        self.file.name()
                    ))));
                }
                Next::End(Err(_)) if !self.whole && self.file.comes_whole() => {
                    (self.whole, self.next) = (true, self.at);
                    self.segments.clear();
                    self.window.close();
                    self.start(self.file.size(), Expect::Anything)?;
                }
                Next::End(Err(e)) => return Err(self.fail(e)),
            }
        }
        Ok(())
    }

    /// Ends the reader: bytes after a gap must never be read.
    fn fail(&mut self, e: Error) -> Error {
        self.segments.clear();
        self.failed = true;
        e
    }
}

impl<R: Ranged, W: Window> Read for Ordered<R, W> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.current.is_empty() && !buf.is_empty() {
            self.refill()?;
        }
        Ok(hand_out(&mut self.current, buf))
    }
}

/// Moves the beginning of `bytes` into `buf`.
pub fn hand_out(bytes: &mut Bytes, buf: &mut [u8]) -> usize {
    let len = bytes.len().min(buf.len());
    buf[..len].copy_from_slice(&bytes.split_to(len));
    len
}

/// The error of a reader that is read again after an error: it must not look as if it had ended well.
pub fn ended_by_error(name: &str) -> Error {
    Error::failed(format!("{name}: reading was given up after an error"))
}
