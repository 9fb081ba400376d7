//! A guard for the syncs of one file or device: after a failed one, all later ones fail too.
//!
//! Linux reports a write-back error once. The pages that it could not write count as clean from then on: the
//! next sync of the same file has nothing to do and succeeds, although data is lost. So the first failure is
//! final for this open file. A later run continues from the last mark before it, and writes everything behind
//! that mark again, past the page cache.

use std::io;
use std::sync::{Mutex, PoisonError};

/// The syncs of one open file. Those of several threads wait for one another, since only one of them gets the
/// error.
#[derive(Debug, Default)]
pub(crate) struct SyncGuard {
    has_failed: Mutex<bool>,
}

impl SyncGuard {
    /// Syncs, unless an earlier sync has failed.
    pub(crate) fn run(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut has_failed = self.has_failed.lock().unwrap_or_else(PoisonError::into_inner);
        if *has_failed {
            return Err(io::Error::other(
                "an earlier sync of this run failed, and what it covered may be lost",
            ));
        }
        let synced = sync();
        *has_failed = synced.is_err();
        synced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sync_succeeds_behind_one_that_failed() {
        let guard = SyncGuard::default();
        guard.run(|| Ok(())).unwrap();
        let e = guard.run(|| Err(io::Error::from_raw_os_error(5))).unwrap_err();
        assert_eq!(e.raw_os_error(), Some(5));
        let e = guard.run(|| panic!("it would be told that all is well")).unwrap_err();
        assert!(e.to_string().contains("an earlier sync"), "{e}");
    }
}
