//! Record of a disk in the pool: it says that the disk is complete.
//!
//! ```text
//!  disk.img   disk.json   importing   removing
//!     –           –           –           –       no disk yet
//!     –           x           –           –       the same: an earlier version was ended while it removed the disk
//!     –           –           –           x       the same: a removal was ended behind the disk
//!     –           –           x           –       an import in progress, or one that was interrupted
//!     x           –           x           –       the same: the disk has no data of a guest, and is imported anew
//!     x           x           x           –       a complete disk: its import was ended before it removed the mark
//!     x           x           –           –       a complete disk, with the data of its guest
//!     x           –           –           –       a disk that lost its record: refused, since an import would replace it
//!     x           –           any         x       a removal that was interrupted: refused, since a guest may have written
//! ```
//!
//! A record beside a mark is that of the marked import: `begin` removes an older one durably before it writes the mark.
//! A removal makes the record the mark `removing`, by one rename, before it removes the disk. Earlier versions made it the
//! mark `importing`, which is empty otherwise.
//!
//! Every other error about these files is reported, too. An error that passed for a missing record would begin an import
//! over the data of a guest.

use super::state;
use crate::error::{Error, ErrorKind, Result};
use crate::lock::LOCK;
use crate::path::own_entries;
use crate::place::gone;
use crate::pool_disk::{DISK, IMPORTING, PoolDisk, RECORD, REMOVING, SCHEMA};
use crate::record::now;
use crate::whole_file::{sync_names, write_whole};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files and folders of ours there besides the lock: those of above, of an import, of records being written, and the state of the system on
/// the disk.
const OWN: [&str; 10] = [
    DISK,
    RECORD,
    IMPORTING,
    REMOVING,
    "disk.img.partial",
    "disk.img.partial.journal",
    "disk.img.partial.journal~",
    "disk.json.partial",
    "certificates",
    "disk.img.state",
];

/// Content of the file `disk.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DiskRecord {
    /// Version of this JSON: `coracle.disk/v1`.
    schema: String,
    /// Source of the disk, without its secrets.
    pub(crate) from: String,
    /// Digest of the whole address of the source, with its user and query; unset in records of earlier versions, and
    /// for a source without an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<String>,
    /// Namespace of the VMs that have the disk; unset in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    /// Name of the VM whose arguments asked for the disk; unset for a disk of a manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) vm: Option<String>,
    /// Folder of the VMs of the home that made the disk; unset in records of earlier versions. Several homes may have one pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) vms: Option<PathBuf>,
    /// Random number of the disk, by which the record of a VM knows it from one that was made anew; unset in records of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    /// Virtual size in bytes at the end of the import.
    size: u64,
    /// Time of creation, RFC 3339.
    pub(crate) created: String,
    /// True if all blocks of the file are allocated.
    #[serde(default)]
    pub(crate) preallocated: bool,
}

impl DiskRecord {
    /// The parts by which the record of a VM knows the disk again.
    pub(crate) fn identity(&self) -> PoolDisk {
        let DiskRecord { from, address, namespace, vm, id, .. } = self.clone();
        PoolDisk { from, address, namespace, vm, id }
    }

    /// True if `run` may use the disk for the VM of this name without a manifest: not one of another VM, or of a manifest. Records of
    /// earlier versions do not tell a disk of a manifest.
    pub(crate) fn is_for_arguments_of(&self, vm: &str) -> bool {
        self.vm.as_deref().map_or(self.vms.is_none(), |own| own == vm)
    }

    /// A record of a disk that was imported now.
    pub(super) fn new(from: String, size: u64, preallocated: bool) -> DiskRecord {
        let schema = SCHEMA.into();
        let (address, namespace, vm, vms, id) = (None, None, None, None, None);
        DiskRecord { schema, from, address, namespace, vm, vms, id, size, created: now(), preallocated }
    }

