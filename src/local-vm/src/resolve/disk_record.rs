//! Record of a disk in the pool: it says that the disk is complete.
//!
//! ```text
//!  disk.img   disk.json   importing
//!     –           –           –       no disk yet
//!     –           –           x       an import in progress, or one that was interrupted
//!     x           –           x       the same, at its very end: the disk has no data of a guest, and is imported anew
//!     x           x           –       a complete disk, with the data of its guest
//!     x           –           –       a disk that lost its record: refused, since an import would replace it
//! ```
//!
//! Every other error about these files is reported, too. An error that passed for a missing record would begin an import
//! over the data of a guest.

use crate::error::{Error, ErrorKind, Result};
use crate::place::gone;
use crate::record::{now, write_whole};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the disk in its folder.
pub(crate) const DISK: &str = "disk.img";
/// Name of its record.
const RECORD: &str = "disk.json";
/// Name of the mark of an import that has not ended.
const IMPORTING: &str = "importing";

/// Content of the file `disk.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DiskRecord {
    /// Version of this JSON: `coracle.disk/v1`.
    schema: String,
    /// Source of the disk, without its secrets.
    pub(crate) from: String,
    /// Virtual size in bytes at the end of the import.
    size: u64,
    /// Time of creation, RFC 3339.
    pub(crate) created: String,
    /// True if all blocks of the file are allocated.
    #[serde(default)]
    pub(crate) preallocated: bool,
}

impl DiskRecord {
    /// A record of a disk that was imported now.
    pub(super) fn new(from: String, size: u64, preallocated: bool) -> DiskRecord {
        DiskRecord { schema: "coracle.disk/v1".into(), from, size, created: now(), preallocated }
    }

    /// The record of the complete disk in this folder; `None` if the folder has no disk, or an unfinished one.
    pub(crate) fn find(folder: &Path) -> Result<Option<DiskRecord>> {
        let (path, disk) = (folder.join(RECORD), folder.join(DISK));
        let has_disk = exists(&disk)?;
        let bytes = match fs::read(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return match has_disk && !exists(&folder.join(IMPORTING))? {
                    true => Err(lost(&disk, &path)),
                    false => Ok(None),
                };
            }
            other => other.map_err(|e| {
                let what = format!("cannot read {}, the record of a disk that is kept", path.display());
                with_remedy(Error::io(what, e), folder)
            })?,
        };
        let record = serde_json::from_slice(&bytes).map_err(|e| {
            let what =
                format!("{} is not what coracle wrote: the record of a disk that is kept", path.display());
            with_remedy(Error::refused(what).because(e), folder)
        })?;
        Ok(Some(record).filter(|_| has_disk))
    }

    /// Marks the folder before an import writes to it.
    pub(super) fn begin(folder: &Path) -> Result<()> {
        let path = folder.join(IMPORTING);
        fs::write(&path, []).map_err(|e| Error::io(format!("cannot write {}", path.display()), e))
    }

    /// Writes the record of a complete disk.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let text =
            serde_json::to_vec_pretty(self).map_err(|e| Error::failed("cannot write a note").because(e))?;
        write_whole(&folder.join(RECORD), &text)?;
        DiskRecord::end(folder)
    }

    /// Removes the mark of an import: from now on a missing record is an error.
    pub(super) fn end(folder: &Path) -> Result<()> {
        let path = folder.join(IMPORTING);
        gone(fs::remove_file(&path)).map_err(|e| Error::io(format!("cannot remove {}", path.display()), e))
    }

    /// Removes a disk with its record. The disk goes first: one without a record would be refused.
    pub(crate) fn remove(folder: &Path) -> Result<()> {
        let cannot = |path: PathBuf| move |e| Error::io(format!("cannot remove {}", path.display()), e);
        let disk = folder.join(DISK);
        gone(fs::remove_file(&disk)).map_err(cannot(disk))?;
        fs::remove_dir_all(folder).map_err(cannot(folder.to_owned()))
    }
}

