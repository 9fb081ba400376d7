//! Locked files, by which one process at a time works on something.
//!
//! Some of them are removed together with what they protect. A process that waits for such a file, or opens it a moment
//! before, would have a lock that keeps nobody out: it takes the one that has the name then.

use crate::Notify;
use crate::error::{Error, Result};
use std::cell::Cell;
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Name of the file in a folder that is locked while one process works there.
pub(crate) const LOCK: &str = "lock";

/// Number of attempts to lock a file that other processes remove.
pub(crate) const ATTEMPTS: u32 = 1000;

/// Duration of a wait without a word.
const SILENCE: Duration = Duration::from_secs(1);
/// Time between two attempts meanwhile.
const STEP: Duration = Duration::from_millis(20);

/// A locked file, by which one process at a time works on something.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// True if the locked file still has this name, and was not removed meanwhile.
    fn is_at(&self, path: &Path) -> bool {
        let facts = (self.file.metadata(), std::fs::metadata(path));
        matches!(facts, (Ok(held), Ok(there)) if (held.dev(), held.ino()) == (there.dev(), there.ino()))
    }

    /// Locks the file alone, or fails at once if another process has it locked.
    pub fn take(path: &Path, what: &str) -> Result<Lock> {
        Lock::at(path, |file| match file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => {
                Err(Error::failed(format!("another coracle works on {what}; wait for it, or end it")))
            }
            Err(TryLockError::Error(e)) => Err(cannot_lock(path, e)),
        })
    }

    /// Locks the file shared with others, as soon as no process has it locked alone.
    pub fn share(path: &Path) -> Result<Lock> {
        Lock::at(path, |file| file.lock_shared().map_err(|e| cannot_lock(path, e)))
    }

    /// Locks the file alone, as soon as no other process has it locked.
    pub fn wait(path: &Path) -> Result<Lock> {
        Lock::at(path, |file| file.lock().map_err(|e| cannot_lock(path, e)))
    }

    /// Locks a disk of the pool by this file, as soon as no other process has it locked. A wait that lasts is told.
    pub(crate) fn wait_for_disk(path: &Path, name: &str, notify: Notify) -> Result<Lock> {
        Lock::wait_aloud(path, SILENCE, || {
            notify(&format!("coracle: waiting for another coracle that works on the disk {name}"));
        })
    }

    /// Locks the file alone, as soon as no other process has it locked. `tell` is called once, if that takes longer than
    /// `silence`.
    fn wait_aloud(path: &Path, silence: Duration, tell: impl Fn()) -> Result<Lock> {
        let (since, is_told) = (Instant::now(), Cell::new(false));
        Lock::at(path, |file| {
            while !is_told.get() {
                match file.try_lock() {
                    Ok(()) => return Ok(()),
                    Err(TryLockError::Error(e)) => return Err(cannot_lock(path, e)),
                    Err(TryLockError::WouldBlock) if since.elapsed() < silence => std::thread::sleep(STEP),
                    Err(TryLockError::WouldBlock) => {
                        tell();
                        is_told.set(true);
                    }
                }
            }
            file.lock().map_err(|e| cannot_lock(path, e))
        })
    }

    /// Opens and locks the file. One that was removed in between locks nobody out, and is left for the one that has its
    /// name now.
    fn at(path: &Path, lock: impl Fn(&File) -> Result<()>) -> Result<Lock> {
        for _ in 0..ATTEMPTS {
            let locked = Lock { file: open(path)? };
            lock(&locked.file)?;
            if locked.is_at(path) {
                return Ok(locked);
            }
        }
        Err(Error::failed(format!("{} is removed by another process again and again", path.display())))
    }
}

/// True if a process has the file locked, this one or another. A file that cannot be opened is not locked. The file itself is locked
/// for a moment.
pub(crate) fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

fn cannot_lock(path: &Path, e: std::io::Error) -> Error {
    Error::io(format!("cannot lock {}", path.display()), e)
}

fn open(path: &Path) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(|e| Error::io(format!("cannot open {}", path.display()), e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_a_lock_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK);
        let (held, told) = (Cell::new(Some(Lock::wait(&path).unwrap())), Cell::new(0));
        let tell = || {
            told.set(told.get() + 1);
            // Another process may have made a new lock meanwhile.
            std::fs::remove_file(&path).unwrap();
            drop(held.take());
        };
        let lock = Lock::wait_aloud(&path, Duration::ZERO, tell).unwrap();
        assert!(lock.is_at(&path) && told.get() == 1);
        drop(lock);
        drop(Lock::wait_aloud(&path, Duration::MAX, || panic!("nothing is waited for")).unwrap());
    }

    /// A waiter had the lock of a file that its removal had left without a name: so had the next process that made it.
    #[test]
    fn a_lock_that_was_removed_meanwhile_is_taken_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK);
        let removed = Cell::new(0);
        let lock = Lock::at(&path, |_| {
            if removed.get() < 3 {
                removed.set(removed.get() + 1);
                std::fs::remove_file(&path).unwrap();
            }
            Ok(())
        });
        assert!(lock.unwrap().is_at(&path) && removed.get() == 3);
        let e = Lock::at(&path, |_| std::fs::remove_file(&path).map_err(|e| cannot_lock(&path, e)));
        assert!(e.unwrap_err().to_string().contains("lock is removed by another process again and again"));

        let first = Lock::wait(&path).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| Lock::wait(&path).map(|lock| lock.is_at(&path)));
            std::fs::remove_file(&path).unwrap();
            drop(first);
            assert!(second.join().unwrap().unwrap());
        });
    }
}
