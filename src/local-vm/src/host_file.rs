//! A disk file of the user as it was at one time, and the format that a VM has used it with.

use crate::error::{Error, Result};
use api::launcher::Format;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use storage::protected::ProtectedFile;
use storage::{BackingFile, DeviceId, FileId, LastingFileId};

/// Unit in which QEMU counts the size of a raw disk.
const SECTOR: u64 = 512;

/// Files of a VM's hostDisks, by volume.
pub type HostDisks = BTreeMap<String, HostDisk>;

/// Block devices of a VM, by volume.
pub type HostDevices = BTreeMap<String, HostDevice>;

/// A block device that a VM has, as it was at its last start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostDevice {
    pub(crate) path: PathBuf,
    pub(crate) id: DeviceId,
}

/// A disk file of the user, and the format that a VM has used it with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostDisk {
    pub(crate) file: HostFile,
    pub(crate) format: Format,
}

/// A disk file as it was at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFile {
    id: LastingFileId,
    /// Size in bytes.
    size: u64,
}

impl HostFile {
    /// The regular file at this path, or at the end of a link. `None` if the path leads to nothing, or to something else: a folder,
    /// a device, a FIFO.
    pub fn find(path: &Path) -> Result<Option<HostFile>> {
        let cannot = |e| Error::io(format!("cannot look at {}", path.display()), e);
        match std::fs::metadata(path) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(e) => Err(cannot(e)),
            // An open of a device or a FIFO may wait, or have an effect on what is behind it.
            Ok(facts) if !facts.is_file() => Ok(None),
            Ok(_) => {
                let file = File::open(path).map_err(cannot)?;
                HostFile::of(&file).map(Some).map_err(cannot)
            }
        }
    }

    /// Looks at an open file: its identity and its size.
    pub(crate) fn of(file: &File) -> io::Result<HostFile> {
        Ok(HostFile { id: LastingFileId::of(file)?, size: file.metadata()?.len() })
    }

    /// Opens the file for writing once, as QEMU will: overlayfs copies a file of a lower layer then, and the copy has another time of
    /// birth. A file that cannot be written to is left to the launcher, which says so.
    pub(crate) fn settle(path: &Path) {
        if std::fs::metadata(path).is_ok_and(|facts| facts.is_file())
            && let Err(e) = File::options().read(true).write(true).open(path)
        {
            tracing::debug!("{} cannot be written to: {e}", path.display());
        }
    }

    /// The file below a loop device.
    pub(crate) fn of_backing(backing: &BackingFile) -> HostFile {
        HostFile { id: backing.id.clone(), size: backing.size }
    }

    /// The entry of this file in a list of files to be kept. `path`: that of the file, as recorded.
    pub(crate) fn protected(&self, path: &Path) -> ProtectedFile {
        let is_at_path = || HostFile::find(path).is_ok_and(|now| now.is_some_and(|now| now.is_same(self)));
        // A file with a time of birth is told by that. Its storage may be away, and is not asked.
        let at = match self.id.is_surely(&self.id) {
            true => None,
            false => FileId::of_path(path).ok().filter(|_| is_at_path()),
        };
        ProtectedFile { id: self.id.clone(), at }
    }

    /// True if this may be the same file, whatever its size is now.
    pub(crate) fn is_same(&self, now: &HostFile) -> bool {
        self.id.may_be(&now.id)
    }

    /// True if the file `now`, which is another one by its identity, may still be this one: a file system without lasting inode
    /// numbers has no times of birth, and a copy in a layer above keeps the number.
    pub(crate) fn may_have_moved(&self, now: &HostFile) -> bool {
        self.id.may_have_moved(&now.id)
    }

    /// True if this is the same file beyond doubt, whatever its size is now.
    pub(crate) fn is_surely(&self, now: &HostFile) -> bool {
        self.id.is_surely(&now.id)
    }

    /// True if this may be the same file, and has its size. QEMU fills the last sector of a raw disk once its guest writes
    /// there.
    pub(crate) fn is_unchanged(&self, now: &HostFile) -> bool {
        self.is_same(now) && self.size.div_ceil(SECTOR) == now.size.div_ceil(SECTOR)
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

impl HostDevice {
    /// The block device at this path. `None` if there is none.
    pub(crate) fn find(path: &Path) -> Result<Option<HostDevice>> {
        let id = DeviceId::of_path(path)
            .map_err(|e| Error::io(format!("cannot look at {}", path.display()), e))?;
        Ok(id.map(|id| HostDevice { path: path.to_owned(), id }))
    }

    /// True if both have bytes in common. Devices that nothing but their size is known of are told by their paths, too.
    pub(crate) fn shares_bytes(&self, known: &HostDevice) -> bool {
        match known.id.is_named() {
            true => self.id.shares_bytes(&known.id),
            false => self.path == known.path && self.id.size() == known.id.size(),
        }
    }

    /// True if this may be one of the devices of a VM: the one of the same path, or of any path where none has it.
    pub(crate) fn may_be_one_of(&self, known: &HostDevices) -> bool {
        match known.values().find(|known| known.path == self.path) {
            Some(known) => self.id.may_be(&known.id),
            None => known.values().any(|known| self.id.may_be(&known.id)),
        }
    }

    /// The file below a loop device, with its path.
    pub(crate) fn backing(&self) -> Option<(&Path, HostFile)> {
        let backing = self.id.backing()?;
        Some((&backing.path, HostFile::of_backing(backing)))
    }
}

impl HostDisk {
    /// The file, if it is a raw disk.
    pub(crate) fn raw_file(&self) -> Option<&HostFile> {
        Some(&self.file).filter(|_| self.format == Format::Raw)
    }
}

/// The refusal of the file at `path`, which begins as a qcow2 image: `how` it came to be doubted, and what to do.
pub(crate) fn unclear(path: &Path, how: &str, hint: &str) -> Error {
    let what = format!(
        "{} {how}, and begins like a qcow2 image now: a guest can write such a beginning, too",
        path.display()
    );
    Error::refused(what).with_hint(hint)
}

/// True if a file begins as a qcow2 image. Any other beginning (LUKS, an archive, another format) is no reason to refuse a
/// raw disk: its guest may have written it, and it stays raw.
pub(crate) fn begins_as_qcow2(path: &Path) -> Result<bool> {
    let mut head = [0; 4];
    match File::open(path).and_then(|file| file.read_exact_at(&mut head, 0)) {
        Ok(()) => Ok(head == *b"QFI\xfb"),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(Error::io(format!("cannot read {}", path.display()), e)),
    }
}

/// Paths of the hostDisks of a VMI, each with its volume.
pub(crate) fn paths(vmi: &serde_json::Value) -> impl Iterator<Item = (&str, PathBuf)> {
    let volumes = vmi["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.filter_map(|volume| {
        let (name, path) = (volume["name"].as_str()?, volume["hostDisk"]["path"].as_str()?);
        Some((name, PathBuf::from(path)))
    })
}

/// Files of the hostDisks of a VMI as they are now, by volume. Those that do not exist yet are left out.
pub fn files(vmi: &serde_json::Value) -> Result<BTreeMap<String, (PathBuf, HostFile)>> {
    let mut files = BTreeMap::new();
    for (name, path) in paths(vmi) {
        if let Some(file) = HostFile::find(&path)? {
            files.insert(name.to_owned(), (path, file));
        }
    }
    Ok(files)
}
