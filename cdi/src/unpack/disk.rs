//! The simulated disk of a folder for tests: it records synced files, and a sync or a close can be made to
//! fail.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

thread_local! {
    static DISK: Disk = Disk::default();
}

/// A disk; folders that are opened by one thread share it.
#[derive(Clone, Default)]
pub(super) struct Disk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Inodes of synced files and folders.
    synced: BTreeSet<u64>,
    /// Calls until one fails.
    sync_fails: Option<u32>,
    close_fails: Option<u32>,
}

impl Disk {
    pub(super) fn of_this_thread() -> Disk {
        DISK.with(Disk::clone)
    }

    /// Forgets the synced files. The call after so many syncs fails, or after so many closes.
    pub(super) fn begins(&self, sync_fails: Option<u32>, close_fails: Option<u32>) {
        *self.0.lock().unwrap() = State { synced: BTreeSet::new(), sync_fails, close_fails };
    }

    pub(super) fn has_synced(&self, inode: u64) -> bool {
        self.0.lock().unwrap().synced.contains(&inode)
    }

    pub(super) fn syncs(&self, file: impl AsFd) -> io::Result<()> {
        let inode = rustix::fs::fstat(file)?.st_ino;
        let mut state = self.0.lock().unwrap();
        fails(&mut state.sync_fails)?;
        state.synced.insert(inode);
        Ok(())
    }

    pub(super) fn closes(&self) -> io::Result<()> {
        fails(&mut self.0.lock().unwrap().close_fails)
    }
}

/// Reports an error once, as Linux does.
fn fails(left: &mut Option<u32>) -> io::Result<()> {
    match left.take() {
        Some(0) => Err(io::Error::from_raw_os_error(libc::EIO)),
        more => {
            *left = more.map(|left| left - 1);
            Ok(())
        }
    }
}
