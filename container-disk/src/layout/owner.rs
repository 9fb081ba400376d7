//! The owner of a store's files.
//!
//! An uncompressed layer is read at any offset, and so without its digest. A user who could write to a folder
//! of the store for a moment may have added files that stay writable for that user after the folder's mode is
//! corrected. Such files are recognised by their owner.

use crate::{Error, Result};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// The user who owns the top folder of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    /// The owner of `folder`.
    pub(crate) fn of_folder(folder: impl AsFd, path: &Path) -> Result<Owner> {
        uid(folder, path).map(Owner)
    }

    /// Fails if `found` belongs neither to this owner, nor to root, nor to the user of this process.
    pub(crate) fn judge(self, found: impl AsFd, path: &Path) -> Result<()> {
        let (Owner(owner), found) = (self, uid(found, path)?);
        if [owner, 0, rustix::process::geteuid().as_raw()].contains(&found) {
            return Ok(());
        }
        let path = path.display();
        Err(Error::failed(format!(
            "{path} belongs to user {found}, but its store to user {owner}: user {found} chose its content and can change it; \
             it (chown {owner} {path})"
        )))
    }
}

fn uid(of: impl AsFd, path: &Path) -> Result<u32> {
    let examined = rustix::fs::fstat(of).map(|stat| stat.st_uid);
    examined.map_err(|e: Errno| Error::io(format!("cannot examine {}", path.display()), io::Error::from(e)))
}
