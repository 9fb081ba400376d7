//! The mark of finished work: a file beside the disk, or a folder among the files of an archive. A later run
//! looks for it first.
//!
//! ```text
//!  disk.img  renamed, durable ─► .cdi-OWNER.done, an empty file ─► only now is success reported     (file)
//!  .cdi-OWNER.naming, empty ──rename──► .cdi-OWNER.done, an empty folder                           (unpack/folder.rs)
//! ```
//!
//! **Its owner.** The name holds the uid of the PVC, which earlier users of the volume could not know. So
//! marks of another PVC's runs are ignored. A device has no place for a mark.

use crate::{Error, Result};
use api::job::Target;
use rustix::fs::{CWD, Mode, OFlags};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use storage::publish::sync_folder;

/// The maximum length of an owner's name, in characters.
const LONGEST: usize = 64;

/// The name of a file or folder that a run for this owner keeps on its volume: `.cdi-OWNER.WORD`.
pub(crate) fn name(owner: &str, word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let owner: String = owner.chars().filter(|&c| is_plain(c)).take(LONGEST).collect();
    format!(".cdi-{owner}.{word}")
}

/// The mark on the volume of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoneMarker {
    folder: PathBuf,
    /// The disk, if the target is one.
    disk: Option<PathBuf>,
    name: String,
}

impl DoneMarker {
    /// The mark of a job with this target, for this owner; `None` for a device, and without an owner.
    pub fn of(target: &Target, owner: &str) -> Option<DoneMarker> {
        let (folder, disk) = match target {
            Target::File(path) => (path.parent()?.to_owned(), Some(path.clone())),
            Target::Folder(path) => (path.clone(), None),
            Target::Device(_) => return None,
        };
        (!owner.is_empty()).then(|| DoneMarker { folder, disk, name: name(owner, "done") })
    }

    /// The bytes of the disk that an earlier run has finished (0: the files of an archive); `None` if none
    /// has.
    pub fn found(&self) -> Result<Option<u64>> {
        let path = self.folder.join(&self.name);
        let at = |path: &Path| match fs::symlink_metadata(path) {
            Ok(found) => Ok(Some(found).filter(|found| found.is_file() || found.is_dir())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(format!("cannot look for {}", path.display()), e)),
        };
        let Some(disk) = at(&path)?.map(|_| self.disk.as_deref()) else { return Ok(None) };
        match disk {
            None => Ok(Some(0)),
            // Without its disk the mark is ignored.
            Some(disk) => Ok(at(disk)?.filter(fs::Metadata::is_file).map(|disk| disk.len())),
        }
    }

    /// Sets the mark. The disk is complete and durable under its name before; the mark is durable after. An
    /// empty file takes no block of a full volume.
    pub fn set(&self) -> Result<()> {
        let path = self.folder.join(&self.name);
        let failed = |e| Error::io(format!("cannot make the mark {}", path.display()), e);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR).map(File::from);
        let durable = made
            .map_err(std::io::Error::from)
            .and_then(|file| file.sync_all())
            .and_then(|()| Ok(sync_folder(&File::open(&self.folder)?)?));
        // A later run must not rely on a mark that may be lost with the power.
        durable.inspect_err(|_| drop(fs::remove_file(&path))).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_believed_beside_its_disk_and_of_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk.img");
        let of = |owner| DoneMarker::of(&Target::File(disk.clone()), owner).unwrap();
        assert_eq!(of("uid-1").found().unwrap(), None);
        of("uid-1").set().unwrap();
        assert_eq!(of("uid-1").found().unwrap(), None, "there is no disk");
        fs::write(&disk, [1; 700]).unwrap();
        assert_eq!(of("uid-1").found().unwrap(), Some(700));
        assert_eq!(of("uid-2").found().unwrap(), None);
        of("uid-1").set().unwrap();
        std::os::unix::fs::symlink(&disk, folder.path().join(".cdi-uid-2.done")).unwrap();
        assert_eq!(of("uid-2").found().unwrap(), None, "a link is not followed");
        assert_eq!(DoneMarker::of(&Target::File(disk.clone()), ""), None);
        assert_eq!(DoneMarker::of(&Target::Device(disk), "uid-1"), None);
    }
}
