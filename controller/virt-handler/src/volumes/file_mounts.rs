//! Mounts of checked files in the launcher's own folder.
//!
//! ```text
//!  vmi-disks/data/disk.img   a path in a claim: other users of the claim can replace it by another file or a link
//!       │ held: this file, looked at, made the launcher's
//!       └─mount─► ROOT/shown/data.img   a name in the launcher's own folder, which no other container of the pod writes to
//! ```
//!
//! The launcher, libvirt and QEMU open disks by path, some of them more than once: at the start of QEMU, for
//! a snapshot, after a resize. By a path in a claim, each opening could get another file. So they get a path
//! that no other container can change, on which the file is mounted: the checked file is the one in use, as
//! long as the VMI lives.
//!
//! An existing mount is kept, so that all may be repeated.

use super::Parts;
use crate::error::{Error, ErrorKind, Result};
use crate::pod::confined::{Access, PathHandle};
use crate::pod::{Folder, Process, mounts};
use std::path::{Path, PathBuf};

/// Subfolder of the launcher's own folder.
const SHOWN: &str = "shown";

impl Parts<'_> {
    /// Path of a file for the launcher. `of`: a process that sees the file; `there`: its path in the
    /// launcher's container, if it has one, which is used if the launcher is not in a container.
    pub(super) fn show(
        &self,
        file: &PathHandle,
        of: &Process,
        name: &str,
        access: Access,
        there: Option<PathBuf>,
    ) -> Result<PathBuf> {
        if let Some(there) = there
            && mounts::are_ours(self.process)?
        {
            return Ok(there);
        }
        self.path_over(file, name, |target| mounts::show(file, of, target, self.process, access))
    }

    /// Path of the shared node of a block device for the launcher.
    pub(super) fn show_device(&self, node: &PathHandle, name: &str) -> Result<PathBuf> {
        self.path_over(node, name, |target| mounts::show_device(node, target, self.process))
    }

    /// True if the launcher has this file under this name already, or is not in a container: its QEMU may
    /// have the file open.
    pub(super) fn is_shown(&self, file: &PathHandle, name: &str) -> Result<bool> {
        if mounts::are_ours(self.process)? {
            return Ok(true);
        }
        match self.launchers_own(SHOWN)?.held(name) {
            Ok(seen) => Ok(seen.is(file)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Path in the launcher's own folder, on which `show` mounts the file.
    fn path_over(
        &self,
        file: &PathHandle,
        name: &str,
        show: impl FnOnce(&PathHandle) -> Result<()>,
    ) -> Result<PathBuf> {
        let own = &self.layout().folder;
        let path = Path::new(own).join(SHOWN).join(name);
        let folder = self.launchers_own(SHOWN)?;
        match folder.held(name) {
            Ok(seen) if seen.is(file) => return Ok(path),
            // Left by a virt-handler that was killed, or by an earlier look at the path. No QEMU has it open
            // yet, and mounts on it end with it.
            Ok(_) => folder.remove(name)?,
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        drop(folder.create(name)?);
        show(&folder.held(name)?)?;
        Ok(path)
    }

    /// A subfolder of the launcher's own folder, as the launcher sees it, created if missing. It is created
    /// from the node, where nothing is mounted in an emptyDir: in the container, a folder of the host may be
    /// mounted at its path.
    fn launchers_own(&self, name: &str) -> Result<Folder> {
        let same = |seen: Folder, own: &Folder| match seen.is(own)? {
            true => Ok(seen),
            false => {
                let shown = seen.display_path().display();
                Err(Error::refused(format!(
                    "{shown} is not the launcher's own folder: another folder is mounted there"
                )))
            }
        };
        let root = self.place.root()?;
        let seen = same(self.seen(&self.layout().folder)?, &root)?;
        let made = root.create_all(name)?;
        same(seen.folder(name)?, &made)
    }
}

#[cfg(test)]
#[path = "file_mounts_tests.rs"]
mod tests;
