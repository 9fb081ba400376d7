//! Bytes at an offset: the one way this crate sees a file, a device, a remote object or a test's memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes of a known size that may be read at any offset, by several threads at once.
///
/// An implementation retries what can be retried; an error that comes out is final. Errors of a richer kind travel
/// inside `io::Error` and are found again by `downcast`.
pub trait ReadAt: Send + Sync {
    /// How many bytes there are. It does not change while the value lives.
    fn size(&self) -> u64;

    /// Fills `buf` from `offset`, or fails: never a short read. Past the end is `UnexpectedEof`.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
}

impl<T: ReadAt + ?Sized> ReadAt for Arc<T> {
    fn size(&self) -> u64 {
        (**self).size()
    }
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_exact_at(buf, offset)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn size(&self) -> u64 {
        (**self).size()
    }
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_exact_at(buf, offset)
    }
}

impl ReadAt for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let from =
            usize::try_from(offset).ok().filter(|&o| o <= self.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        let bytes = self[from..].get(..buf.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.as_slice().read_exact_at(buf, offset)
    }
}

/// An open file with the size it had when it was measured.
#[derive(Debug)]
pub struct FileAt {
    file: File,
    size: u64,
}

impl FileAt {
    /// `size` is given because a block device does not tell it through metadata.
    pub fn new(file: File, size: u64) -> Self {
        FileAt { file, size }
    }
}

impl ReadAt for FileAt {
    fn size(&self) -> u64 {
        self.size
    }
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(&self.file, buf, offset)
    }
}
