//! A lock on an open file or folder (flock). It ends with the lock's value or with the process, whichever
//! comes first.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::Deref;

/// The kind of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// Exclusive: no other lock is granted.
    All,
    /// Shared: no exclusive lock is granted.
    Exclusive,
}

/// An open file with a lock. The lock ends when this is dropped.
pub(crate) struct Locked(File);

impl Locked {
    /// Locks without waiting. `None` while another process holds a conflicting lock.
    pub(crate) fn at_once(file: File, keeps: Keeps) -> io::Result<Option<Locked>> {
        Ok(try_lock(&file, keeps)?.then_some(Locked(file)))
    }

    /// Waits for a conflicting lock to end. `who` describes its holder in the log ("changes x").
    pub(crate) fn wait(file: File, keeps: Keeps, who: &str) -> io::Result<Locked> {
        if !try_lock(&file, keeps)? {
            tracing::info!("waiting for another process that {who}");
            match keeps {
                Keeps::All => file.lock()?,
                Keeps::Exclusive => file.lock_shared()?,
            }
        }
        Ok(Locked(file))
    }
}

fn try_lock(file: &File, keeps: Keeps) -> io::Result<bool> {
    let tried = match keeps {
        Keeps::All => file.try_lock(),
        Keeps::Exclusive => file.try_lock_shared(),
    };
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Locked {
    /// Unlocks explicitly. Closing is not enough: a child process that is being started holds a copy of the
    /// descriptor, and with it the lock, until it executes its program.
    fn drop(&mut self) {
        if let Err(e) = self.0.unlock() {
            tracing::warn!(
                "cannot unlock a file; its lock ends when all copies of the descriptor are closed: {e}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_is_free_though_a_child_has_a_copy_of_the_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let open = || File::options().create(true).append(true).open(&path).unwrap();
        for (held, wanted) in
            [(Keeps::All, Keeps::Exclusive), (Keeps::Exclusive, Keeps::All), (Keeps::All, Keeps::All)]
        {
            let held = Locked::at_once(open(), held).unwrap().unwrap();
            let copy = held.try_clone().unwrap();
            assert!(Locked::at_once(open(), wanted).unwrap().is_none());
            drop(held);
            assert!(Locked::at_once(open(), wanted).unwrap().is_some(), "{wanted:?}");
            drop(copy);
        }
        let shared = [(); 2].map(|()| Locked::at_once(open(), Keeps::Exclusive).unwrap());
        assert!(shared.iter().all(Option::is_some));
    }
}
