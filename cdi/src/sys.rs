//! System calls that no safe crate offers. All others go through `std` and `rustix`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

/// True if another process holds an fcntl lock (of a process, or of an open file as QEMU takes them) that
/// touches `start .. start + len`; a `len` of 0 reaches to the end. `rustix` cannot be used for this: it
/// refuses the process ID -1 that the kernel reports for open file locks.
#[allow(unsafe_code)]
pub(crate) fn is_locked(file: BorrowedFd<'_>, start: u64, len: u64) -> io::Result<bool> {
    let too_far = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: libc::off_t::try_from(start).map_err(too_far)?,
        l_len: libc::off_t::try_from(len).map_err(too_far)?,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and `lock` is a valid, writable `flock` for the length of the call.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    if done == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
    }
}

/// Fails if bytes of a file were lost on their way to the device. Pages that the kernel could not write count
/// as clean, and once they have left the memory a read brings the old bytes. Called after the last read of a
/// temporary file, it shows if any read may have been wrong. Only a sync does this on every file system:
/// sync_file_range(2), which would write less, asks the inode of an overlay and not the one below it.
pub(crate) fn written_back(file: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(file)?)
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
