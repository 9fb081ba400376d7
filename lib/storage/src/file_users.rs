//! The users of a file, found by its locks and in the kernel's lists, as text for errors.

use crate::FileId;
use crate::file_id::Location;
use crate::kernel_lists::name;
use crate::lock_list::{self, Inode};
use crate::loop_devices;
use rustix::fs::{FlockOperation, major, minor};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

/// Time in which a lock may go before its file counts as in use.
pub(crate) const LINGERS: Duration = Duration::from_millis(500);

/// The use of a file by which it must not be replaced, removed or written now, as the end of a sentence: "it is locked by another
/// process". `None` if it is not in use.
///
/// | use | taken by |
/// |---|---|
/// | a lock by `flock` | conversions and other programs, for the whole file. Here a program that has started this one counts, too: after a replacement its lock would be on a file without a name |
/// | a lock of a range of bytes | QEMU, libvirt |
/// | a loop device over the file | `losetup`, `mount -o loop`, the kubelet |
pub fn file_in_use(file: &File) -> io::Result<Option<String>> {
    if is_flocked(file) {
        let facts = file.metadata()?;
        let by = flock_owner(facts.dev(), facts.ino());
        return Ok(Some(format!("it is locked by another process{by}")));
    }
    locked_file_in_use(file)
}

/// As [`file_in_use`], but without a look at `flock`: the caller has that lock, and keeps it.
pub fn locked_file_in_use(file: &File) -> io::Result<Option<String>> {
    // A file system without locks answers with an error: no lock can be held on it.
    if is_locked(file.as_fd(), 0, 0).unwrap_or(false) {
        return Ok(Some("a running QEMU or another process has it open and locked".to_owned()));
    }
    Ok(attached_loop_device(FileId::of(file)?))
}

/// The loop device over a file, as a sentence about the file.
pub(crate) fn attached_loop_device(file: FileId) -> Option<String> {
    let device = loop_devices::over(&loop_devices::attached(), Location::File(file)).next();
    device.map(|rdev| format!("the loop device {} is attached to it", name(rdev)))
}

/// True if another open file has a flock on it, and keeps it. A lock that goes at once is that of a reader which was closed:
/// its threads end after it.
fn is_flocked(file: &File) -> bool {
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LINGERS => std::thread::sleep(LINGERS / 50),
            Err(Errno::WOULDBLOCK) => return true,
            // Without locks on this file system no process can hold one.
            _ => {
                rustix::fs::flock(file, FlockOperation::NonBlockingUnlock).unwrap_or_default();
                return false;
            }
        }
    }
}

/// " (process 12)" for the process that holds a flock on a file; empty if the kernel does not list it.
pub fn flock_owner(dev: u64, ino: u64) -> String {
    let inode = Inode { dev: (major(dev), minor(dev)), ino };
    let owner =
        lock_list::read().iter().find(|lock| lock.is_flock && lock.inode == inode).and_then(|lock| lock.pid);
    owner.map_or(String::new(), |pid| format!(" (process {pid})"))
}

/// True if another process holds an fcntl lock (of a process, or of an open file as QEMU takes them) that
/// touches `start .. start + len`; a `len` of 0 reaches to the end. `rustix` cannot be used for this: it
/// refuses the process ID -1 that the kernel reports for open file locks.
#[allow(unsafe_code)]
pub fn is_locked(file: BorrowedFd<'_>, start: u64, len: u64) -> io::Result<bool> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_asked_about_is_left_unlocked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let file = File::create(&path).unwrap();
        assert_eq!(file_in_use(&file).unwrap(), None);
        let other = File::open(&path).unwrap();
        rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
        let said = file_in_use(&file).unwrap().unwrap();
        // The kernel names the process: this one.
        let process = format!("it is locked by another process (process {})", std::process::id());
        assert!(said == process || said == "it is locked by another process", "{said}");
        assert_eq!(locked_file_in_use(&other).unwrap(), None, "the caller's own lock");
        assert!(file_in_use(&file).unwrap().is_some(), "the question has released the lock");
    }

    #[test]
    fn a_lock_of_a_reader_that_is_closing_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar");
        let file = File::create(&path).unwrap();
        let reader = File::open(&path).unwrap();
        rustix::fs::flock(&reader, FlockOperation::NonBlockingLockShared).unwrap();
        let closes = std::thread::spawn(move || {
            std::thread::sleep(LINGERS / 10);
            drop(reader);
        });
        assert_eq!(file_in_use(&file).unwrap(), None);
        closes.join().unwrap();
    }
}
