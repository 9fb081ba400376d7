//! Formats of the user's disk files (hostDisks), kept for a file and not for its path.
//!
//! ```text
//!  at the last start    now                                  format
//!  raw                  the same file, of the same size      raw, whatever its first bytes are: they may be its guest's
//!  raw                  another file, or of another size     by its first bytes; what is not raw any more is refused
//!  qcow2                a file                               by its first bytes, which a guest of a qcow2 cannot write
//! ```
//!
//! A raw disk that became a qcow2 is refused even under a new inode: a copy of a disk has the bytes of its guest, too, and some
//! network file systems number their files anew. `coracle run`, where the user names the file, takes it.
//!
//! A guest changes neither the size of a raw file nor its inode and time of birth. A file that was written over in place
//! (`cp`, `qemu-img convert`) keeps both, and is noticed by its size.

use crate::error::{Error, Result};
use crate::record::Record;
use api::launcher::{Format, Source};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use storage::LastingFileId;

/// Files of a VM's hostDisks, by volume.
pub type HostDisks = BTreeMap<String, HostDisk>;

/// A disk file of the user, and the format that a VM has used it with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostDisk {
    file: HostFile,
    format: Format,
}

/// A disk file as it was at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFile {
    id: LastingFileId,
    /// Size in bytes.
    size: u64,
}

impl HostFile {
    /// The file at this path; `None` if there is none, or a device or a folder.
    pub fn find(path: &Path) -> Result<Option<HostFile>> {
        let cannot = |e| Error::io(format!("cannot look at {}", path.display()), e);
        match std::fs::metadata(path) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(e) => Err(cannot(e)),
            // An open of a device or a FIFO may have effects.
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
    fn format_of(
        &self,
        path: &Path,
        now: &HostFile,
        judge: impl FnOnce(&Path) -> Result<Format>,
    ) -> Result<Format> {
        let is_same = self.file.is_same(now);
        match self.format {
            Format::Raw if self.file.is_unchanged(now) => Ok(Format::Raw),
            Format::Raw => match judge(path)? {
                Format::Raw => Ok(Format::Raw),
                Format::Qcow2 => Err(self.refused(path, is_same)),
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

/// The hostDisks of a record, whose files were `files` before their formats were told.
pub fn recorded(record: &Record, files: BTreeMap<String, (PathBuf, HostFile)>) -> HostDisks {
    let formats = &record.sync.resolved.volumes;
    let disks = files.into_iter().filter_map(|(volume, (_, file))| match formats.get(&volume) {
        Some(Source::File { format, .. }) => Some((volume, HostDisk { file, format: *format })),
        _ => None,
    });
    disks.collect()
}

/// Adds the files that the launcher has made since: they are raw. True if there are any.
pub fn add_made(record: &mut Record) -> Result<bool> {
    let made = files(&record.sync.vmi)?.into_iter().filter_map(|(volume, (_, file))| {
        let is_made =
            !record.sync.resolved.volumes.contains_key(&volume) && !record.host_disks.contains_key(&volume);
        is_made.then_some((volume, HostDisk { file, format: Format::Raw }))
    });
    let made: HostDisks = made.collect();
    let any = !made.is_empty();
    record.host_disks.extend(made);
    Ok(any)
}

/// Tells the formats of a record's hostDisks again, before its VM starts again.
pub fn refresh(record: &mut Record, judge: impl Fn(&Path) -> Result<Format>) -> Result<()> {
    let mut now = HostDisks::new();
    for (volume, (path, file)) in files(&record.sync.vmi)? {
        let source = record.sync.resolved.volumes.get_mut(&volume);
        let format = match (record.host_disks.get(&volume), &source) {
            (Some(known), _) => known.format_of(&path, &file, &judge)?,
            // A record of an earlier version says nothing about the file.
            (None, Some(Source::File { format, .. })) => *format,
            // The launcher made it, or makes it now.
            (None, _) => Format::Raw,
        };
        if let Some(Source::File { format: told, .. }) = source {
            *told = format;
        }
        now.insert(volume, HostDisk { file, format });
    }
    record.host_disks = now;
    Ok(())
}

#[cfg(test)]
#[path = "host_disks_tests.rs"]
mod tests;
