//! The locks by which QEMU shows the permissions that it uses on an image.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// Offset of the lock of a QEMU that reads.
pub const READS: u64 = 100;
/// Offset of the lock of a QEMU that writes.
pub const WRITES: u64 = 101;
/// Offset of the lock of a QEMU that permits no other program to write.
pub const FORBIDS_WRITES: u64 = 201;

/// An open file with the lock of a permission. It holds the lock as QEMU does: by the open file, and shared.
#[allow(unsafe_code)]
pub fn qemu_lock(path: &Path, byte: u64) -> File {
    let file = File::options().read(true).write(true).open(path).expect("a file that may be written");
    let lock = libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte as libc::off_t,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and `lock` is a valid `flock` for the length of the call.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }, 0);
    file
}
