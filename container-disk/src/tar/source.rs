//! Input for the tar reader: a stream, or bytes at any offset, which can be skipped without reading.

use disk_format::ReadAt;
use std::io::{self, Read};
use std::sync::Arc;

/// The bytes of a tar.
pub trait Source: Read + Send {
    /// Skips bytes. An early end is the error `UnexpectedEof`.
    fn skip(&mut self, bytes: u64) -> io::Result<()>;
}

/// A stream that is read in order.
pub struct Streamed<R> {
    inner: R,
    scratch: Vec<u8>,
}

impl<R: Read + Send> Streamed<R> {
    /// Reads a tar from the beginning of `inner`.
    pub fn new(inner: R) -> Self {
        Streamed { inner, scratch: Vec::new() }
    }
}

impl<R: Read> Read for Streamed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.inner.read(out)
    }
}

impl<R: Read + Send> Source for Streamed<R> {
    fn skip(&mut self, mut bytes: u64) -> io::Result<()> {
        if bytes > 0 {
            self.scratch.resize(128 << 10, 0);
        }
        while bytes > 0 {
            let most = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.scratch.len());
            match self.inner.read(&mut self.scratch[..most]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => bytes -= n as u64,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Bytes that can be read at any offset. Small reads are served from a window, so that many headers cost one
/// request to a remote file.
pub struct Seekable {
    bytes: Arc<dyn ReadAt>,
    at: u64,
    window: Vec<u8>,
    window_at: u64,
}

const WINDOW: u64 = 64 << 10;

impl Seekable {
    /// Reads a tar that consists of all `bytes`.
    pub fn new(bytes: Arc<dyn ReadAt>) -> Self {
        Seekable { bytes, at: 0, window: Vec::new(), window_at: 0 }
    }

    /// The bytes of the window from the current position on.
    fn held(&self) -> &[u8] {
        let from = self.at.checked_sub(self.window_at).and_then(|from| usize::try_from(from).ok());
        from.and_then(|from| self.window.get(from..)).unwrap_or_default()
    }
}

impl Read for Seekable {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.bytes.size().saturating_sub(self.at);
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        if n as u64 >= WINDOW {
            self.bytes.read_exact_at(&mut out[..n], self.at)?;
            self.at += n as u64;
            return Ok(n);
        }
        if n > 0 && self.held().is_empty() {
            self.window.resize(left.min(WINDOW) as usize, 0);
            self.window_at = self.at;
            self.bytes.read_exact_at(&mut self.window, self.at)?;
        }
        let held = self.held();
        let n = n.min(held.len());
        out[..n].copy_from_slice(&held[..n]);
        self.at += n as u64;
        Ok(n)
    }
}

impl Source for Seekable {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let to = self.at.checked_add(bytes).filter(|to| *to <= self.bytes.size());
        self.at = to.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(())
    }
}
