//! System calls that no safe crate offers. All others go through `std` and `rustix`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

/// Fails if bytes of a file were lost on their way to the device. Pages that the kernel could not write count
/// as clean, and once they have left the memory a read brings the old bytes. Called after the last read of a
/// temporary file, it shows if any read may have been wrong. Only a sync does this on every file system:
/// sync_file_range(2), which would write less, asks the inode of an overlay and not the one below it.
pub(crate) fn written_back(file: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(file)?)
}

/// Writes all dirty pages of a block device, and waits for them. The device's own cache is not flushed, which
/// may take long, unless a sync is all that is permitted.
#[allow(unsafe_code)]
pub(crate) fn pages_written(device: BorrowedFd<'_>) -> io::Result<()> {
    let all =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the descriptor is open, and the call takes no pointer.
    match unsafe { libc::sync_file_range(device.as_raw_fd(), 0, 0, all) } {
        0 => Ok(()),
        _ => written_back(device),
    }
}

/// Closes a file and returns the error, which a drop would hide: a network or user-space file system may
/// report lost bytes only here.
#[allow(unsafe_code)]
pub(crate) fn close(file: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is owned here, and is not used after this call, which frees it also if it fails.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
