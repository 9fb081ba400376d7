//! Reads at any offset, from any number of threads.

use super::cache::SMALL;
use super::gate::Pass;
use super::remote::{Remote, Sink};
use bytes::Bytes;
use disk_format::ReadAt;
use fetch::{Result, runtime};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The file as [`ReadAt`].
pub(super) struct RemoteAt(pub(super) Arc<Remote>);

impl ReadAt for RemoteAt {
    fn size(&self) -> u64 {
        self.0.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let remote = &*self.0;
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= remote.size);
        if end.is_none() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let known = usize::try_from(offset).ok().and_then(|from| remote.head.get(from..)).unwrap_or_default();
        let known = &known[..known.len().min(buf.len())];
        let (front, rest) = buf.split_at_mut(known.len());
        front.copy_from_slice(known);
        let offset = offset + known.len() as u64;
        if rest.is_empty() {
            return Ok(());
        }
        if rest.len() <= SMALL {
            return Ok(remote.cache.read(remote, rest, offset)?);
        }
        let cached = remote.cache.prefix(rest, offset);
        Ok(fetch(remote, &mut rest[cached..], offset + cached as u64)?)
    }
}

/// Fills `buf` with one request.
fn fetch(remote: &Remote, buf: &mut [u8], offset: u64) -> Result<()> {
    if buf.is_empty() {
        return Ok(());
    }
    let range = offset..offset + buf.len() as u64;
    on_this_thread(remote, range, &mut Fill { buf, filled: 0 })
}

/// Runs a transfer on the calling thread.
pub(super) fn on_this_thread(remote: &Remote, range: Range<u64>, sink: &mut impl Sink) -> Result<()> {
    runtime()?.block_on(remote.transfer(range, sink))
}

/// The caller's buffer.
struct Fill<'a> {
    buf: &'a mut [u8],
    filled: usize,
}

impl Sink for Fill<'_> {
    const SOMEONE_WAITS: bool = true;

    async fn take(&mut self, bytes: Bytes, _: &mut Option<Pass<'_>>) {
        // A transfer never gives more than its range, which is as long as the buffer.
        self.buf[self.filled..self.filled + bytes.len()].copy_from_slice(&bytes);
        self.filled += bytes.len();
    }
}
