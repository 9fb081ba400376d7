//! Reads of a blob at any offset, from any number of threads.
//!
//! A long read is one request. A short one brings the block around it, and a few blocks are kept: headers and tables
//! are read in many small steps.

use super::source::Source;
use super::transfer::{Expect, Sink, bring};
use crate::Result;
use bytes::Bytes;
use disk_format::ReadAt;
use fetch::runtime;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

const BLOCK: u64 = 64 << 10;
const MOST_BLOCKS: usize = 32;

/// A blob as [`ReadAt`].
pub(super) struct RemoteAt {
    source: Arc<Source>,
    /// The last one used is at the back.
    blocks: Mutex<VecDeque<(u64, Bytes)>>,
}

impl RemoteAt {
    pub(super) fn new(source: Arc<Source>) -> RemoteAt {
        RemoteAt { source, blocks: Mutex::default() }
    }

    /// Whether the server sends a part of it. Another reason to fail is no reason to say no: it shows in the reading.
    pub(super) fn knows_ranges(&self) -> bool {
        let mut byte = [0];
        let mut fill = Fill { buf: &mut byte, filled: 0 };
        let probed =
            runtime().map(|runtime| runtime.block_on(bring(&self.source, 0..1, Expect::Probe, 1, &mut fill)));
        !(matches!(probed, Ok(Err(_))) && self.source.no_ranges.load(Relaxed))
    }

    /// The block with this number.
    fn block(&self, number: u64) -> Result<Bytes> {
        if let Some(bytes) = self.known(number) {
            return Ok(bytes);
        }
        let start = number * BLOCK;
        let end = start.saturating_add(BLOCK).min(self.source.size);
        let mut buf = vec![0; (end - start) as usize];
        self.fetch(&mut buf, start)?;
        let bytes = Bytes::from(buf);
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.push_back((number, bytes.clone()));
        if blocks.len() > MOST_BLOCKS {
            blocks.pop_front();
        }
        Ok(bytes)
    }

    fn known(&self, number: u64) -> Option<Bytes> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let at = blocks.iter().position(|(known, _)| *known == number)?;
        let found = blocks.remove(at)?;
        blocks.push_back(found.clone());
        Some(found.1)
    }

    fn fetch(&self, buf: &mut [u8], start: u64) -> Result<()> {
        let range = start..start + buf.len() as u64;
        let mut fill = Fill { buf, filled: 0 };
        runtime()?.block_on(bring(&self.source, range, Expect::Piece, 1, &mut fill))
    }
}

impl ReadAt for RemoteAt {
    fn size(&self) -> u64 {
        self.source.size
    }

    fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= self.source.size);
        if end.is_none() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if buf.len() as u64 >= BLOCK {
            return Ok(self.fetch(buf, offset)?);
        }
        while !buf.is_empty() {
            let block = self.block(offset / BLOCK)?;
            let from = (offset % BLOCK) as usize;
            let piece = block.get(from..).unwrap_or_default();
            let n = piece.len().min(buf.len());
            let (front, rest) = buf.split_at_mut(n);
            front.copy_from_slice(&piece[..n]);
            (buf, offset) = (rest, offset + n as u64);
        }
        Ok(())
    }
}

/// The caller's buffer, which is as long as the range.
struct Fill<'a> {
    buf: &'a mut [u8],
    filled: usize,
}

impl Sink for Fill<'_> {
    async fn take(&mut self, bytes: Bytes) -> bool {
        let end = self.filled + bytes.len();
        if let Some(place) = self.buf.get_mut(self.filled..end) {
            place.copy_from_slice(&bytes);
        }
        self.filled = end;
        true
    }
}
