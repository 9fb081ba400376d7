//! Reads at an offset: the interface of this crate to a file, a device, a remote object or memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes of a known size that can be read at any offset, by several threads at once.
///
/// An implementation retries errors that may pass, so an error it returns is final. Richer errors are wrapped
/// in `io::Error` and found again by `downcast`.
pub trait ReadAt: Send + Sync {
    /// Number of bytes. It must not change while the value lives.
    fn size(&self) -> u64;

    /// Fills `buf` from `offset`, or fails. Never a short read. Past the end the error is `UnexpectedEof`.
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

/// An open file, with its size at the time of opening.
#[derive(Debug)]
pub struct FileAt {
    file: File,
    size: u64,
}

impl FileAt {
    /// A file of `size` bytes. The size is a parameter because the metadata of a block device lack it.
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
