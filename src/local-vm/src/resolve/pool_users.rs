//! Files of a disk in the pool, and the VMs that have one of them.

use super::disk_record::DiskRecord;
use crate::absent_homes::AbsentHomes;
use crate::disk_files::{files_below, users};
use crate::error::Result;
use crate::homes::{VmOfHome, all_vms};
use crate::lock::LOCK;
use crate::path::file_at;
use crate::place::{Home, is_own_folder};
use crate::pool_disk::DISK;
use crate::record::Vm;
use std::path::{Path, PathBuf};
use storage::FileId;

/// VM that has a file in this folder of the pool, in any home, but the VM `own` of this home. A file is known by its identity,
/// whatever path a record has. A record that cannot be read is an error: its VM may have the disk.
pub(crate) fn other_user(home: &Home, folder: &Path, own: &str) -> Result<Option<VmOfHome>> {
    find_user(home, folder, |vm| vm.vms.is_some() || vm.name != own)
}

/// VM of another home that has a file in this folder of the pool.
pub(crate) fn user_in_other_home(home: &Home, folder: &Path) -> Result<Option<VmOfHome>> {
    find_user(home, folder, |vm| vm.vms.is_some())
}

/// VM that has a file in this folder of the pool, among those that `counts` selects. The homes are this one, those that have noted
/// their disks here, that of the environment with those noted there, and the one that made the disk. A noted home that is not there may
/// have the disk, which is an error.
fn find_user(home: &Home, folder: &Path, counts: impl Fn(&VmOfHome) -> bool) -> Result<Option<VmOfHome>> {
    let found = find_known_user(home, folder, counts)?;
    if found.is_none() && folder.exists() {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let files: Vec<PathBuf> = files_of(folder)?.into_iter().chain([folder.join(DISK)]).collect();
        AbsentHomes::read(home)?.check(&name, &files)?;
    }
    Ok(found)
}

/// VM among those whose records are there.
fn find_known_user(
    home: &Home,
    folder: &Path,
    counts: impl Fn(&VmOfHome) -> bool,
) -> Result<Option<VmOfHome>> {
    let mut vms = all_vms(home)?;
    // A record that cannot be read has its error in the list.
    if let Ok(Some(DiskRecord { vms: Some(maker), .. })) = DiskRecord::find(folder)
        && is_own_folder(&maker)
        && file_at(&maker)? != file_at(&home.vms())?
    {
        let of = |name| Some(VmOfHome { name, vms: Some(maker.clone()) });
        vms.extend(Vm::all(&home.with_vms(&maker))?.into_iter().map(|(name, vm)| (of(name), vm)));
    }
    // A copied record cannot start with the disk.
    let is_copy = |vm: &Result<Vm>| vm.as_ref().is_ok_and(|vm| matches!(vm.is_copy(), Ok(true)));
    vms.retain(|(whose, vm)| whose.as_ref().is_none_or(&counts) && !is_copy(vm));
    let files = identities(folder)?;
    Ok(users(vms)?.into_iter().find(|(used, _)| files.contains(used)).and_then(|(_, vm)| vm))
}

/// Regular files of the folder of a disk, at any depth, but its lock.
pub(crate) fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let lock = folder.join(LOCK);
    Ok(files_below(folder)?.into_iter().filter(|file| *file != lock).collect())
}

/// Identities of the files of a disk's folder, and of the disk, which may be a link.
pub(crate) fn identities(folder: &Path) -> Result<Vec<FileId>> {
    let files = files_of(folder)?.into_iter().chain([folder.join(DISK)]);
    files.filter_map(|path| file_at(&path).transpose()).collect()
}
