//! Disks of the pool, as a user manages them: which there are, which VM uses each, and the removal of one.

use crate::Notify;
use crate::absent_homes;
use crate::disk_files::{DiskFiles, KeepReason, reason_to_keep, users};
use crate::error::{Error, ErrorKind, Result};
use crate::homes::{VmOfHome, all_vms};
use crate::host_file::paths;
use crate::lock::{LOCK, Lock};
use crate::path::{entries as folder_entries, file_at};
use crate::place::{Home, check_name};
use crate::pool_disk::{DISK, PoolDisk};
use crate::record::{Record, Vm};
use crate::resolve::disk_record::{DiskRecord, entries, exists};
use crate::resolve::pool_users::{files_of, identities, other_user, user_in_other_home};
use crate::vm_folder::remove_left;
use api::launcher::Source;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use storage::{FileId, file_in_use};

/// A disk in the pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptDisk {
    /// Name of the PVC or DataVolume.
    pub name: String,
    /// Size of the disk in bytes; unset while it is imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Bytes that its files take.
    pub allocated: u64,
    /// Source that the disk was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Time of creation, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Names of the VMs whose disk it is, running or stopped.
    pub vms: Vec<String>,
    /// The same of other homes that are there, each with the folder of its VMs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vms_of_other_homes: Vec<String>,
    /// Reason why no VM can use it: its record is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// All disks of the pool, by name.
pub fn list(home: &Home) -> Result<Vec<KeptDisk>> {
    let pool = home.pool();
    let cannot = |e| Error::io(format!("cannot read {}", pool.display()), e);
    let entries = match fs::read_dir(&pool) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        other => other.map_err(cannot)?,
    };
    let mut names = vec![];
    for entry in entries {
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() && check_name(&name).is_ok() && has_disk(&entry.path())? {
            names.push(name);
        }
    }
    names.sort();
    let (own, others) = (users(Vm::all(home)?)?, users_in_other_homes(home)?);
    names.into_iter().map(|name| facts(home, name, &own, &others)).collect()
}

/// Files that VMs of other homes use. A record there that cannot be read says nothing in a list.
fn users_in_other_homes(home: &Home) -> Result<Vec<(FileId, String)>> {
    let mut found = vec![];
    for (whose, vm) in all_vms(home)? {
        if let (Some(whose), Ok(vm)) = (whose.filter(|whose| whose.vms.is_some()), vm)
            && matches!(vm.is_copy(), Ok(false))
        {
            found.extend(users(vec![(whose.to_string(), Ok(vm))]).unwrap_or_default());
        }
    }
    Ok(found)
}

/// True for a folder of a disk. One that nothing but other files were left in by a removal is none.
fn has_disk(folder: &Path) -> Result<bool> {
    let (own, foreign) = entries(folder)?;
    Ok(!own.is_empty() || foreign.is_empty())
}

/// True if the pool has a disk that `run` would make for a VM of this name, or something else under its name. The folder of an
/// interrupted import does not count: the next import continues there.
pub(crate) fn has_disk_of(home: &Home, vm: &str) -> Result<bool> {
    Ok(folders_of(home, vm)?.iter().any(|folder| !matches!(DiskRecord::find(folder), Ok(None))))
}

