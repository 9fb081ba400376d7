//! A block device: opened exclusively, written in place.
//!
//! Only the disk is written: on a larger device the bytes behind its end stay as they are. A device has no
//! holes, and old data of an earlier user must not show through, so a zero range is always zeroed explicitly:
//!
//! | in this order | effect |
//! |---|---|
//! | fallocate(PUNCH_HOLE) | the device frees the blocks, and guarantees that they read as zeros from now on |
//! | fallocate(ZERO_RANGE), the kernel's BLKZEROOUT | the device writes zeros by itself, or the kernel sends them |
//! | pwrite | this program sends zeros |
//!
//! A bare discard (BLKDISCARD) guarantees nothing about later reads and is never used. `start.rs` decides if
//! an earlier run is continued. A device has no other name to be renamed from: until [`Target::finish`] it
//! holds a part of the disk.

mod start;

pub use start::forget;

use super::real_folder;
use super::sync_guard::SyncGuard;
use super::{Finished, Order, Target};
use crate::size::Human;
use crate::{Detail, Error, Result};
use container_disk::write_behind::WriteBehind;
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use storage::kernel_lists::{device_holders, sys_block};
use storage::{Access, Claim, PATIENCE, Storage, claim_device};

/// Whole pages are zeroed by the device, the edges by writes: the kernel drops the cached pages of a range it
/// zeroes, and a page must not be half in the range.
const PAGE: u64 = 4096;
/// Shorter zero ranges are written: a write waits in the page cache, a zeroing call waits for the device.
const WORTH_A_CALL: u64 = 256 << 10;
static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// A block device being written.
pub struct BlockTarget {
    // Dropped before the file: its thread holds the device, which must be open here only.
    behind: WriteBehind,
    file: File,
    path: PathBuf,
    capacity: u64,
    how: AtomicU8,
    syncs: SyncGuard,
}

/// Methods of zeroing, best first.
const PUNCH: u8 = 0;
const ZERO: u8 = 1;
const WRITE: u8 = 2;

impl BlockTarget {
    /// Refuses a device that is mounted or otherwise in use, is read-only, or is smaller than the disk
    /// (`size`, if it is known). The path may be a link (`/dev/disk/by-id/…`).
    pub fn open(path: &Path, size: Option<u64>) -> Result<Self> {
        let shown = path.display();
        let cannot = |e| Error::io(format!("cannot examine {shown}"), e);
        let meta = std::fs::metadata(path).map_err(cannot)?;
        if !meta.file_type().is_block_device() {
            return Err(Error::refused(format!("the target {shown} is not a block device")));
        }
        let file = open_alone(path, meta.rdev())?;
        if file.metadata().map_err(cannot)?.rdev() != meta.rdev() {
            return Err(Error::failed(format!(
                "the target {shown} became another device while it was opened"
            )));
        }
        let capacity =
            (&file).seek(SeekFrom::End(0)).map_err(|e| Error::io(format!("cannot measure {shown}"), e))?;
        let behind = WriteBehind::for_file(&file).map_err(cannot)?;
        let (path, how, syncs) = (path.to_owned(), AtomicU8::new(PUNCH), SyncGuard::default());
        let target = BlockTarget { behind, file, path, capacity, how, syncs };
        target.fits(size.unwrap_or(0))?;
        // An error of another program's writes is reported here, and not by the later syncs of this run.
        real_folder::drop_cache(&target.file);
        Ok(target)
    }

    /// The size of the device.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The storage below the device, to refuse a source that lies in it.
    pub(crate) fn storage(&self) -> Result<Storage> {
        let name = self.path.display().to_string();
        Storage::of(&self.file, &name).map_err(|e| Error::io(format!("cannot examine {name}"), e))
    }

    fn fits(&self, size: u64) -> Result<()> {
        if size <= self.capacity {
            return Ok(());
        }
        let what = format!(
            "the device {} has {} bytes ({}), the disk needs {size} ({})",
            self.path.display(),
            self.capacity,
            Human(self.capacity),
            Human(size)
        );
        Err(Error::refused(what).with_detail(Detail::Behind { size: self.capacity }))
    }

    fn reach(&self, guest: u64, len: u64) -> Result<u64> {
        let end = guest.saturating_add(len);
        self.fits(end)?;
        Ok(end)
    }