/// True if a path leads to something. A link that leads nowhere is an error: its disk is kept on storage that is not
/// there now.
fn exists(path: &Path) -> Result<bool> {
    let cannot = |e| Error::io(format!("cannot look at {}", path.display()), e);
    match (fs::symlink_metadata(path), fs::metadata(path)) {
        (Err(e), _) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        (Err(e), _) => Err(cannot(e)),
        (Ok(_), Err(e)) if e.kind() == io::ErrorKind::NotFound => {
            let what = format!("{} is a link that leads nowhere", path.display());
            Err(Error::new(ErrorKind::NotFound, what)
                .with_hint("bring back the file that it leads to, or remove the link"))
        }
        (Ok(_), Err(e)) => Err(cannot(e)),
        (Ok(_), Ok(_)) => Ok(true),
    }
}

fn lost(disk: &Path, record: &Path) -> Error {
    let what =
        format!("{} has lost its record {}, so its data might be replaced", disk.display(), record.display());
    with_remedy(Error::refused(what), disk.parent().unwrap_or(disk))
}

fn with_remedy(error: Error, folder: &Path) -> Error {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    error.with_hint(format!(
        "mend or restore that file, or run the disk itself ('coracle run {}'); \
         'coracle pool rm -f {name}' removes the disk with all its data, to begin anew",
        folder.join(DISK).display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = r#"{"schema":"coracle.disk/v1","from":"blank","size":4096,"created":"now"}"#;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn a_disk_is_complete_once_its_record_is_there() {
        let none = folder(&[]);
        assert_eq!(DiskRecord::find(none.path()).unwrap(), None);
        assert_eq!(DiskRecord::find(&none.path().join("no")).unwrap(), None);
        for unfinished in [&[(IMPORTING, "")][..], &[(IMPORTING, ""), (DISK, "x")], &[(RECORD, OWN)]] {
            assert_eq!(DiskRecord::find(folder(unfinished).path()).unwrap(), None, "{unfinished:?}");
        }
        for complete in [&[(DISK, "x"), (RECORD, OWN)][..], &[(DISK, "x"), (RECORD, OWN), (IMPORTING, "")]] {
            assert!(DiskRecord::find(folder(complete).path()).unwrap().is_some(), "{complete:?}");
        }
    }

    #[test]
    fn an_import_marks_its_folder_until_its_record_is_written() {
        let own = folder(&[]);
        DiskRecord::begin(own.path()).unwrap();
        fs::write(own.path().join(DISK), "x").unwrap();
        assert_eq!(DiskRecord::find(own.path()).unwrap(), None);
        let record = DiskRecord::new("blank".into(), 1, false);
        record.write(own.path()).unwrap();
        assert_eq!(DiskRecord::find(own.path()).unwrap(), Some(record));
        fs::remove_file(own.path().join(RECORD)).unwrap();
        assert_eq!(DiskRecord::find(own.path()).unwrap_err().kind(), ErrorKind::Refused);
    }

    /// Each of them passed for a missing disk once, and the next run imported a new one over it.
    #[test]
    fn a_kept_disk_whose_record_cannot_be_read_is_refused() {
        let says = |folder: &Path, path: &str| {
            let e = DiskRecord::find(folder).unwrap_err().to_string();
            let name = folder.file_name().unwrap().to_string_lossy();
            assert!(e.contains(&format!("{}/{path}", folder.display())), "{e}");
            assert!(
                e.contains(&format!("'coracle pool rm -f {name}' removes the disk with all its data")),
                "{e}"
            );
            assert_eq!(fs::read(folder.join(DISK)).unwrap(), b"data");
        };
        says(folder(&[(DISK, "data")]).path(), RECORD);
        for damaged in ["", "{", "[]", &OWN[..20], "{}"] {
            says(folder(&[(DISK, "data"), (RECORD, damaged)]).path(), RECORD);
        }
        let unreadable = folder(&[(DISK, "data")]);
        fs::create_dir(unreadable.path().join(RECORD)).unwrap();
        says(unreadable.path(), RECORD);
        let looped = folder(&[(DISK, "data")]);
        std::os::unix::fs::symlink(RECORD, looped.path().join(RECORD)).unwrap();
        says(looped.path(), RECORD);
    }

    #[test]
    fn a_disk_behind_a_link_that_leads_nowhere_is_refused() {
        let own = folder(&[(RECORD, OWN)]);
        std::os::unix::fs::symlink("/nowhere/disk.img", own.path().join(DISK)).unwrap();
        let e = DiskRecord::find(own.path()).unwrap_err().to_string();
        assert!(e.contains("disk.img is a link that leads nowhere"), "{e}");
    }
}
