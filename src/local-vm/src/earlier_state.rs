//! EFI variables and TPM that the launcher keeps in its own folder for a stopped VM, while another VM takes the VM's place.
//!
//! ```text
//!  root/nvram  root/lib/swtpm ── copied ─► root/earlier/ ── the new VM starts ─► removed
//!                                             ├── it does not start, and has changed the original ─► exchanged with it, then removed
//!                                             └── it does not start, and both are equal ─► removed
//! ```
//!
//! The launcher of a VM that keeps no such state begins by removing what is there.
//!
//! Copies are synced before the new VM starts. The state has its name at each moment: it survives a power cut.

use crate::error::{Error, Result};
use crate::launch;
use crate::place::{Home, gone, make};
use crate::whole_file::sync_names;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Folders of the launcher's root with such state.
const STATE: [&str; 2] = ["nvram", "lib/swtpm"];
/// Folder of the copies in the launcher's root.
const EARLIER: &str = "earlier";

/// Copy of the state of a stopped VM.
#[derive(Debug)]
pub(crate) struct EarlierState {
    root: PathBuf,
}

impl EarlierState {
    /// Copies the state of the VM of this name.
    pub(crate) fn copy(home: &Home, name: &str) -> Result<EarlierState> {
        let earlier = EarlierState { root: launch::root(home, name) };
        earlier.remove()?;
        for part in STATE {
            let (from, to) = (earlier.root.join(part), earlier.root.join(EARLIER).join(part));
            if from.is_dir() {
                make(&to)?;
                copy(&from, &to).map_err(|e| Error::io(format!("cannot copy {}", from.display()), e))?;
            }
        }
        Ok(earlier)
    }

    /// Brings the state back as it was. No QEMU runs.
    pub(crate) fn bring_back(&self) -> Result<()> {
        for part in STATE {
            let (now, before) = (self.root.join(part), self.root.join(EARLIER).join(part));
            if before.is_dir() && !is_equal(&now, &before).unwrap_or(false) {
                exchange(&before, &now)
                    .map_err(|e| Error::io(format!("cannot bring back {}", now.display()), e))?;
                now.parent().map_or(Ok(()), sync_names)?;
            }
        }
        self.remove()
    }

    /// Removes the copy.
    pub(crate) fn remove(&self) -> Result<()> {
        let earlier = self.root.join(EARLIER);
        gone(fs::remove_dir_all(&earlier))
            .map_err(|e| Error::io(format!("cannot remove {}", earlier.display()), e))
    }
}

/// Puts one folder in the place of another, at once.
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    if let Some(above) = other.parent() {
        fs::create_dir_all(above)?;
    }
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        Err(Errno::NOENT) => fs::rename(one, other),
        // A file system that cannot exchange, or not a folder of a lower layer (overlayfs).
        Err(Errno::INVAL | Errno::NOSYS | Errno::XDEV) => {
            fs::remove_dir_all(other)?;
            fs::rename(one, other)
        }
        Err(e) => Err(e.into()),
    }
}

/// Copies the content of a folder durably. A link stays one, and sockets are left out.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            fs::create_dir(&to)?;
            fs::set_permissions(&to, entry.metadata()?.permissions())?;
            copy(&entry.path(), &to)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, &to)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &to)?;
            File::open(&to)?.sync_all()?;
        }
    }
    File::open(to)?.sync_all()
}

/// True if a copy has all that a folder has, and nothing else. Sockets do not count.
fn is_equal(folder: &Path, copy: &Path) -> io::Result<bool> {
    let names = |folder: &Path| -> io::Result<Vec<_>> {
        let mut names = vec![];
        for entry in fs::read_dir(folder)? {
            let (entry, kind) = entry.and_then(|entry| entry.file_type().map(|kind| (entry, kind)))?;
            if kind.is_dir() || kind.is_symlink() || kind.is_file() {
                names.push(entry.file_name());
            }
        }
        names.sort();
        Ok(names)
    };
    let own = names(folder)?;
    if own != names(copy)? {
        return Ok(false);
    }
    for name in own {
        let (one, other) = (folder.join(&name), copy.join(&name));
        let (facts, copied) = (fs::symlink_metadata(&one)?, fs::symlink_metadata(&other)?);
        let is_same = facts.mode() == copied.mode()
            && match facts.file_type() {
                kind if kind.is_dir() => is_equal(&one, &other)?,
                kind if kind.is_symlink() => fs::read_link(&one)? == fs::read_link(&other)?,
                _ => facts.len() == copied.len() && fs::read(&one)? == fs::read(&other)?,
            };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A start that failed before its launcher replaced the originals by copies, which a power cut emptied.
    #[test]
    fn a_state_that_no_launcher_changed_stays_the_same_file() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::from_env(Some(place.path().join("h")), |_| None).unwrap();
        let root = launch::root(&home, "vm");
        let (variables, tpm) = (root.join("nvram/vm.fd"), root.join("lib/swtpm/id/tpm2-00.permall"));
        for (path, text) in [(&variables, "boot order"), (&tpm, "keys")] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        std::os::unix::fs::symlink("vm.fd", root.join("nvram/link")).unwrap();
        let numbers = || [&variables, &tpm].map(|path| fs::metadata(path).unwrap().ino());
        let before = numbers();
        EarlierState::copy(&home, "vm").unwrap().bring_back().unwrap();
        assert_eq!(numbers(), before);
        assert!(!root.join(EARLIER).exists());

        // One is changed, and the other one removed.
        let earlier = EarlierState::copy(&home, "vm").unwrap();
        fs::write(&variables, "other order").unwrap();
        fs::write(root.join("nvram/new"), "").unwrap();
        fs::remove_dir_all(root.join("lib")).unwrap();
        earlier.bring_back().unwrap();
        assert_eq!(fs::read(&variables).unwrap(), b"boot order");
        assert_eq!(fs::read(&tpm).unwrap(), b"keys");
        assert!(!root.join("nvram/new").exists() && !root.join(EARLIER).exists());
        assert_eq!(fs::read_link(root.join("nvram/link")).unwrap(), Path::new("vm.fd"));
    }
}
