//! The locks of files that the kernel lists in /proc/locks. The list has those of files that this process may not open, too.

use crate::processes::{lineage, lives};
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::RangeInclusive;

/// More bytes than one read of the list returns.
const MOST_AT_ONCE: usize = 64 << 10;

/// A file or a device's node, by the numbers with which the kernel lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inode {
    /// Number of the file system. For btrfs and others it is not the one that `stat` reports.
    pub(crate) dev: (u32, u32),
    pub(crate) ino: u64,
}

/// A lock that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldLock {
    pub(crate) inode: Inode,
    /// True for `flock`; false for the locks of ranges that QEMU and libvirt take.
    pub(crate) is_flock: bool,
    pub(crate) is_exclusive: bool,
    /// The process that took it; `None` for a lock of an open file.
    pub(crate) pid: Option<u32>,
    first: u64,
    last: u64,
}

impl HeldLock {
    /// True if the byte lies in the range.
    pub(crate) fn covers(&self, byte: u64) -> bool {
        (self.first..=self.last).contains(&byte)
    }

    /// True if all of the lock lies in the range.
    pub(crate) fn lies_in(&self, bytes: &RangeInclusive<u64>) -> bool {
        bytes.contains(&self.first) && bytes.contains(&self.last)
    }

    /// True if the process that took the lock is another one that lives. An ancestor of this process counts as this one: it may
    /// be the program `flock` or `udevadm lock`, with shells between. A process that has ended has left the lock to those that
    /// it started.
    pub(crate) fn is_of_another_process(&self) -> bool {
        self.pid.is_none_or(|pid| lives(pid) && !lineage().contains(&pid))
    }
}

/// All locks that are held. Empty where the list cannot be read.
///
/// The kernel counts where the last read ended: a lock that is released between two reads hides another one behind it. One read
/// has as many locks as a page of memory, so that a short list is whole; a longer one is read twice, and both times count.
pub(crate) fn read() -> Vec<HeldLock> {
    let Ok((mut text, reads)) = read_once() else { return Vec::new() };
    if reads > 1 {
        text.extend(read_once().map(|(text, _)| text).unwrap_or_default());
    }
    String::from_utf8_lossy(&text).lines().filter_map(parse).collect()
}

/// The locks that an open file holds, of its text in /proc/PID/fdinfo.
pub(crate) fn of_open_file(info: &str) -> Vec<HeldLock> {
    info.lines().filter_map(|line| parse(line.strip_prefix("lock:")?)).collect()
}

/// The list, and the number of reads that it took.
fn read_once() -> io::Result<(Vec<u8>, usize)> {
    let mut file = File::open("/proc/locks")?;
    let (mut text, mut reads) = (Vec::new(), 0);
    let mut buffer = vec![0; MOST_AT_ONCE];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((text, reads)),
            n => text.extend_from_slice(&buffer[..n]),
        }
        reads += 1;
    }
}

/// Parses "1: OFDLCK ADVISORY  READ -1 fe:00:12 100 100" and "2: FLOCK  ADVISORY  WRITE 644 00:1a:2431 0 EOF". In a line
/// of a lock that is waited for, "->" follows the number.
fn parse(line: &str) -> Option<HeldLock> {
    let mut words = line.split_whitespace().skip(1);
    let is_flock = match words.next()? {
        "FLOCK" => true,
        "OFDLCK" | "POSIX" => false,
        _ => return None,
    };
    let is_exclusive = words.nth(1)? == "WRITE";
    let pid = words.next()?.parse().ok();
    let mut file = words.next()?.split(':');
    let mut hex = || u32::from_str_radix(file.next()?, 16).ok();
    let dev = (hex()?, hex()?);
    let ino = file.next()?.parse().ok()?;
    let first = words.next()?.parse().ok()?;
    let last = match words.next()? {
        "EOF" => u64::MAX,
        last => last.parse().ok()?,
    };
    Some(HeldLock { inode: Inode { dev, ino }, is_flock, is_exclusive, pid, first, last })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    fn locks_are_read_as_the_kernel_lists_them() {
        let lock = parse("1: OFDLCK ADVISORY  READ -1 fe:00:12 100 101").unwrap();
        let inode = Inode { dev: (254, 0), ino: 12 };
        let read = HeldLock { inode, is_flock: false, is_exclusive: false, pid: None, first: 100, last: 101 };
        assert_eq!(lock, read);
        let info = "pos:\t0\nflags:\t02100000\nlock:\t1: OFDLCK ADVISORY  READ -1 fe:00:12 100 101\n";
        assert_eq!(of_open_file(info), [read]);
        assert!(lock.covers(101) && !lock.covers(103));
        let lock = parse("2: FLOCK  ADVISORY  WRITE 644 fe:00:12 0 EOF").unwrap();
        let flock =
            HeldLock { inode, is_flock: true, is_exclusive: true, pid: Some(644), first: 0, last: u64::MAX };
        assert_eq!(lock, flock);
        assert!(parse("3: POSIX  ADVISORY  READ  7 08:01:4294967297 0 9").is_some());
        for other in [
            "1: -> OFDLCK ADVISORY  WRITE -1 fe:00:12 100 100",
            "4: LEASE  ACTIVE    READ  7 08:01:5 0 EOF",
            "5: POSIX  *NOINODE* ADVISORY READ 7 <none>:0 0 EOF",
            "",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    /// `tests/local/faults/locked.rs` has shells between a conversion and the program `flock`.
    #[test]
    fn a_lock_of_this_process_or_an_ancestor_is_not_of_another_one() {
        let of = |pid| HeldLock { pid, ..parse("2: FLOCK  ADVISORY  WRITE 644 fe:00:12 0 EOF").unwrap() };
        assert!(!of(Some(std::process::id())).is_of_another_process());
        let parent = std::os::unix::process::parent_id();
        assert!(!of(Some(parent)).is_of_another_process());
        assert!(!of(Some(i32::MAX as u32)).is_of_another_process(), "it has ended");
        for ancestor in lineage() {
            assert!(!of(Some(ancestor)).is_of_another_process(), "{ancestor}");
        }
        assert!(of(None).is_of_another_process() && of(Some(0)).is_of_another_process());
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(of(Some(child.id())).is_of_another_process());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!of(Some(child.id())).is_of_another_process(), "it has ended");
    }

    /// Each lock that is held stays in the list while others come and go.
    #[test]
    fn a_lock_is_listed_while_others_are_released() {
        let (held, ended) = (tempfile::NamedTempFile::new().unwrap(), AtomicBool::new(false));
        let other = tempfile::NamedTempFile::new().unwrap();
        held.as_file().lock().unwrap();
        let pid = Some(std::process::id());
        let ino = rustix::fs::fstat(held.as_file()).unwrap().st_ino;
        let is_listed = || read().iter().any(|lock| lock.inode.ino == ino && lock.pid == pid);
        if !is_listed() {
            return eprintln!("skipped: the kernel lists no lock of this process");
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    other.as_file().lock().unwrap();
                    std::thread::sleep(Duration::from_micros(300));
                    other.as_file().unlock().unwrap();
                }
            });
            let misses = (0..200).filter(|_| !is_listed()).count();
            ended.store(true, Ordering::Relaxed);
            assert_eq!(misses, 0);
        });
    }
}