/// True if a disk that `run` would use for a VM of this name is one of another VM or of a manifest.
pub(crate) fn has_disk_of_other(home: &Home, vm: &str) -> Result<bool> {
    for folder in folders_of(home, vm)? {
        // The start says what is wrong with a damaged record.
        let is_other = matches!(DiskRecord::find(&folder), Ok(Some(disk)) if !disk.is_for_arguments_of(vm));
        if is_other || other_user(home, &folder, vm)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Folders of the pool with the names that `run` gives to the disks of a VM of this name.
fn folders_of(home: &Home, vm: &str) -> Result<Vec<PathBuf>> {
    if !home.pool().is_dir() {
        return Ok(vec![]);
    }
    let mut folders = folder_entries(&home.pool())?;
    folders.retain(|folder| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let is_further = name
            .strip_prefix(&format!("{vm}-disk"))
            .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        name == vm || is_further
    });
    Ok(folders)
}

/// Removes a disk, and returns the number of freed bytes. The disk of a VM is removed with `force` alone, and that of
/// a running one never. That holds for each file of its folder, which may be the disk of a VM by its path. Files that are not ours
/// stay.
pub fn remove(home: &Home, name: &str, force: bool) -> Result<u64> {
    check_name(name)?;
    let folder = home.pool().join(name);
    if !folder.is_dir() {
        let what = format!("the pool has no disk {name:?}; 'coracle pool ls' lists all disks");
        return Err(Error::new(ErrorKind::NotFound, what));
    }
    // A start locks its VM first, and the disk then.
    let vms = facts(home, name.to_owned(), &users(Vm::all(home)?)?, &[])?.vms;
    let locks = vms.iter().map(|vm| lock_user(home, vm)).collect::<Result<Vec<Lock>>>()?;
    let _lock = Lock::take(&folder.join(LOCK), &format!("the disk {name}"))?;
    let disk = facts(home, name.to_owned(), &users(Vm::all(home)?)?, &[])?;
    if let Some(vm) = disk.vms.iter().find(|&vm| !vms.contains(vm)) {
        let what = format!("the disk {name} is not removed: the VM {vm} got it meanwhile");
        return Err(Error::failed(what));
    }
    for (vm, lock) in vms.iter().zip(&locks).filter(|(vm, _)| disk.vms.contains(vm)) {
        let standing = Vm::find(home, vm)?.map(|vm| vm.standing_locked(lock)).transpose()?;
        let is_up = standing.is_some_and(|is| is.is_up());
        if is_up || !force {
            let (state, hint) = match is_up {
                true => ("running", format!("'coracle stop {vm}' ends it")),
                false => {
                    ("stopped", format!("'coracle rm {vm}' removes the VM, and -f the disk in any case"))
                }
            };
            let what = format!("{name} is a disk of the {state} VM {vm}");
            return Err(Error::failed(what).with_hint(hint));
        }
    }
    let path = folder.join(DISK);
    if !force {
        // The users of a disk whose storage is away are not known.
        exists(&path)?;
        check_other_homes(home, name, &folder)?;
    }
    check_unused(home, name, &folder, &vms, force)?;
    let kept = DiskRecord::remove(&folder)?;
    let mut freed = disk.allocated;
    for path in kept {
        tracing::warn!("{} is kept: coracle has not made it", path.display());
        freed = freed.saturating_sub(fs::symlink_metadata(&path).map_or(0, |facts| facts.blocks() * 512));
    }
    Ok(freed)
}

/// Refuses a folder with a file that is in use, the disk of a VM that is not one of `judged`, or, without force, an unfinished disk
/// that a VM has run with. (That VM is removed; the judged ones have their own refusal.)
fn check_unused(home: &Home, name: &str, folder: &Path, judged: &[String], force: bool) -> Result<()> {
    let (own, _) = entries(folder)?;
    // With force the user answers for the VMs of other homes. A damaged record of this one is an error before.
    let disks = if force { DiskFiles::read(home) } else { DiskFiles::read_all(home)? };
    let (disk, now) = (folder.join(DISK), Instant::now());
    let is_judged = |vm: &VmOfHome| if vm.vms.is_some() { force } else { judged.contains(&vm.name) };
    let refused = |why: &str| Error::failed(format!("the disk {name} is not removed: {why}"));
    for file in files_of(folder)? {
        match reason_to_keep(&file, &disks, now)? {
            Some(KeepReason::InUse(why)) => return Err(refused(&why)),
            Some(KeepReason::Disk { vm, why }) if !is_judged(&vm) => return Err(refused(&why)),
            Some(KeepReason::DiskOfGone(why))
                if !force && file != disk && own.iter().any(|own| file.starts_with(own)) =>
            {
                let hint = "move that file out of this folder to keep it, or remove it; -f removes it, too";
                return Err(refused(&why).with_hint(hint));
            }
            _ => {}
        }
    }
    let cannot = |e| Error::io(format!("cannot find out whether {} is in use", disk.display()), e);
    // The disk itself may be a link.
    let why = match File::open(&disk) {
        Ok(file) => file_in_use(&file).map_err(cannot)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(cannot(e)),
    };
    why.map_or(Ok(()), |why| Err(refused(&why)))
}

/// Refuses the disk of a VM of another home.
fn check_other_homes(home: &Home, name: &str, folder: &Path) -> Result<()> {
    match user_in_other_home(home, folder)? {
        Some(vm) => Err(Error::failed(format!("{name} is a disk of the VM {vm}")).with_hint(
            "give the verb the same XDG_STATE_HOME or --root as that VM has; -f removes the disk in any case",
        )),
        None => Ok(()),
    }
}

/// Removes a home that is gone for good from the lists of those whose VMs have disks of this one. `folder`: that of its VMs, or its
/// root.
pub fn forget_home(home: &Home, folder: &Path) -> Result<()> {
    absent_homes::forget(home, folder)
}

/// Locks a VM that had a disk a moment ago.
fn lock_user(home: &Home, vm: &str) -> Result<Lock> {
    let lock = home.lock_vm(vm)?;
    if Vm::find(home, vm)?.is_none() {
        // It was removed meanwhile, and the lock has made its folder again.
        remove_left(home, vm, &lock)?;
    }
    Ok(lock)
}

/// Locks the disks of the pool that a VM starts again with. Each must be complete.
pub(crate) fn hold(vm: &Vm, notify: Notify) -> Result<Vec<Lock>> {
    let mut held = vec![];
    for name in of_vm(&vm.home, &vm.record)? {
        match Lock::wait_for_disk(&vm.home.pool().join(&name).join(LOCK), &name, notify) {
            Ok(lock) => held.push(lock),
            // The disk was removed.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        check_complete(vm, &name)?;
        DiskRecord::end(&vm.home.pool().join(&name))?;
    }
    Ok(held)
}

/// Checks that the disks of the pool that a VM has are complete and those of its last start, so that it can start again with them.
pub(crate) fn check(vm: &Vm) -> Result<()> {
    of_vm(&vm.home, &vm.record)?.iter().try_for_each(|name| check_complete(vm, name))
}

/// The disks of the pool that the VM of a record has, by their names, as they are now.
pub(crate) fn pool_disks(home: &Home, record: &Record) -> Result<BTreeMap<String, PoolDisk>> {
    let mut disks = BTreeMap::new();
    for name in of_vm(home, record)? {
        if let Some(found) = DiskRecord::find(&home.pool().join(&name))? {
            disks.insert(name, found.identity());
        }
    }
    Ok(disks)
}

fn check_complete(vm: &Vm, name: &str) -> Result<()> {
    let folder = vm.home.pool().join(name);
    if let Some(now) = DiskRecord::find(&folder)? {
        let known = vm.record.pool_disks.get(name);
        return match known.and_then(|known| known.difference(&now.identity())) {
            None => Ok(()),
            Some(difference) => {
                let vm = vm.name();
                let what = format!("{vm} is not started: its disk {name} {difference} at the last start");
                Err(Error::refused(what).with_hint(format!(
                    "'coracle run' with what the VM was made from says whether it can have that disk; 'coracle rm {vm}' removes \
                     the VM"
                )))
            }
        };
    }
    let vm = vm.name();
    Err(match folder.join(DISK).exists() {
        true => Error::refused(format!("{vm} is not started: the import of its disk {name} has not ended"))
            .with_hint(format!(
                "'coracle run' with what the VM was made from ends it; 'coracle pool rm -f {name}' removes the disk"
            )),
        false => Error::new(
            ErrorKind::NotFound,
            format!("{vm} is not started: its disk {name} is no longer in the pool"),
        )
        .with_hint(format!(
            "'coracle run' with what the VM was made from makes the disk anew; 'coracle rm {vm}' removes the VM"
        )),
    })
}

/// Names of the disks of the pool that a VM has by a PVC, sorted. A hostDisk with the path of one is a file of the user.
fn of_vm(home: &Home, record: &Record) -> Result<BTreeSet<String>> {
    let sync = &record.sync;
    let host_disks: BTreeSet<&str> = paths(&sync.vmi).map(|(volume, _)| volume).collect();
    let pool = home.pool();
    let is_pool = |folder: &Path| -> Result<bool> {
        Ok(folder == pool
            || file_at(folder)?.is_some_and(|id| matches!(file_at(&pool), Ok(Some(own)) if own == id)))
    };
    let mut names = BTreeSet::new();
    for (volume, source) in &sync.resolved.volumes {
        let (Source::File { path, .. } | Source::Image { path, .. }) = source else { continue };
        if host_disks.contains(volume.as_str()) || path.file_name() != Some(DISK.as_ref()) {
            continue;
        }
        let folder = path.parent();
        let name = folder.and_then(|folder| folder.file_name()?.to_str());
        if let (Some(name), Some(above)) = (name, folder.and_then(Path::parent))
            && check_name(name).is_ok()
            && is_pool(above)?
        {
            names.insert(name.to_owned());
        }
    }
    Ok(names)
}

/// Facts about the disk of this name. `own` and `others`: files that VMs of this home and of others use.
fn facts(
    home: &Home,
    name: String,
    own: &[(FileId, String)],
    others: &[(FileId, String)],
) -> Result<KeptDisk> {
    let folder = home.pool().join(&name);
    let cannot = |e| Error::io(format!("cannot read {}", folder.display()), e);
    let mut allocated = 0;
    for entry in fs::read_dir(&folder).map_err(cannot)? {
        let facts = entry.and_then(|entry| fs::symlink_metadata(entry.path())).map_err(cannot)?;
        allocated += facts.blocks() * 512;
    }
    let disk = folder.join(DISK);
    let (record, fault) = match DiskRecord::find(&folder) {
        Ok(record) => (record, None),
        // It is listed, so that its user can mend or remove it.
        Err(e) => (None, Some(e.to_string())),
    };
    let size = match record {
        Some(_) => Some(fs::metadata(&disk).map_err(cannot)?.len()),
        None => None,
    };
    let from = record.as_ref().map(|record| cdi::source::shown(&record.from));
    let files = identities(&folder)?;
    let vms_with = |users: &[(FileId, String)]| {
        let is_user = |(used, _): &&(FileId, String)| files.contains(used);
        let mut vms: Vec<String> = users.iter().filter(is_user).map(|(_, vm)| vm.clone()).collect();
        vms.dedup();
        vms
    };
    Ok(KeptDisk {
        size,
        allocated,
        created: record.map(|record| record.created),
        from,
        vms: vms_with(own),
        vms_of_other_homes: vms_with(others),
        name,
        fault,
    })
}

#[cfg(test)]
#[path = "kept_disks_tests.rs"]
mod tests;
