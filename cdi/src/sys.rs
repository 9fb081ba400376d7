//! The system call that no safe crate offers. Everything else goes through `std` and `rustix`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Whether somebody else holds an fcntl lock (of a process, or of an open file as QEMU takes them) that touches
/// `start .. start + len`; a `len` of 0 reaches to the end. `rustix` cannot be used for this: it refuses the process id
/// -1 that the kernel reports for open file locks.
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
