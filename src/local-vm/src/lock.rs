//! Locked files, by which one process at a time works on something.
//!
//! Some of them are removed together with what they protect. A process that waits for such a file, or opens it a moment
//! before, would have a lock that keeps nobody out: it takes the one that has the name then.

use crate::error::{Error, Result};
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Name of the file in a folder that is locked while one process works there.
pub(crate) const LOCK: &str = "lock";

/// Number of attempts to lock a file that other processes remove.
pub(crate) const ATTEMPTS: u32 = 1000;

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

    /// A waiter had the lock of a file that its removal had left without a name: so had the next process that made it.
    #[test]
    fn a_lock_that_was_removed_meanwhile_is_taken_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOCK);
        let removed = std::cell::Cell::new(0);
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
