//! A file that was looked at, shown to the launcher in its own folder.
//!
//! ```text
//!  vmi-disks/data/disk.img   a name in a claim: whoever else has the claim can give it to another file, or to a link
//!       │ held: this file, looked at, made the launcher's
//!       └─mount─► ROOT/shown/data.img   a name in the launcher's own folder, which no other container of the pod writes to
//! ```
//!
//! The launcher, libvirt and QEMU open disks by name, some of them more than once: when QEMU starts, for a snapshot, after a
//! resize. By a name in a claim each would open what is there at that moment. So they are told a name that nobody else can
//! change, over which the file is mounted: what was looked at is what is used, for as long as the VMI lives.
//!
//! What is shown already is not shown again, so that all may be done again.

use super::Parts;
use crate::error::{Error, ErrorKind, Result};
use crate::pod::beneath::{Access, Held};
use crate::pod::{Folder, Process, mounts};
use std::path::{Path, PathBuf};

/// The folder in the launcher's own.
const SHOWN: &str = "shown";

impl Parts<'_> {
    /// Where the launcher finds a file that the process `of` sees. `there` is its name in the launcher's container, if it
    /// has one: a launcher that is in no container sees what we see, and is told that.
    pub(super) fn show(
        &self,
        file: &Held,
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
        self.over(file, name, |target| mounts::show(file, of, target, self.process, access))
    }

    /// Where the launcher finds the node of a block device that all launchers on this node have.
    pub(super) fn show_device(&self, node: &Held, name: &str) -> Result<PathBuf> {
        self.over(node, name, |target| mounts::show_device(node, target, self.process))
    }

    /// True if the launcher has this file under this name already, or is in no container: its QEMU may have it open.
    pub(super) fn is_shown(&self, file: &Held, name: &str) -> Result<bool> {
        if mounts::are_ours(self.process)? {
            return Ok(true);
        }
        match self.launchers_own(SHOWN)?.held(name) {
            Ok(seen) => Ok(seen.is(file)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// A name in the launcher's own folder, over which `show` mounts the file.
    fn over(&self, file: &Held, name: &str, show: impl FnOnce(&Held) -> Result<()>) -> Result<PathBuf> {
        let own = &self.layout().folder;
        let path = Path::new(own).join(SHOWN).join(name);
        let folder = self.launchers_own(SHOWN)?;
        match folder.held(name) {
            Ok(seen) if seen.is(file) => return Ok(path),
            // Left by one of us that was killed, or what the name led to at an earlier look. No QEMU has it open yet: what
            // is shown over it ends with it.
            Ok(_) => folder.remove(name)?,
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        drop(folder.create(name)?);
        show(&folder.held(name)?)?;
        Ok(path)
    }

    /// A folder in the launcher's own, made where it is missing, as the launcher sees it. It is made from the node's side,
    /// where nothing is mounted in an emptyDir: in the container a folder of the host may lie under its name by now.
    fn launchers_own(&self, name: &str) -> Result<Folder> {
        let same = |seen: Folder, own: &Folder| match seen.is(own)? {
            true => Ok(seen),
            false => {
                let shown = seen.shown().display();
                Err(Error::refused(format!("{shown} is not the launcher's own folder, but another's")))
            }
        };
        let root = self.place.root()?;
        let seen = same(self.seen(&self.layout().folder)?, &root)?;
        let made = root.made(name)?;
        same(seen.folder(name)?, &made)
    }
}

#[cfg(test)]
#[path = "shown_tests.rs"]
mod tests;
