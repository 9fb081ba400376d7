//! A disk file of the user as it was at one time, and the format that a VM has used it with.

use crate::error::{Error, Result};
use api::launcher::Format;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use storage::LastingFileId;

/// Files of a VM's hostDisks, by volume.
pub type HostDisks = BTreeMap<String, HostDisk>;

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
                let size = file.metadata().map_err(cannot)?.len();
                let id = LastingFileId::of(&file).map_err(|e| cannot(e.into()))?;
                Ok(Some(HostFile { id, size }))
            }
        }
    }

    /// True if this may be the same file, whatever its size is now.
    pub(crate) fn is_same(&self, now: &HostFile) -> bool {
        self.id.may_be(&now.id)
    }

    /// True if this may be the same file, and has its size.
    pub(crate) fn is_unchanged(&self, now: &HostFile) -> bool {
        self.is_same(now) && self.size == now.size
    }
}

impl HostDisk {
    /// The file, if it is a raw disk.
    pub(crate) fn raw_file(&self) -> Option<&HostFile> {
        Some(&self.file).filter(|_| self.format == Format::Raw)
    }

    /// Format of the file at `path`, which is `now` there. `judge` tells it by the first bytes.
    pub(crate) fn format_of(
        &self,
        path: &Path,
        now: &HostFile,
        judge: impl FnOnce(&Path) -> Result<Format>,
    ) -> Result<Format> {
        let is_same = self.file.is_same(now);
        match self.format {
            Format::Raw if self.file.is_unchanged(now) => Ok(Format::Raw),
            Format::Raw => match begins_as_qcow2(path)? {
                false => Ok(Format::Raw),
                true => Err(self.refused(path, is_same)),
            },
            Format::Qcow2 if is_same => Ok(judge(path).unwrap_or(Format::Qcow2)),
            Format::Qcow2 => judge(path),
        }
    }

    fn refused(&self, path: &Path, is_same: bool) -> Error {
        let how = match is_same {
            true => format!("had {} bytes", self.file.size),
            false => "was another file".to_owned(),
        };
        let path = path.display();
        let what = format!(
            "{path} was a raw disk at the last start of this VM and {how}, and begins like a qcow2 image now: \
             a guest can write such a beginning, too"
        );
        Error::refused(what).with_hint(match is_same {
            true => format!(
                "if the image is yours, start the VM by 'coracle run' again; if the raw disk was made larger, \
                 'truncate -s {} {path}' gives it its size back",
                self.file.size
            ),
            false => "if the image is yours, start the VM by 'coracle run' again".to_owned(),
        })
    }
}

/// True if a file begins as a qcow2 image. Any other beginning (LUKS, an archive, another format) is no reason to refuse a
/// raw disk: its guest may have written it, and it stays raw.
fn begins_as_qcow2(path: &Path) -> Result<bool> {
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
