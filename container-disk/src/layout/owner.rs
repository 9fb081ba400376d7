//! Whose the files of a store are.
//!
//! A layer that is not compressed is read at any place, and so without its digest. Whoever could write to a folder of the
//! store for a moment has put files there that they can still change when its mode is mended: the owner tells.

use crate::{Error, Result};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// The user who has the top of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    /// Of this folder.
    pub(crate) fn of(folder: impl AsFd, path: &Path) -> Result<Owner> {
        uid(folder, path).map(Owner)
    }

    /// Refuses what is neither this user's, nor root's, nor our own.
    pub(crate) fn judge(self, found: impl AsFd, path: &Path) -> Result<()> {
        let (Owner(owner), found) = (self, uid(found, path)?);
        if [owner, 0, rustix::process::geteuid().as_raw()].contains(&found) {
            return Ok(());
        }
        let path = path.display();
        Err(Error::failed(format!(
            "{path} belongs to user {found}, and the store it is in to user {owner}: user {found} chose what is in it, and \
             can change it; remove it, and pull or build again what is missing, or give it to user {owner} if you trust \
             it (chown {owner} {path})"
        )))
    }
}

fn uid(of: impl AsFd, path: &Path) -> Result<u32> {
    let examined = rustix::fs::fstat(of).map(|stat| stat.st_uid);
    examined.map_err(|e: Errno| Error::io(format!("cannot examine {}", path.display()), io::Error::from(e)))
}
