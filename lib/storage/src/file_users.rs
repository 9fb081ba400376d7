//! The users of a file, found by its locks and in the kernel's lists, as text for errors.

use crate::FileId;
use crate::kernel_lists::{self, loop_devices};
use crate::lock_list::{self, Inode};
use rustix::fs::{FlockOperation, major, minor};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time in which a lock may go before its file counts as in use.
pub(crate) const LINGERS: Duration = Duration::from_millis(500);

/// The reason why an existing file must not be replaced or written now; `None` if it is not in use. Checks
/// the locks that QEMU, libvirt and others take, and loop devices.
pub fn file_in_use(file: &File) -> io::Result<Option<String>> {
    if is_flocked(file) {
        let facts = file.metadata()?;
        let by = flock_owner(facts.dev(), facts.ino());
        return Ok(Some(format!("it is locked by another process{by}")));
    }
    locked_file_in_use(file)
}

/// As [`file_in_use`], for a file that the caller has locked with `flock`, and goes on to lock.
pub fn locked_file_in_use(file: &File) -> io::Result<Option<String>> {
    // A file system without locks answers with an error: no lock can be held on it.
    if is_locked(file.as_fd(), 0, 0).unwrap_or(false) {
        return Ok(Some("a running QEMU or another process has it open and locked".to_owned()));
    }
    let device = loop_device_of(loop_devices(), FileId::of(file)?);
    Ok(device.map(|rdev| format!("the loop device {} is attached to it", kernel_lists::name(rdev))))
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

/// The loop device whose backing file this is. The kernel lists the path by which that file was attached, and
/// a bind mount or a hard link gives the file another one, so files are compared and not paths. A device that
/// was attached in another mount namespace, by a path that this one does not have, is not found.
fn loop_device_of(devices: Vec<(u64, PathBuf)>, file: FileId) -> Option<u64> {
    let mut devices = devices.into_iter();
    devices.find(|(_, path)| FileId::of_path(path).is_ok_and(|backing| backing == file)).map(|(rdev, _)| rdev)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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

    /// A bind mount gives a file a second path, as a hard link does.
    #[test]
    fn a_loop_device_is_found_by_every_path_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("disk.img"), "disk").unwrap();
        fs::write(at("other.img"), "disk").unwrap();
        fs::hard_link(at("disk.img"), at("bound.img")).unwrap();
        let devices = [(1, at("gone.img")), (7, at("bound.img"))];
        let device = |name: &str| loop_device_of(devices.to_vec(), FileId::of_path(&at(name)).unwrap());
        assert_eq!([device("bound.img"), device("disk.img"), device("other.img")], [Some(7), Some(7), None]);
    }
}
