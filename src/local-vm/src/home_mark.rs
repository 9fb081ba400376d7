//! Mark of a folder of VMs: a random number in its file `.home`. Another folder at the same path has another number, also where its
//! file system gives it the inode of the one before.

use crate::error::{Error, Result};
use crate::place::is_own_folder;
use crate::random;
use crate::whole_file::{sync_names, write_whole};
use container_disk::inputs::beside;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

const MARK: &str = ".home";
/// Longest mark that is read.
const LONGEST: u64 = 100;

/// The mark of a folder of VMs; `None` if it has none.
pub(crate) fn find(vms: &Path) -> Option<String> {
    let mut text = String::new();
    fs::File::open(vms.join(MARK)).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned()).filter(|mark| !mark.is_empty())
}

/// The mark of a folder of VMs of this user, which is made if it has none.
pub(crate) fn find_or_make(vms: &Path) -> Option<String> {
    if find(vms).is_none()
        && is_own_folder(vms)
        && let Err(e) = make(vms)
    {
        tracing::debug!("{} has no mark: {e}", vms.display());
    }
    find(vms)
}

fn make(vms: &Path) -> Result<()> {
    let path = vms.join(MARK);
    let new = beside(&path, &format!(".{}", std::process::id()));
    write_whole(&new, random::uuid()?.as_bytes())?;
    // Another process may have made one meanwhile, which stays.
    let renamed = renameat_with(CWD, &new, CWD, &path, RenameFlags::NOREPLACE);
    if renamed.is_err() {
        let _ = fs::remove_file(&new);
    }
    match renamed {
        Err(e) if !path.exists() => {
            Err(Error::io(format!("cannot make {}", path.display()), io::Error::from(e)))
        }
        _ => sync_names(vms),
    }
}