    fn write_failed(&self, guest: u64, e: io::Error) -> Error {
        Error::io(format!("cannot write at offset {guest} of the device {}", self.path.display()), e)
    }

    /// Zeros a range that begins and ends at a page.
    fn zero_pages(&self, from: u64, len: u64) -> io::Result<()> {
        loop {
            let how = self.how.load(Ordering::Relaxed);
            let flags = match how {
                PUNCH => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                ZERO => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
                WRITE.. => return self.write_zeros(from, len),
            };
            match rustix::fs::fallocate(&self.file, flags, from, len) {
                Ok(()) => return Ok(()),
                // Not every device can do each, and some report that only at the first call.
                Err(e) if real_folder::is_unsupported(e) => {
                    tracing::debug!("{} does not zero by way {how}: {e}", self.path.display());
                    self.how.fetch_max(how + 1, Ordering::Relaxed);
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn write_zeros(&self, from: u64, len: u64) -> io::Result<()> {
        let (mut at, mut left) = (from, len);
        while left > 0 {
            let n = left.min(ZEROS.len() as u64);
            self.file.write_all_at(&ZEROS[..n as usize], at)?;
            self.behind.count(n);
            at += n;
            left -= n;
        }
        Ok(())
    }
}

impl Target for BlockTarget {
    fn order(&self) -> Order {
        Order::Any
    }

    fn write(&self, guest: u64, data: &[u8]) -> Result<()> {
        self.reach(guest, data.len() as u64)?;
        self.file.write_all_at(data, guest).map_err(|e| self.write_failed(guest, e))?;
        self.behind.count(data.len() as u64);
        Ok(())
    }

    fn zero(&self, guest: u64, len: u64) -> Result<()> {
        let end = self.reach(guest, len)?;
        let (first, last) = (guest.next_multiple_of(PAGE).min(end), end - end % PAGE);
        let done = if len < WORTH_A_CALL {
            self.write_zeros(guest, len)
        } else {
            self.write_zeros(guest, first - guest)
                .and_then(|()| self.zero_pages(first, last - first))
                .and_then(|()| self.write_zeros(last, end - last))
        };
        done.map_err(|e| self.write_failed(guest, e))
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.fits(size)
    }

    fn sync(&self) -> Result<()> {
        self.syncs
            .run(|| self.file.sync_data())
            .map_err(|e| Error::io(format!("cannot sync the device {}", self.path.display()), e))
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        self.sync()?;
        Ok(Finished { allocated: self.behind.written() })
    }
}

/// Opens a device that is not in use, by whichever name: no mount, no swap, no device mapper, no QEMU.
fn open_alone(path: &Path, rdev: u64) -> Result<File> {
    let shown = path.display();
    // Root may open such a device for writing all the same, and the first write fails.
    if std::fs::read_to_string(sys_block(rdev).join("ro")).is_ok_and(|ro| ro.trim() == "1") {
        return Err(Error::failed(format!("the target {shown} is a read-only device")));
    }
    let in_use = |by: &str| Error::failed(format!("the target {shown} is in use: {by}"));
    let cannot = |e| Error::io(format!("cannot examine {shown}"), e);
    // A claim is waited for, since it may be udev's. That of a guest is shown by the locks of its QEMU.
    if device_holders(rdev).is_empty()
        && let Some(by) = Storage::of_path(path).map_err(cannot)?.user(Access::Writes)
    {
        return Err(in_use(&by));
    }
    let file = match claim_device(path, Access::Writes) {
        Ok(Claim::Taken(file)) => file,
        Ok(Claim::InUse(by)) => return Err(in_use(&by)),
        Err(e) => {
            let error = match e.kind() {
                io::ErrorKind::PermissionDenied => {
                    Error::failed(format!("no permission to write the device {shown}"))
                        .with_detail(Detail::Denied(path.to_owned()))
                }
                _ => Error::failed(format!("cannot open the device {shown}")),
            };
            return Err(error.because(e));
        }
    };
    // A guest may have started meanwhile.
    let storage = Storage::of(&file, &shown.to_string()).map_err(cannot)?;
    if let Some(by) = storage.user(Access::Writes) {
        return Err(in_use(&by));
    }
    // The lock also keeps udev from probing half a disk.
    let patience = Instant::now() + PATIENCE;
    while let Err(Errno::WOULDBLOCK) = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if Instant::now() > patience {
            return Err(in_use("another process has locked it"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
