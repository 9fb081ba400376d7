//! Homes that are noted in a list of disks (`raw-disks.json`), with the files of their VMs.
//!
//! A home below one folder (`--root`) moves with its own list, and has no files there. A list is of limited length: a home without
//! noted files that is not there is dropped first, and one with files never.

use crate::error::{Error, Result};
use crate::home_mark;
use crate::host_file::HostFile;
use crate::path::file_at;
use crate::place::{Home, RAW_DISKS, real, root_of};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use storage::LastingFileId;

/// Number of homes, and of files of one home, from which on those that say nothing are dropped.
pub(crate) const MANY: usize = 1000;
/// Largest number of homes in a list.
const MOST: usize = 10 * MANY;

/// A home that is noted in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HomeEntry {
    /// Folder of its VMs.
    pub(crate) vms: PathBuf,
    /// Identity of that folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<LastingFileId>,
    /// Mark of that folder. Earlier versions made none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<String>,
    /// Files that its VMs had at their starts.
    files: Vec<FileEntry>,
}

/// A home with the files of one of its VMs, to be noted.
#[derive(Debug, Clone)]
pub(crate) struct NewEntry {
    home: HomeEntry,
    /// Folder of VMs that the VM was moved out of since its last start, and all its files.
    moved: Option<(PathBuf, Vec<FileEntry>)>,
}

/// A file of a VM as it was at a start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileEntry {
    path: PathBuf,
    file: HostFile,
}

impl FileEntry {
    /// True unless its path is free or leads to another file.
    fn is_there(&self) -> bool {
        HostFile::find(&self.path).map_or(true, |now| now.is_some_and(|now| now.is_same(&self.file)))
    }
}

impl NewEntry {
    /// A home with these files of one of its VMs, for the list of the home `list`. `moved_from`: folder of VMs that the VM was in at its
    /// last start. Files below the one folder of a home go with that folder, and are not noted.
    pub(crate) fn new(
        list: &Home,
        vms: &Path,
        files: Vec<PathBuf>,
        moved_from: Option<&Path>,
    ) -> Result<NewEntry> {
        let root = root_of(vms);
        let is_in_one_folder = root.is_some_and(|root| root.join("data").join(RAW_DISKS) == list.raw_disks());
        let root = root.map(real).transpose()?;
        let goes_along = |path: &Path| {
            is_in_one_folder
                || root.as_ref().is_some_and(|root| real(path).is_ok_and(|path| path.starts_with(root)))
        };
        let moved = match moved_from {
            Some(from) => Some((from.to_owned(), entries(files.clone())?)),
            None => None,
        };
        let noted = entries(files.into_iter().filter(|path| !goes_along(path)))?;
        let home = HomeEntry {
            vms: vms.to_owned(),
            id: folder_id(vms),
            mark: home_mark::find_or_make(vms),
            files: noted,
        };
        Ok(NewEntry { home, moved })
    }
}

impl HomeEntry {
    /// True if this is a folder of VMs, whatever its path is now.
    pub(crate) fn is_folder(&self, vms: &Path) -> bool {
        let (id, mark) = (folder_id(vms), home_mark::find(vms));
        is_same_folder(&self.id, &id) && !is_other_folder((&self.id, &self.mark), (&id, &mark))
    }

    /// True if another folder is at its path now: a mount point without its storage, or one that was made anew.
    pub(crate) fn is_replaced(&self) -> bool {
        is_other_folder((&self.id, &self.mark), (&folder_id(&self.vms), &home_mark::find(&self.vms)))
    }

    /// True if one of these files may be one of its VMs.
    pub(crate) fn may_have(&self, path: &Path, file: Option<&HostFile>) -> bool {
        self.files.iter().any(|noted| noted.path == path || file.is_some_and(|file| noted.file.is_same(file)))
    }
}

/// The files at these paths.
fn entries(paths: impl IntoIterator<Item = PathBuf>) -> Result<Vec<FileEntry>> {
    let mut found = vec![];
    for path in paths {
        found.extend(HostFile::find(&path)?.map(|file| FileEntry { path, file }));
    }
    Ok(found)
}

/// Identity of a folder; `None` if it cannot be looked at.
fn folder_id(folder: &Path) -> Option<LastingFileId> {
    LastingFileId::of(File::open(folder).ok()?).ok()
}

fn is_same_folder(one: &Option<LastingFileId>, other: &Option<LastingFileId>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one.is_surely(other))
}

/// Identity and mark of a folder.
type FolderId<'a> = (&'a Option<LastingFileId>, &'a Option<String>);

/// True for two folders beyond doubt, by their marks, or by their identities where one has no mark.
fn is_other_folder(one: FolderId<'_>, other: FolderId<'_>) -> bool {
    match (one, other) {
        ((_, Some(one)), (_, Some(other))) => one != other,
        // Without a time of birth an identity may have changed.
        ((Some(one), _), (Some(other), _)) => one.is_surely(one) && other.is_surely(other) && one != other,
        _ => false,
    }
}

