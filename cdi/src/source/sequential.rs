//! Bytes at any offset, read in order: fetched on demand and no further, where a stream would run ahead.

use disk_format::ReadAt;
use std::io::{self, Read};
use std::sync::Arc;

/// A reader from the first byte on.
pub(crate) struct Sequential {
    bytes: Arc<dyn ReadAt>,
    at: u64,
    piece: u64,
    buffer: Vec<u8>,
    used: usize,
}

/// Sizes of the fetched pieces: small at first and then doubled, so that round trips stay few.
const PIECES: std::ops::RangeInclusive<u64> = 128 << 10..=1 << 20;

impl Sequential {
    pub(crate) fn new(bytes: Arc<dyn ReadAt>) -> Self {
        Sequential { bytes, at: 0, piece: *PIECES.start(), buffer: vec![], used: 0 }
    }
}

impl Read for Sequential {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.used == self.buffer.len() {
            let len = self.bytes.size().saturating_sub(self.at).min(self.piece);
            self.buffer.resize(len as usize, 0);
            self.used = 0;
            self.bytes.read_exact_at(&mut self.buffer, self.at)?;
            self.at += len;
            self.piece = (2 * self.piece).min(*PIECES.end());
        }
        let n = buf.len().min(self.buffer.len() - self.used);
        buf[..n].copy_from_slice(&self.buffer[self.used..self.used + n]);
        self.used += n;
        Ok(n)
    }
}
