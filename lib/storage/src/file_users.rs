//! The users of a file, found by its locks and in the kernel's lists, as text for errors.

use crate::FileId;
use rustix::fs::{FlockOperation, major, minor};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time in which a lock may go before its file counts as in use.
const LINGERS: Duration = Duration::from_millis(500);

/// The reason why an existing file must not be replaced or written now; `None` if it is not in use. Checks
/// the locks that QEMU, libvirt and others take, and loop devices.
pub fn file_in_use(file: &File) -> io::Result<Option<String>> {
    if is_flocked(file) {
        let facts = file.metadata()?;
        let by = flock_owner(facts.dev(), facts.ino());
        return Ok(Some(format!("it is locked by another process{by}")));
    }
    // A file system without locks answers with an error: no lock can be held on it.
    if is_locked(file.as_fd(), 0, 0).unwrap_or(false) {
        return Ok(Some("a running QEMU or another process has it open and locked".to_owned()));
    }
    let device = loop_device_of(Path::new("/sys/block"), FileId::of(file)?);
    Ok(device.map(|name| format!("the loop device {name} is attached to it")))
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
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    flock_owner_in(&locks, &format!("{:02x}:{:02x}:{ino}", major(dev), minor(dev)))
}

fn flock_owner_in(locks: &str, file: &str) -> String {
    // Example: "1: FLOCK  ADVISORY  WRITE 644 00:1a:2431 0 EOF"
    let owner = locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, pid, which) = (words.next()?, words.nth(2)?, words.next()?);
        (kind == "FLOCK" && which == file).then(|| pid.parse::<u32>().ok()).flatten()
    });
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
fn loop_device_of(devices: &Path, file: FileId) -> Option<String> {
    fs::read_dir(devices).ok()?.flatten().find_map(|device| {
        let text = fs::read(device.path().join("loop/backing_file")).ok()?;
        let path = Path::new(OsStr::from_bytes(text.strip_suffix(b"\n").unwrap_or(&text)));
        let is_backing = FileId::of_path(path).is_ok_and(|backing| backing == file);
        is_backing.then(|| format!("/dev/{}", device.file_name().to_string_lossy()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_lock_is_found_in_the_kernels_list() {
        let locks =
            "1: POSIX  ADVISORY  WRITE 7 fe:00:12 0 EOF\n2: FLOCK  ADVISORY  WRITE 644 fe:00:12 0 EOF\n";
        assert_eq!(flock_owner_in(locks, "fe:00:12"), " (process 644)");
        assert_eq!(flock_owner_in(locks, "fe:00:13"), "");
    }

    #[test]
    fn a_file_that_was_asked_about_is_left_unlocked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let file = File::create(&path).unwrap();
        assert_eq!(file_in_use(&file).unwrap(), None);
        let other = File::open(&path).unwrap();
        rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
        let said = file_in_use(&file).unwrap().unwrap();
        assert!(said.contains("locked by another process"), "{said}");
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
        fs::create_dir_all(at("block/sda")).unwrap();
        fs::create_dir_all(at("block/loop7/loop")).unwrap();
        fs::write(at("disk.img"), "disk").unwrap();
        fs::write(at("other.img"), "disk").unwrap();
        fs::hard_link(at("disk.img"), at("bound.img")).unwrap();
        let attached = at("bound.img");
        let text = [attached.as_os_str().as_bytes(), b"\n"].concat();
        fs::write(at("block/loop7/loop/backing_file"), text).unwrap();
        let device = |name: &str| loop_device_of(&at("block"), FileId::of_path(&at(name)).unwrap());
        assert_eq!(device("bound.img").as_deref(), Some("/dev/loop7"));
        assert_eq!(device("disk.img").as_deref(), Some("/dev/loop7"));
        assert_eq!(device("other.img"), None);
    }
}