    /// The record of the complete disk in this folder; `None` if the folder has no disk, or an unfinished one.
    pub(crate) fn find(folder: &Path) -> Result<Option<DiskRecord>> {
        let (path, disk) = (folder.join(RECORD), folder.join(DISK));
        let has_disk = exists(&disk)?;
        let bytes = match fs::read(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if !has_disk {
                    return Ok(None);
                }
                if let Some(mark) = removal(folder)? {
                    return Err(cut_off(&disk, &mark));
                }
                return match exists(&folder.join(IMPORTING))? {
                    true => Ok(None),
                    false => Err(lost(&disk, &path)),
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
    /// disk of this import, it would pass for a complete one. Firmware variables and a TPM are of the system on that disk.
    pub(super) fn begin(folder: &Path) -> Result<()> {
        for old in [folder.join(RECORD), folder.join(REMOVING), state::folder_of(&folder.join(DISK))] {
            clear(&old)?;
        }
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

    /// Removes the mark of an import durably: from now on a missing record is an error.
    pub(crate) fn end(folder: &Path) -> Result<()> {
        let path = folder.join(IMPORTING);
        match fs::remove_file(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(cannot_remove(&path)(e)),
            Ok(()) => sync_names(folder),
        }
    }

    /// Removes a disk with its record, whose lock is held, and returns the files that are not ours: they stay. If it is
    /// interrupted, the folder has the disk as it was, or one that is refused, or none.
    pub(crate) fn remove(folder: &Path) -> Result<Vec<PathBuf>> {
        DiskRecord::revoke(folder)?;
        sync_names(folder)?;
        let disk = folder.join(DISK);
        gone(fs::remove_file(&disk)).map_err(cannot_remove(&disk))?;
        sync_names(folder)?;
        clear_folder(folder)
    }

    /// Makes the record the mark of a removal: the disk is not a complete one from now on. A rename needs no room on a
    /// full file system.
    fn revoke(folder: &Path) -> Result<()> {
        let record = folder.join(RECORD);
        gone(fs::rename(&record, folder.join(REMOVING))).map_err(cannot_remove(&record))
    }
}

/// The mark of a removal that was interrupted.
fn removal(folder: &Path) -> Result<Option<PathBuf>> {
    let (mark, older) = (folder.join(REMOVING), folder.join(IMPORTING));
    if exists(&mark)? {
        return Ok(Some(mark));
    }
    // Its content is the record that the disk had.
    let is_record = exists(&older)?
        && fs::metadata(&older)
            .map_err(|e| Error::io(format!("cannot look at {}", older.display()), e))?
            .len()
            > 0;
    Ok(is_record.then_some(older))
}

/// Removes all that is ours in a folder whose lock is held, and the folder, unless files are there that are not ours, which are
/// returned. The lock goes last: a process that waited for it, or makes it anew, finds a folder that nobody empties.
fn clear_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let cannot = |e| cannot_remove(folder)(e);
    if fs::symlink_metadata(folder).map_err(cannot)?.is_symlink() {
        return fs::remove_file(folder).map(|()| vec![]).map_err(cannot);
    }
    let (own, foreign) = entries(folder)?;
    own.iter().try_for_each(|path| clear(path))?;
    clear(&folder.join(LOCK))?;
    match fs::remove_dir(folder) {
        // Files that are not ours, or another process makes a disk there by now.
        Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(foreign),
        other => gone(other).map(|()| vec![]).map_err(cannot),
    }
}

/// Entries of the folder of a disk: those that are ours, and those that are not.
pub(crate) fn entries(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    own_entries(folder, &OWN)
}

/// Removes a file, or a folder with all that it has.
fn clear(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(facts) if facts.is_dir() => fs::remove_dir_all(path),
        _ => fs::remove_file(path),
    };
    gone(removed).map_err(cannot_remove(path))
}

fn cannot_remove(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let what = format!("cannot remove {}", path.display());
    |e| Error::io(what, e)
}

/// True if a path leads to something. A link that leads nowhere is an error: its disk is kept on storage that is not
/// there now.
pub(crate) fn exists(path: &Path) -> Result<bool> {
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

fn cut_off(disk: &Path, mark: &Path) -> Error {
    let folder = disk.parent().unwrap_or(disk);
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let what = format!("{} is not used: its removal was interrupted", disk.display());
    Error::refused(what).with_hint(format!(
        "'coracle pool rm -f {name}' ends it; 'mv {} {}' keeps the disk with all its data",
        mark.display(),
        folder.join(RECORD).display()
    ))
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
    use crate::place::Home;

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

    /// The next system started with the variables and the TPM of the last one.
    #[test]
    fn an_import_begins_without_the_state_of_an_earlier_disk() {
        let own = folder(&[(REMOVING, OWN), ("disk.img.partial", "x")]);
        let state = own.path().join("disk.img.state");
        fs::create_dir(&state).unwrap();
        fs::write(state.join("efi-vars.fd"), "x").unwrap();
        DiskRecord::begin(own.path()).unwrap();
        assert!(!state.exists() && own.path().join("disk.img.partial").exists());
    }

    #[track_caller]
    fn is_cut_off(folder: &Path, mark: &str) {
        let e = DiskRecord::find(folder).unwrap_err();
        let name = folder.file_name().unwrap().to_string_lossy();
        assert_eq!(e.kind(), ErrorKind::Refused);
        let e = e.to_string();
        assert!(
            e.contains(&format!("its removal was interrupted; 'coracle pool rm -f {name}' ends it")),
            "{e}"
        );
        assert!(e.contains(&format!("'mv {0}/{mark} {0}/{RECORD}' keeps the disk", folder.display())), "{e}");
    }

    /// It passed for an unfinished import: a VM that was started with it went on, and the next `run` imported it anew.
    #[test]
    fn a_disk_whose_removal_was_interrupted_is_refused() {
        for complete in
            [&[(DISK, "data"), (RECORD, OWN)][..], &[(DISK, "data"), (RECORD, ""), (IMPORTING, "")]]
        {
            let own = folder(complete);
            DiskRecord::revoke(own.path()).unwrap();
            is_cut_off(own.path(), REMOVING);
            assert_eq!(fs::read(own.path().join(DISK)).unwrap(), b"data");
            DiskRecord::remove(own.path()).unwrap();
            assert!(!own.path().exists());
        }
        // As earlier versions left it.
        is_cut_off(folder(&[(DISK, "data"), (IMPORTING, OWN)]).path(), IMPORTING);

        let stuck = folder(&[(RECORD, OWN)]);
        fs::create_dir(stuck.path().join(DISK)).unwrap();
        DiskRecord::remove(stuck.path()).unwrap_err();
        is_cut_off(stuck.path(), REMOVING);
    }

    #[test]
    fn a_disk_is_kept_by_the_record_that_its_removal_left() {
        let own = folder(&[(DISK, "data"), (RECORD, OWN)]);
        let record = DiskRecord::find(own.path()).unwrap();
        DiskRecord::revoke(own.path()).unwrap();
        fs::rename(own.path().join(REMOVING), own.path().join(RECORD)).unwrap();
        assert!(record.is_some() && DiskRecord::find(own.path()).unwrap() == record);
    }

    #[test]
    fn a_removal_that_has_removed_the_disk_leaves_room_for_an_import() {
        for left in [&[(REMOVING, OWN)][..], &[(IMPORTING, OWN)]] {
            let own = folder(left);
            assert_eq!(DiskRecord::find(own.path()).unwrap(), None);
            DiskRecord::begin(own.path()).unwrap();
            fs::write(own.path().join(DISK), "another source").unwrap();
            assert_eq!(DiskRecord::find(own.path()).unwrap(), None, "{left:?}");
        }
    }

    /// The removal of the whole folder took the files of the next disk with it.
    #[test]
    fn a_disk_is_made_though_others_are_removed_there() {
        let place = tempfile::tempdir().unwrap();
        let home = Home::from_env(Some(place.path().join("h")), |_| None).unwrap();
        let own = home.pool().join("web");
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    if own.join("certificates").exists() {
                        let _lock = home.lock_disk("web", |_| {}).unwrap();
                        DiskRecord::remove(&own).unwrap();
                    }
                }
            });
            let made = || -> Result<()> {
                let _lock = home.lock_disk("web", |_| {})?;
                DiskRecord::begin(&own)?;
                fs::write(own.join(DISK), "data").map_err(|e| Error::io("disk", e))?;
                DiskRecord::new("blank".into(), 4, false).write(&own)?;
                fs::write(own.join("certificates"), "").map_err(|e| Error::io("made", e))?;
                match DiskRecord::find(&own)? {
                    Some(_) => Ok(()),
                    None => Err(Error::failed("it was removed under its lock")),
                }
            };
            let all: Result<()> = (0..100).try_for_each(|_| made());
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            all.unwrap();
        });
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
