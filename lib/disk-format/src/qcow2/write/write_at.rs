//! Output of the qcow2 writer.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// An output with writes at any offset. The writer covers every byte of the file exactly once, so the
/// previous content does not matter.
pub trait WriteAt: Send + Sync {
    /// Writes all of `buf` at `offset`, or fails.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;

    /// Like `write_all_at`, for clusters of the guest, which come in rising order. Other writes are the
    /// header and tables.
    fn write_data_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(buf, offset)
    }

    /// Makes `len` bytes at `offset` read as zeros. A target that knows they do may only extend its length.
    fn zero_at(&self, len: u64, offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let n = (len - done).min(ZEROS.len() as u64);
            self.write_all_at(&ZEROS[..n as usize], offset + done)?;
            done += n;
        }
        Ok(())
    }
}

impl WriteAt for File {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, buf, offset)
    }
}

impl<T: WriteAt + ?Sized> WriteAt for &T {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_all_at(buf, offset)
    }
    fn write_data_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_data_at(buf, offset)
    }
    fn zero_at(&self, len: u64, offset: u64) -> io::Result<()> {
        (**self).zero_at(len, offset)
    }
}

impl<T: WriteAt + ?Sized> WriteAt for Arc<T> {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_all_at(buf, offset)
    }
    fn write_data_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        (**self).write_data_at(buf, offset)
    }
    fn zero_at(&self, len: u64, offset: u64) -> io::Result<()> {
        (**self).zero_at(len, offset)
    }
}

/// A file that was empty when it was opened, so that zeros can stay holes.
#[derive(Debug)]
pub struct FreshFile(pub File);

impl WriteAt for FreshFile {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(&self.0, buf, offset)
    }
    fn zero_at(&self, len: u64, offset: u64) -> io::Result<()> {
        let end = offset + len;
        if self.0.metadata()?.len() < end { self.0.set_len(end) } else { Ok(()) }
    }
}

/// A file in memory.
impl WriteAt for Mutex<Vec<u8>> {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.lock().unwrap_or_else(PoisonError::into_inner);
        let from = usize::try_from(offset).map_err(io::Error::other)?;
        let end = from.checked_add(buf.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[from..end].copy_from_slice(buf);
        Ok(())
    }
}
