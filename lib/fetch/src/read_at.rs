//! Reads at any offset, from any number of threads: long reads are one request each, short ones use a small
//! cache.

use crate::cache::{Cache, SMALL};
use crate::ranged::on_this_thread;
use crate::{PartSink, Permit, Ranged, Result};
use bytes::Bytes;
use std::io;
use std::sync::Arc;

/// A file that is read at any offset.
pub struct ReadAt<R> {
    file: Arc<R>,
    cache: Cache,
}

impl<R: Ranged> ReadAt<R> {
    /// A reader with an empty cache.
    pub fn new(file: Arc<R>) -> ReadAt<R> {
        ReadAt { file, cache: Cache::default() }
    }

    /// The remote file below the cache.
    pub fn file(&self) -> &Arc<R> {
        &self.file
    }

    /// Fills `buf` from `offset`.
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let file = &*self.file;
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= file.size());
        if end.is_none() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let head = file.head();
        let known = usize::try_from(offset).ok().and_then(|from| head.get(from..)).unwrap_or_default();
        let known = &known[..known.len().min(buf.len())];
        let (front, rest) = buf.split_at_mut(known.len());
        front.copy_from_slice(known);
        let offset = offset + known.len() as u64;
        if rest.is_empty() {
            return Ok(());
        }
        if rest.len() <= SMALL {
            return Ok(self.cache.read(file, rest, offset)?);
        }
        let cached = self.cache.prefix(rest, offset);
        Ok(fetch(file, &mut rest[cached..], offset + cached as u64)?)
    }
}

/// Fills `buf` with one request.
fn fetch(file: &impl Ranged, buf: &mut [u8], offset: u64) -> Result<()> {
    if buf.is_empty() {
        return Ok(());
    }
    let range = offset..offset + buf.len() as u64;
    on_this_thread(file, range, &mut Fill { buf, filled: 0 })
}

/// A sink that fills the caller's buffer.
struct Fill<'a> {
    buf: &'a mut [u8],
    filled: usize,
}

impl PartSink for Fill<'_> {
    const READER_WAITS: bool = true;

    async fn take(&mut self, bytes: Bytes, _: &mut Option<Permit<'_>>) {
        // A transfer never gives more than its range, which is as long as the buffer.
        self.buf[self.filled..self.filled + bytes.len()].copy_from_slice(&bytes);
        self.filled += bytes.len();
    }
}
