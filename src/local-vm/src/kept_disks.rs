//! Disks of the pool, as a user manages them: which there are, which VM uses each, and the removal of one.

use crate::Notify;
use crate::disk_files::{DiskFiles, KeepReason, files_below, reason_to_keep, users};
use crate::error::{Error, ErrorKind, Result};
use crate::host_file::paths;
use crate::lock::{LOCK, Lock};
use crate::path::{entries as folder_entries, file_at};
use crate::place::{Home, check_name};
use crate::record::Vm;
use crate::resolve::disk_record::{DISK, DiskRecord, entries, exists};
use crate::vm_folder::remove_left;
use api::launcher::Source;
use serde::Serialize;
use std::collections::BTreeSet;
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
    let users = users(home)?;
    names.into_iter().map(|name| facts(home, name, &users)).collect()
}

/// True for a folder of a disk. One that nothing but other files were left in by a removal is none.
fn has_disk(folder: &Path) -> Result<bool> {
    let (own, foreign) = entries(folder)?;
    Ok(!own.is_empty() || foreign.is_empty())
}

/// True if the pool has a disk that `run` would make for a VM of this name, or something else under its name. An import that was
/// interrupted is none: it goes on.
pub(crate) fn has_disk_of(home: &Home, vm: &str) -> Result<bool> {
    if !home.pool().is_dir() {
        return Ok(false);
    }
    for folder in folder_entries(&home.pool())? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_further = name
            .strip_prefix(&format!("{vm}-disk"))
            .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        if (name == vm || is_further) && !matches!(DiskRecord::find(&folder), Ok(None)) {
            return Ok(true);
        }
    }
    Ok(false)
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
    let vms = facts(home, name.to_owned(), &users(home)?)?.vms;
    let locks = vms.iter().map(|vm| lock_user(home, vm)).collect::<Result<Vec<Lock>>>()?;
    let _lock = Lock::take(&folder.join(LOCK), &format!("the disk {name}"))?;
    let disk = facts(home, name.to_owned(), &users(home)?)?;
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
        check_other_home(home, name, &folder)?;
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
    let (disks, disk, now) = (DiskFiles::read(home), folder.join(DISK), Instant::now());
    let refused = |why: &str| Error::failed(format!("the disk {name} is not removed: {why}"));
    for file in files_of(folder)? {
        match reason_to_keep(&file, &disks, now)? {
            Some(KeepReason::InUse(why)) => return Err(refused(&why)),
            Some(KeepReason::Disk { vm, why }) if !judged.contains(&vm) => return Err(refused(&why)),
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

/// Regular files of the folder of a disk, at any depth, but its lock.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let lock = folder.join(LOCK);
    Ok(files_below(folder)?.into_iter().filter(|file| *file != lock).collect())
}

/// Identities of the files of a disk's folder, and of the disk, which may be a link.
fn identities(folder: &Path) -> Result<Vec<FileId>> {
    let files = files_of(folder)?.into_iter().chain([folder.join(DISK)]);
    files.filter_map(|path| file_at(&path).transpose()).collect()
}

/// Refuses the disk of a VM of another home, which has this pool, too, and made the disk.
fn check_other_home(home: &Home, name: &str, folder: &Path) -> Result<()> {
    // A record that cannot be read has its error in the list.
    let Ok(Some(DiskRecord { vms: Some(vms), .. })) = DiskRecord::find(folder) else { return Ok(()) };
    let other = home.with_vms(&vms);
    if file_at(&vms)?.is_none() || file_at(&vms)? == file_at(&home.vms())? {
        return Ok(());
    }
    let files = identities(folder)?;
    match users(&other)?.into_iter().find(|(used, _)| files.contains(used)) {
        None => Ok(()),
        Some((_, vm)) => {
            let what = format!("{name} is a disk of the VM {vm} in {}", vms.display());
            Err(Error::failed(what).with_hint(
                "give the verb the same XDG_STATE_HOME as that VM has; -f removes the disk in any case",
            ))
        }
    }
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
    for name in of_vm(vm)? {
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

/// Checks that the disks of the pool that a VM has are complete, so that it can start again with them.
pub(crate) fn check(vm: &Vm) -> Result<()> {
    of_vm(vm)?.iter().try_for_each(|name| check_complete(vm, name))
}

fn check_complete(vm: &Vm, name: &str) -> Result<()> {
    let folder = vm.home.pool().join(name);
    if DiskRecord::find(&folder)?.is_some() {
        return Ok(());
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
fn of_vm(vm: &Vm) -> Result<BTreeSet<String>> {
    let sync = &vm.record.sync;
    let host_disks: BTreeSet<&str> = paths(&sync.vmi).map(|(volume, _)| volume).collect();
    let pool = vm.home.pool();
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

fn facts(home: &Home, name: String, users: &[(FileId, String)]) -> Result<KeptDisk> {
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
    let is_own = |(used, _): &&(FileId, String)| files.contains(used);
    let mut vms: Vec<String> = users.iter().filter(is_own).map(|(_, vm)| vm.clone()).collect();
    vms.dedup();
    Ok(KeptDisk { size, allocated, created: record.map(|record| record.created), from, vms, name, fault })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::resolve::image::Images;
    use crate::resolve::pool::HeldDisks;
    use crate::start::{again, check_again};
    use api::launcher::{Format, Resolved, Sync};

    fn home(root: &Path) -> Home {
        Home::from_env(Some(root.join("h")), |_| None).unwrap()
    }

    fn disk(home: &Home, name: &str) -> PathBuf {
        let folder = home.pool().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("disk.img"), vec![1; 8192]).unwrap();
        let record =
            r#"{"schema":"coracle.disk/v1","from":"https://u:p@h/d.img?x=y","size":8192,"created":"now"}"#;
        fs::write(folder.join("disk.json"), record).unwrap();
        folder.join("disk.img")
    }

    #[test]
    fn a_disk_says_its_source_and_its_vms() {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path());
        assert_eq!(list(&home).unwrap(), []);
        let path = disk(&home, "web");
        disk(&home, "free");
        fs::create_dir_all(home.pool().join("half")).unwrap();
        let volume = Source::File { path, format: Format::Raw, preallocated: false };
        let resolved = Resolved { volumes: [("root".to_owned(), volume)].into(), ..Resolved::default() };
        let sync = Sync { vmi: serde_json::Value::Null, generation: 1, resolved };
        fs::create_dir_all(home.vm("vm")).unwrap();
        Record::new("vm", "x", false, sync, Path::new("/launcher")).save(&home).unwrap();
        let listed = list(&home).unwrap();
        let names: Vec<&str> = listed.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["free", "half", "web"]);
        assert_eq!((listed[1].size, listed[2].size), (None, Some(8192)));
        assert_eq!(listed[2].from.as_deref(), Some("https://h/d.img?…"));
        assert_eq!((listed[0].vms.len(), listed[2].vms.as_slice()), (0, &["vm".to_owned()][..]));

        let e = remove(&home, "web", false).unwrap_err();
        assert!(e.to_string().contains("a disk of the stopped VM vm; 'coracle rm vm'"), "{e}");
        assert!(home.pool().join("web/disk.img").exists());
        assert!(remove(&home, "web", true).unwrap() >= 8192);
        assert!(remove(&home, "free", false).unwrap() >= 8192);
        assert_eq!(remove(&home, "free", false).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(remove(&home, "../vms", false).is_err());
        assert_eq!(list(&home).unwrap().len(), 1);
    }

    /// Two users' settings of XDG_STATE_HOME have one pool.
    #[test]
    fn the_disk_of_another_homes_stopped_vm_is_removed_with_force_alone() {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path());
        let other = home.with_vms(&place.path().join("other/vms"));
        let path = disk(&home, "web");
        let record = fs::read_to_string(home.pool().join("web/disk.json")).unwrap();
        let made_by = format!(r#","vms":{}}}"#, serde_json::to_string(&other.vms()).unwrap());
        fs::write(home.pool().join("web/disk.json"), record.replace('}', &made_by)).unwrap();
        let volume = Source::File { path, format: Format::Raw, preallocated: false };
        let resolved = Resolved { volumes: [("root".to_owned(), volume)].into(), ..Resolved::default() };
        let sync = Sync { vmi: serde_json::Value::Null, generation: 1, resolved };
        fs::create_dir_all(other.vm("vm")).unwrap();
        Record::new("vm", "x", false, sync, Path::new("/launcher")).save(&other).unwrap();
        let e = remove(&home, "web", false).unwrap_err();
        assert!(e.to_string().starts_with("web is a disk of the VM vm in "), "{e}");
        assert!(home.pool().join("web/disk.img").exists());
        // The VM is removed, or the user means it.
        fs::remove_dir_all(other.vm("vm")).unwrap();
        remove(&home, "web", false).unwrap();
    }

    /// The result once no lock is in the way: a program that another test starts has those of an earlier call until it
    /// runs.
    fn settled<T>(act: impl Fn() -> Result<T>) -> Result<T> {
        let mut patience = 200;
        loop {
            match act() {
                Err(e) if patience > 0 && e.to_string().contains("another coracle works on") => {
                    patience -= 1;
                    std::thread::sleep(std::time::Duration::from_millis(50));
                }
                other => return other,
            }
        }
    }

    /// A VM that has stopped, with the disk at this path.
    fn stopped(home: &Home, path: PathBuf, vmi: serde_json::Value) -> Vm {
        let volume = Source::File { path, format: Format::Raw, preallocated: false };
        let resolved = Resolved { volumes: [("root".to_owned(), volume)].into(), ..Resolved::default() };
        fs::create_dir_all(home.vm("vm")).unwrap();
        let sync = Sync { vmi, generation: 1, resolved };
        Record::new("vm", "x", false, sync, Path::new("/launcher")).save(home).unwrap();
        Vm::open(home, "vm").unwrap()
    }

    /// The VM ran with it, and the next `run` imported it anew, over the data of the guest.
    #[test]
    fn a_vm_is_not_started_with_a_disk_whose_removal_was_interrupted() {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path());
        let path = disk(&home, "web");
        let folder = home.pool().join("web");
        let vm = stopped(&home, path.clone(), serde_json::Value::Null);
        check_again(&vm).unwrap();
        for mark in ["removing", "importing"] {
            fs::rename(folder.join("disk.json"), folder.join(mark)).unwrap();
            for refused in [settled(|| again(&vm, |_| {})).map(drop), check_again(&vm)] {
                let e = refused.unwrap_err().to_string();
                assert!(e.contains("interrupted; 'coracle pool rm -f web' ends it; 'mv "), "{e}");
            }
            assert!(list(&home).unwrap()[0].fault.is_some());
            fs::rename(folder.join(mark), folder.join("disk.json")).unwrap();
        }
        check_again(&vm).unwrap();

        fs::rename(folder.join("disk.json"), folder.join("removing")).unwrap();
        assert!(settled(|| remove(&home, "web", true)).unwrap() >= 8192);
        for refused in [settled(|| again(&vm, |_| {})).map(drop), check_again(&vm)] {
            let e = refused.unwrap_err();
            assert_eq!(e.kind(), ErrorKind::NotFound);
            assert!(e.to_string().contains("its disk web is no longer in the pool; 'coracle run'"), "{e}");
        }
        assert!(!folder.exists(), "a start makes no folder of a disk");
    }

    #[test]
    fn a_vm_is_not_started_with_an_unfinished_import() {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path());
        let path = disk(&home, "web");
        fs::remove_file(path.with_file_name("disk.json")).unwrap();
        fs::write(path.with_file_name("importing"), "").unwrap();
        let vm = stopped(&home, path.clone(), serde_json::Value::Null);
        let e = again(&vm, |_| {}).unwrap_err().to_string();
        assert!(e.contains("the import of its disk web has not ended; 'coracle run'"), "{e}");
        // The disk as a file of the user, which the error of a lost record names as the way out.
        let vmi = serde_json::json!({"spec": {"volumes": [{"name": "root", "hostDisk": {"path": path}}]}});
        assert!(of_vm(&stopped(&home, path, vmi)).unwrap().is_empty());
    }

    #[test]
    fn the_disks_of_a_vm_are_those_of_the_pool_by_any_path() {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path());
        let path = disk(&home, "web");
        std::os::unix::fs::symlink(home.pool(), place.path().join("link")).unwrap();
        fs::create_dir_all(place.path().join("other/web")).unwrap();
        let of = |path| of_vm(&stopped(&home, path, serde_json::Value::Null)).unwrap();
        assert_eq!(of(path), BTreeSet::from(["web".to_owned()]));
        assert_eq!(of(place.path().join("link/web/disk.img")), BTreeSet::from(["web".to_owned()]));
        assert!(of(place.path().join("other/web/disk.img")).is_empty());
        assert!(of(place.path().join("missing/web/disk.img")).is_empty());
    }

    /// Its launcher opened a disk that was gone a moment later.
    #[test]
    fn the_disk_of_a_vm_that_another_process_starts_stays() {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path());
        let path = disk(&home, "web");
        let vm = stopped(&home, path.clone(), serde_json::Value::Null);
        let starts = home.lock_vm("vm").unwrap();
        let e = remove(&home, "web", true).unwrap_err().to_string();
        assert!(e.contains("another coracle works on the VM vm"), "{e}");
        drop(starts);
        assert!(path.exists() && home.pool().join("web/disk.json").exists());
        let held = hold(&vm, |_| {}).unwrap();
        assert_eq!(held.len(), 1);
        let e = Lock::take(&home.pool().join("web").join(LOCK), "the disk web").unwrap_err().to_string();
        assert!(e.contains("another coracle works on the disk web"), "{e}");
    }

    /// Its record names it in a moment.
    #[test]
    fn the_disk_of_a_run_that_has_no_record_yet_stays() {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path());
        let path = disk(&home, "web");
        let images = Images::new(None, home.clone(), true, |_| {});
        let held = HeldDisks::lock(&images, ["web", "data", "web"]).unwrap();
        let e = remove(&home, "web", true).unwrap_err().to_string();
        assert!(e.contains("another coracle works on the disk web"), "{e}");
        assert!(path.exists());
        drop(held);
    }

    #[test]
    fn a_disk_with_a_damaged_record_is_listed_and_can_be_removed() {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path());
        disk(&home, "web");
        fs::write(home.pool().join("web/disk.json"), "").unwrap();
        let listed = list(&home).unwrap();
        let fault = listed[0].fault.as_deref().unwrap();
        assert!(
            listed[0].size.is_none() && fault.contains("web/disk.json is not what coracle wrote"),
            "{fault}"
        );
        assert!(remove(&home, "web", true).unwrap() >= 8192);
        assert_eq!(list(&home).unwrap(), []);
    }

    /// A VM whose disk could not be looked at passed for one without it.
    #[test]
    fn a_disk_that_cannot_be_looked_at_has_no_unknown_users() {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path());
        let path = disk(&home, "web");
        let looped = place.path().join("loop");
        std::os::unix::fs::symlink("loop", &looped).unwrap();
        let volume = Source::File { path: looped, format: Format::Raw, preallocated: false };
        let resolved = Resolved { volumes: [("root".to_owned(), volume)].into(), ..Resolved::default() };
        let sync = Sync { vmi: serde_json::Value::Null, generation: 1, resolved };
        fs::create_dir_all(home.vm("vm")).unwrap();
        Record::new("vm", "x", false, sync, Path::new("/launcher")).save(&home).unwrap();
        let e = remove(&home, "web", false).unwrap_err().to_string();
        assert!(e.contains("cannot read") && e.contains("/loop"), "{e}");
        assert!(path.exists());
    }

    /// A stopped VM has the disk, which is on storage that is away.
    #[test]
    fn a_disk_that_leads_nowhere_is_removed_by_force_alone() {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path());
        let path = disk(&home, "web");
        let away = place.path().join("volume.img");
        fs::rename(&path, &away).unwrap();
        std::os::unix::fs::symlink(&away, &path).unwrap();
        stopped(&home, path.clone(), serde_json::Value::Null);
        fs::rename(&away, place.path().join("unmounted")).unwrap();
        let e = settled(|| remove(&home, "web", false)).unwrap_err().to_string();
        assert!(e.contains("disk.img is a link that leads nowhere"), "{e}");
        assert!(path.is_symlink() && home.pool().join("web/disk.json").exists());
        settled(|| remove(&home, "web", true)).unwrap();
        assert!(!home.pool().join("web").exists());
    }

    /// It was left where the launcher was killed between the record and the end of the import.
    #[test]
    fn a_start_removes_the_mark_of_an_import_that_ended() {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path());
        let path = disk(&home, "web");
        fs::write(path.with_file_name("importing"), "").unwrap();
        let vm = stopped(&home, path.clone(), serde_json::Value::Null);
        drop(hold(&vm, |_| {}).unwrap());
        assert!(!path.with_file_name("importing").exists());
    }

    #[test]
    fn a_disk_in_use_stays() {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path());
        let file = File::open(disk(&home, "web")).unwrap();
        file.lock_shared().unwrap();
        let e = remove(&home, "web", true).unwrap_err();
        let e = e.to_string();
        assert!(e.contains("web is not removed: ") && e.contains("disk.img is in use: it is locked"), "{e}");
        drop(file);
        settled(|| remove(&home, "web", true)).unwrap();
    }
}
