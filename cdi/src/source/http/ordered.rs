//! A file in order, fetched as several ranges at once.
//!
//! ```text
//!   read() ◄── front │ segment │ segment │ segment (waits for a pass)      next ─► size
//!              its bytes are read while they come; the others fill their queues meanwhile
//! ```
//!
//! With one request at a time a segment is long, so that it is as good as one response; with several it is short,
//! so that all of them fit the memory bound.

use super::queue::{Filler, Next, Queue};
use super::remote::Remote;
use bytes::Bytes;
use fetch::{Error, Result, runtime};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use tokio::task::JoinHandle;

const MIB: u64 = 1 << 20;
/// The memory of all queues together.
const BUDGET: u64 = 16 * MIB;
/// The memory of one queue.
const MOST_HELD: u64 = 4 * MIB;
/// A segment when it is alone.
const LONG: u64 = 16 * MIB;

/// See the head of this file.
pub(super) struct Ordered {
    remote: Arc<Remote>,
    segments: VecDeque<Segment>,
    /// Where the next segment begins.
    next: u64,
    current: Bytes,
    failed: bool,
}

struct Segment {
    queue: Arc<Queue>,
    held: u64,
    task: JoinHandle<()>,
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Ordered {
    /// `from` is at most the size.
    pub(super) fn new(remote: Arc<Remote>, from: u64) -> Ordered {
        let known = usize::try_from(from).ok().filter(|from| *from < remote.head.len());
        let current = known.map(|from| remote.head.slice(from..)).unwrap_or_default();
        Ordered {
            remote,
            segments: VecDeque::new(),
            next: from + current.len() as u64,
            current,
            failed: false,
        }
    }

    /// Keeps as many segments under way as the gate lets pass, and one more that waits its turn.
    fn top_up(&mut self) -> Result<()> {
        let limit = self.remote.line.gate.limit();
        let several = (BUDGET / (limit as u64 + 1)).clamp(MIB, MOST_HELD);
        let len = if limit == 1 { LONG } else { several };
        let mut held: u64 = self.segments.iter().map(|segment| segment.held).sum();
        while self.segments.len() <= limit && self.next < self.remote.size && held < BUDGET {
            let end = self.next.saturating_add(len).min(self.remote.size);
            let segment = self.start(self.next, end)?;
            held += segment.held;
            self.segments.push_back(segment);
            self.next = end;
        }
        Ok(())
    }

    fn start(&self, from: u64, end: u64) -> Result<Segment> {
        let held = (end - from).min(MOST_HELD);
        let queue = Queue::new(usize::try_from(held).unwrap_or(usize::MAX));
        let (remote, mut filler) = (Arc::clone(&self.remote), Filler(Arc::clone(&queue)));
        let task = runtime()?.spawn(async move {
            let end = remote.transfer(from..end, &mut filler).await;
            filler.0.close(end);
        });
        Ok(Segment { queue, held, task })
    }

    fn refill(&mut self) -> Result<()> {
        if self.failed {
            return Err(ended_by_error(self.remote.line.name()));
        }
        self.top_up()?;
        while let Some(front) = self.segments.front() {
            let (next, waited) = front.queue.next();
            self.remote.line.gate.hungry(waited);
            match next {
                Next::Bytes(bytes) => {
                    self.current = bytes;
                    return Ok(());
                }
                Next::End(Ok(())) => {
                    self.segments.pop_front();
                    self.top_up()?;
                }
                Next::End(Err(e)) => {
                    // Nothing after a gap may ever be read.
                    self.segments.clear();
                    self.failed = true;
                    return Err(e);
                }
            }
        }
        Ok(())
    }
}

impl Read for Ordered {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.current.is_empty() && !buf.is_empty() {
            self.refill()?;
        }
        Ok(hand_out(&mut self.current, buf))
    }
}

/// Moves the beginning of `bytes` into `buf`.
pub(super) fn hand_out(bytes: &mut Bytes, buf: &mut [u8]) -> usize {
    let len = bytes.len().min(buf.len());
    buf[..len].copy_from_slice(&bytes.split_to(len));
    len
}

/// After an error a reader has no more bytes, and must not look as if it had ended well.
pub(super) fn ended_by_error(name: &str) -> Error {
    Error::failed(format!("{name}: reading was given up after an error"))
}
