//! Record of a disk in the pool: it says that the disk is complete.
//!
//! ```text
//!  disk.img   disk.json   importing
//!     –           –           –       no disk yet
//!     –           x           –       the same: an earlier version was ended while it removed the disk
//!     –           –           x       an import in progress, or one that was interrupted, or a removal
//!     x           –           x       the same: the disk has no data of a guest that is wanted, and is imported anew
//!     x           x           x       a complete disk: its import was ended before it removed the mark
//!     x           x           –       a complete disk, with the data of its guest
//!     x           –           –       a disk that lost its record: refused, since an import would replace it
//! ```
//!
//! A record beside a mark is that of the marked import: `begin` removes an older one durably before it writes the mark.
//! A removal makes the record the mark, by one rename, before it removes the disk.
//!
//! Every other error about these files is reported, too. An error that passed for a missing record would begin an import
//! over the data of a guest.

use crate::error::{Error, ErrorKind, Result};
use crate::place::gone;
use crate::record::now;
use crate::whole_file::{sync_names, write_whole};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

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

    /// Marks the folder before an import writes to it. A record that is found then is of a disk that is gone; with the
    /// disk of this import, it would pass for a complete one.
    pub(super) fn begin(folder: &Path) -> Result<()> {
        let record = folder.join(RECORD);
        gone(fs::remove_file(&record)).map_err(cannot_remove(&record))?;
        sync_names(folder)?;
        let path = folder.join(IMPORTING);
        fs::write(&path, []).map_err(|e| Error::io(format!("cannot write {}", path.display()), e))?;
        sync_names(folder)
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
        gone(fs::remove_file(&path)).map_err(cannot_remove(&path))
    }

    /// Removes a disk with its record. If it is interrupted, the folder has the disk as it was, or an unfinished one, or
    /// none.
    pub(crate) fn remove(folder: &Path) -> Result<()> {
        DiskRecord::revoke(folder)?;
        sync_names(folder)?;
        let disk = folder.join(DISK);
        gone(fs::remove_file(&disk)).map_err(cannot_remove(&disk))?;
        sync_names(folder)?;
        fs::remove_dir_all(folder).map_err(cannot_remove(folder))
    }

    /// Makes the record the mark of an import: the disk is not a complete one from now on. A rename needs no room on a
    /// full file system.
    fn revoke(folder: &Path) -> Result<()> {
        let record = folder.join(RECORD);
        if fs::symlink_metadata(&record).is_ok_and(|facts| facts.is_dir()) {
            return fs::remove_dir_all(&record).map_err(cannot_remove(&record));
        }
        gone(fs::rename(&record, folder.join(IMPORTING))).map_err(cannot_remove(&record))
    }
}

fn cannot_remove(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let what = format!("cannot remove {}", path.display());
    |e| Error::io(what, e)
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

    /// An earlier version, or a kill, may have left the record of a disk that is gone.
    #[test]
    fn an_unfinished_disk_does_not_pass_for_the_one_of_an_older_record() {
        let own = folder(&[(RECORD, OWN)]);
        DiskRecord::begin(own.path()).unwrap();
        fs::write(own.path().join(DISK), "another source").unwrap();
        assert_eq!(DiskRecord::find(own.path()).unwrap(), None);
    }

    /// A folder under the name of the disk stops the removal there.
    #[test]
    fn a_disk_whose_removal_was_interrupted_is_unfinished() {
        let own = folder(&[(DISK, "data"), (RECORD, OWN), ("lock", "")]);
        DiskRecord::revoke(own.path()).unwrap();
        assert_eq!(DiskRecord::find(own.path()).unwrap(), None);
        assert_eq!(fs::read(own.path().join(DISK)).unwrap(), b"data");
        fs::remove_file(own.path().join(DISK)).unwrap();
        assert_eq!(DiskRecord::find(own.path()).unwrap(), None);
        DiskRecord::begin(own.path()).unwrap();
        fs::write(own.path().join(DISK), "another source").unwrap();
        assert_eq!(DiskRecord::find(own.path()).unwrap(), None);

        let stuck = folder(&[(RECORD, OWN)]);
        fs::create_dir(stuck.path().join(DISK)).unwrap();
        DiskRecord::remove(stuck.path()).unwrap_err();
        assert_eq!(DiskRecord::find(stuck.path()).unwrap(), None, "the record went first");
    }

    #[test]
    fn a_disk_is_removed_whatever_its_record_is() {
        for files in [&[(DISK, "x"), (RECORD, OWN)][..], &[(DISK, "x")], &[(DISK, "x"), (IMPORTING, "")]] {
            let own = folder(files);
            DiskRecord::remove(own.path()).unwrap();
            assert!(!own.path().exists());
        }
        let own = folder(&[(DISK, "x"), (IMPORTING, "")]);
        fs::create_dir(own.path().join(RECORD)).unwrap();
        DiskRecord::remove(own.path()).unwrap();
        assert!(!own.path().exists());
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
