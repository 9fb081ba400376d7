//! A sparse raw disk in an anonymous file, for conversions that cannot go in one pass: a stream that is not
//! in guest order, to a target that is; and a qcow2 to a target that takes bytes in order, since its tables
//! come last.

use super::holes::{DataMap, Sparse};
use crate::source::data_map;
use crate::spool::lost;
use crate::target::{Finished, Order, Target};
use crate::{Error, Result, sys};
use container_disk::{AnonymousFile, anonymous_file};
use disk_format::{Format, read_at::FileAt};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The temporary disk, in a file without a name.
pub(crate) struct Scratch {
    file: AnonymousFile,
    folder: PathBuf,
    written: AtomicU64,
}

impl Scratch {
    /// Creates it in `folder`; it is gone when it is dropped.
    pub(crate) fn beside(folder: &Path) -> Result<Self> {
        let file = anonymous_file(folder)
            .map_err(|e| Error::io(format!("cannot make a temporary file in {}", folder.display()), e))?;
        Ok(Scratch { file, folder: folder.to_owned(), written: AtomicU64::new(0) })
    }

    /// Bytes written to it.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// The complete disk, for reading.
    pub(crate) fn image(&self, size: u64) -> Result<(Sparse, FileAt)> {
        let failed = |e| Error::io("cannot use the temporary disk", e);
        self.file.set_len(size).map_err(failed)?;
        let bytes = FileAt::new(self.file.try_clone().map_err(failed)?, size);
        let file = Arc::new(self.file.try_clone().map_err(failed)?);
        Ok((Sparse::new(Format::Raw, size, move || Box::new(data_map(file.clone(), size)) as DataMap), bytes))
    }

    /// Writes the first `size` bytes to a target that takes them in order.
    pub(crate) fn copy_to(&self, size: u64, target: &dyn Target) -> Result<()> {
        target.announce(size)?;
        self.copy_with(size, |at, part| target.write(at, part))
    }

    /// Passes the first `size` bytes in order, with their offsets.
    pub(crate) fn copy_with(&self, size: u64, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let failed = |e| Error::io("cannot use the temporary file", e);
        // A hole at its end is part of it.
        self.file.set_len(size).map_err(failed)?;
        let mut piece = vec![0; 1 << 20];
        let mut at = 0;
        while at < size {
            let part = &mut piece[..(1 << 20).min((size - at) as usize)];
            self.file.read_exact_at(part, at).map_err(|e| Error::io("cannot read the temporary file", e))?;
            take(at, part)?;
            at += part.len() as u64;
        }
        self.check_written_back()
    }

    /// Fails if the read bytes may not be the written ones. Called after the last read.
    pub(crate) fn check_written_back(&self) -> Result<()> {
        sys::written_back(self.file.as_fd()).map_err(|e| lost(&self.folder, e))
    }
}

impl Target for Scratch {
    fn order(&self) -> Order {
        Order::Any
    }

    fn write(&self, guest: u64, data: &[u8]) -> Result<()> {
        self.written.fetch_add(data.len() as u64, Relaxed);
        self.file.write_all_at(data, guest).map_err(|e| {
            Error::io(format!("cannot keep {} bytes of the disk in {}", data.len(), self.folder.display()), e)
        })
    }

    fn zero(&self, _guest: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        Ok(Finished::default())
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").field("folder", &self.folder).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::memory_targets::{AnyOrder, InOrder};
    use disk_format::{Data, Image as _, ReadAt as _};

    const MIB: usize = 1 << 20;

    /// A disk of 2.5 MiB and a rest, with a hole in its middle and one at its end.
    fn disk() -> (tempfile::TempDir, Scratch, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::beside(folder.path()).unwrap();
        let mut disk = vec![0; 2 * MIB + MIB / 2 + 512];
        for (at, byte, len) in [(2 * MIB - 4096, 2, 8192), (0, 1, 4096)] {
            disk[at..at + len].fill(byte);
            scratch.write(at as u64, &disk[at..at + len]).unwrap();
        }
        scratch.zero(MIB as u64, 4096).unwrap();
        assert_eq!(scratch.written(), 12288);
        (folder, scratch, disk)
    }

    #[test]
    fn a_disk_that_was_written_in_any_order_is_copied_in_guest_order() {
        let (_folder, scratch, disk) = disk();
        let target = InOrder::default();
        scratch.copy_to(disk.len() as u64, &target).unwrap();
        assert!(*target.bytes.lock().unwrap() == disk);
        assert_eq!(*target.announced.lock().unwrap(), Some(disk.len() as u64));
    }

    #[test]
    fn a_target_that_fails_ends_the_copy() {
        let (_folder, scratch, disk) = disk();
        let mut taken = vec![];
        let failed = scratch.copy_with(disk.len() as u64, |at, part| {
            taken.push((at, part.len()));
            if at > 0 { Err(Error::failed("the target is full")) } else { Ok(()) }
        });
        assert_eq!(failed.unwrap_err().to_string(), "the target is full");
        assert_eq!(taken, [(0, MIB), (MIB as u64, MIB)]);
    }

    #[test]
    fn the_image_of_a_disk_knows_its_data_and_holds_its_bytes() {
        let (_folder, scratch, disk) = disk();
        let (image, bytes) = scratch.image(disk.len() as u64).unwrap();
        assert_eq!((image.virtual_size(), bytes.size()), (disk.len() as u64, disk.len() as u64));
        let read = AnyOrder::of_size(disk.len());
        for extent in image.window(0).unwrap().extents {
            let mut part = vec![0; extent.len as usize];
            if let Data::Raw { at } = extent.data {
                bytes.read_exact_at(&mut part, at).unwrap();
            }
            read.write(extent.guest, &part).unwrap();
        }
        assert!(*read.0.lock().unwrap() == disk);
    }
}
