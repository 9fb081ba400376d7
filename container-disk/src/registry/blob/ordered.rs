//! The bytes of a large blob in order.
//!
//! It is fetched in pieces, small ones at first, since many a reader only wants to know what the blob begins with. Two
//! are under way at first; once they have their full size, one more whenever the reader has to wait for the front one, up
//! to four. All readers of the process share those beyond two, so that many at once need little memory. A server that
//! does not know ranges sends everything in one answer instead.

use super::pipe::{Outlet, pipe};
use super::source::Source;
use super::transfer::{Expect, bring};
use crate::{Error, Result};
use bytes::{Buf, Bytes};
use fetch::runtime;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;

const PIECE: u64 = 2 << 20;
const FIRST_PIECE: u64 = 128 << 10;
const FEW_PIECES: usize = 2;

/// The pieces that some readers have beyond their two.
static MORE_PIECES: Semaphore = Semaphore::const_new(2);

/// How much of a single answer waits to be read.
const AHEAD: usize = 4 << 20;

/// A reader of a blob.
pub(super) struct Ordered {
    source: Arc<Source>,
    /// The next byte that is handed out.
    at: u64,
    /// The next byte that is asked for.
    next: u64,
    /// Bytes of the next piece; doubles up to [`PIECE`].
    piece: u64,
    pieces: VecDeque<Piece>,
    /// Leave for pieces beyond two.
    more: Vec<SemaphorePermit<'static>>,
    current: Bytes,
    /// All in one answer.
    whole: bool,
}

struct Piece {
    outlet: Outlet,
    end: u64,
    task: AbortHandle,
    hungry: bool,
}

impl Ordered {
    pub(super) fn new(source: Arc<Source>, from: u64) -> Result<Ordered> {
        let (pieces, more, current) = Default::default();
        let piece = FIRST_PIECE;
        let mut ordered =
            Ordered { source, at: from, next: from, piece, pieces, more, current, whole: false };
        // The first piece shows whether the server knows ranges; only then is the second asked for.
        ordered.begin(Expect::Probe)?;
        Ok(ordered)
    }

    /// Asks for one more piece, if there is one.
    fn begin(&mut self, expect: Expect) -> Result<()> {
        if self.next >= self.source.size {
            return Ok(());
        }
        let end = match expect {
            Expect::Anything => self.source.size,
            _ => self.next.saturating_add(self.piece).min(self.source.size),
        };
        let capacity = if expect == Expect::Anything { AHEAD } else { PIECE as usize };
        let (mut inlet, outlet) = pipe(capacity);
        let (source, range, share) = (Arc::clone(&self.source), self.next..end, self.window() as u64);
        let share = if expect == Expect::Anything { 1 } else { share };
        let task = runtime()?.spawn(async move {
            if let Err(e) = bring(&source, range, expect, share, &mut inlet).await {
                inlet.fail(e);
            }
        });
        self.pieces.push_back(Piece { outlet, end, task: task.abort_handle(), hungry: false });
        self.next = end;
        self.piece = (2 * self.piece).min(PIECE);
        Ok(())
    }

    /// More bytes in `current`; false at the end.
    fn advance(&mut self) -> Result<bool> {
        while self.current.is_empty() {
            let Some(front) = self.pieces.front_mut() else { return Ok(false) };
            let item = match front.outlet.ready() {
                Some(item) => item,
                None => {
                    let waits = !std::mem::replace(&mut front.hungry, true);
                    if waits && !self.whole && self.piece == PIECE {
                        self.more.extend(MORE_PIECES.try_acquire());
                    }
                    front.outlet.next()
                }
            };
            match item {
                Some(Ok(bytes)) => {
                    self.at += bytes.len() as u64;
                    self.current = bytes;
                    self.fill()?;
                }
                None if self.at == front.end => {
                    self.pieces.pop_front();
                    self.fill()?;
                }
                None => {
                    return Err(Error::failed(format!(
                        "{}: the work on it ended too soon",
                        self.source.name
                    )));
                }
                Some(Err(_)) if !self.whole && self.source.no_ranges.load(Relaxed) => {
                    // Somebody does not know ranges, and nobody else could help: all in one answer, from here.
                    (self.whole, self.next) = (true, self.at);
                    self.pieces.clear();
                    self.more.clear();
                    self.begin(Expect::Anything)?;
                }
                Some(Err(e)) => return Err(e),
            }
        }
        Ok(true)
    }

    /// How many pieces are under way.
    fn window(&self) -> usize {
        FEW_PIECES + self.more.len()
    }

    fn fill(&mut self) -> Result<()> {
        while !self.whole && self.pieces.len() < self.window() && self.next < self.source.size {
            self.begin(Expect::Piece)?;
        }
        Ok(())
    }
}

impl Read for Ordered {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() || !self.advance()? {
            return Ok(0);
        }
        let n = out.len().min(self.current.len());
        self.current.copy_to_slice(&mut out[..n]);
        Ok(n)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.task.abort();
    }
}