/// True if the home of an entry was moved to `new`. The snapshot of a home has the same identity, beside the original.
fn is_moved(old: &HomeEntry, new: &HomeEntry) -> bool {
    let is_original_there = || !matches!((file_at(&old.vms), file_at(&new.vms)), (Ok(old), Ok(new)) if old.is_none() || old == new);
    old.vms != new.vms && is_same_folder(&old.id, &new.id) && !is_original_there()
}

/// Adds a home with its files to a list. True if the list has changed. `homes`: those of all versions, by their folders.
pub(crate) fn add(homes: &mut Vec<PathBuf>, noted: &mut Vec<HomeEntry>, new: NewEntry) -> Result<bool> {
    let before = (homes.clone(), noted.clone());
    let NewEntry { home: new, moved } = new;
    // A VM that has left its home is known by its own record from now on.
    if let Some((from, files)) = moved {
        for old in noted.iter_mut().filter(|old| old.vms == from) {
            old.files.retain(|old| {
                !files.iter().any(|file| file.path == old.path || file.file.is_same(&old.file))
            });
        }
    }
    // A home that was moved is noted by its new path.
    if let Some(moved) = noted.iter_mut().find(|old| is_moved(old, &new)) {
        homes.retain(|vms| *vms != moved.vms);
        moved.vms.clone_from(&new.vms);
    }
    if !homes.contains(&new.vms) {
        homes.push(new.vms.clone());
    }
    // Another folder at the path of a home says nothing about the files of the one before.
    match noted
        .iter_mut()
        .find(|old| old.vms == new.vms && !is_other_folder((&old.id, &old.mark), (&new.id, &new.mark)))
    {
        None => noted.push(new.clone()),
        Some(old) => {
            (old.id, old.mark) = (new.id.clone(), new.mark.clone());
            for file in new.files {
                if !old.files.contains(&file) {
                    old.files.retain(|known| known.path != file.path || !known.file.is_same(&file.file));
                    old.files.push(file);
                }
            }
            if old.files.len() > MANY {
                old.files.retain(FileEntry::is_there);
            }
        }
    }
    // Homes that were made anew again and again at one path.
    if noted.len() > MANY {
        noted.retain(|home| !home.is_replaced() || home.files.iter().any(FileEntry::is_there));
    }
    if homes.len() > MANY {
        let has_files =
            |vms: &Path| noted.iter().filter(|home| home.vms == vms).any(|home| !home.files.is_empty());
        homes.retain(|vms| *vms == new.vms || has_files(vms) || vms.exists());
    }
    if homes.len() > MOST {
        let what = format!("the list of homes that share disks has {} entries", homes.len());
        return Err(
            Error::refused(what).with_hint("'coracle pool forget FOLDER' removes one that is gone for good")
        );
    }
    noted.retain(|home| homes.contains(&home.vms));
    Ok((&*homes, &*noted) != (&before.0, &before.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A snapshot took the entry of the home it was made of, and the home's VMs were no longer known.
    #[test]
    fn a_snapshot_of_a_home_leaves_the_entry_of_the_original() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path();
        let [one, two] = ["one", "two"].map(|name| top.join(name));
        std::fs::create_dir(&one).unwrap();
        std::fs::create_dir(&two).unwrap();
        let disk = top.join("disk.img");
        std::fs::write(&disk, "x").unwrap();
        let list = Home::from_env(Some(top.join("b")), |_| None).unwrap();
        let entry = |vms: &Path, files: Vec<PathBuf>| NewEntry::new(&list, vms, files, None).unwrap();
        let original = entry(&one, vec![disk]).home;
        let snapshot = HomeEntry { vms: two.clone(), files: vec![], ..original.clone() };
        let new = |home: &HomeEntry| NewEntry { home: home.clone(), moved: None };
        let (mut homes, mut noted) = (vec![], vec![]);
        add(&mut homes, &mut noted, new(&original)).unwrap();
        add(&mut homes, &mut noted, new(&snapshot)).unwrap();
        assert_eq!(homes, [one.clone(), two.clone()]);
        assert_eq!(noted, [original.clone(), snapshot]);

        // One that was moved, or is reached by another path, takes its entry along.
        let (mut homes, mut noted) = (vec![], vec![]);
        add(&mut homes, &mut noted, new(&original)).unwrap();
        std::fs::remove_dir(&two).unwrap();
        std::fs::rename(&one, &two).unwrap();
        add(&mut homes, &mut noted, entry(&two, vec![])).unwrap();
        assert_eq!(
            (homes, &noted[0].vms, noted[0].files.len(), noted.len()),
            (vec![two.clone()], &two, 1, 1)
        );
    }
}
