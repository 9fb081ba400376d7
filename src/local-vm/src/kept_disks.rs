//! Disks of the pool, as a user manages them: which there are, which VM uses each, and the removal of one.

use crate::error::{Error, ErrorKind, Result};
use crate::path::file_at;
use crate::place::{Home, Lock, check_name};
use crate::record::Vm;
use crate::resolve::disk_record::{DISK, DiskRecord};
use api::launcher::Source;
use serde::Serialize;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
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
        if entry.path().is_dir() && check_name(&name).is_ok() {
            names.push(name);
        }
    }
    names.sort();
    let users = users(home)?;
    names.into_iter().map(|name| facts(home, name, &users)).collect()
}

/// Removes a disk, and returns the number of freed bytes. The disk of a VM is removed with `force` alone, and that of
/// a running one never.
pub fn remove(home: &Home, name: &str, force: bool) -> Result<u64> {
    check_name(name)?;
    let folder = home.pool().join(name);
    if !folder.is_dir() {
        let what = format!("the pool has no disk {name:?}; 'coracle pool ls' lists all disks");
        return Err(Error::new(ErrorKind::NotFound, what));
    }
    let _lock = Lock::take(&folder.join("lock"), &format!("the disk {name}"))?;
    let disk = facts(home, name.to_owned(), &users(home)?)?;
    for vm in &disk.vms {
        let is_up = Vm::find(home, vm)?.map(|vm| vm.standing()).transpose()?.is_some_and(|is| is.is_up());
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
    let cannot = |e| Error::io(format!("cannot find out whether {} is in use", path.display()), e);
    let why = match File::open(&path) {
        Ok(file) => file_in_use(&file).map_err(cannot)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(cannot(e)),
    };
    if let Some(why) = why {
        return Err(Error::failed(format!("the disk {name} is not removed: {why}")));
    }
    DiskRecord::remove(&folder)?;
    Ok(disk.allocated)
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
    let file = file_at(&disk)?;
    let is_own = |(used, _): &&(FileId, String)| file.as_ref() == Some(used);
    let mut vms: Vec<String> = users.iter().filter(is_own).map(|(_, vm)| vm.clone()).collect();
    vms.dedup();
    Ok(KeptDisk { size, allocated, created: record.map(|record| record.created), from, vms, name, fault })
}

/// Files that VMs write to or read, each with the name of its VM.
fn users(home: &Home) -> Result<Vec<(FileId, String)>> {
    let mut users = vec![];
    for (name, vm) in Vm::all(home)? {
        // An unreadable record does not say which disks its VM needs, so none may pass for unused.
        for source in vm?.record.sync.resolved.volumes.into_values() {
            let (Source::File { path, .. } | Source::Image { path, .. }) = source else { continue };
            users.extend(file_at(&path)?.map(|file| (file, name.clone())));
        }
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use api::launcher::{Format, Resolved, Sync};
    use std::path::Path;

    fn home(root: &Path) -> Home {
        Home::from_env(Some(root.join("h")), |_| None).unwrap()
    }

    fn disk(home: &Home, name: &str) -> std::path::PathBuf {
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

    #[test]
    fn a_disk_in_use_stays() {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path());
        let file = File::open(disk(&home, "web")).unwrap();
        file.lock_shared().unwrap();
        let e = remove(&home, "web", true).unwrap_err();
        assert!(e.to_string().contains("is not removed: it is locked"), "{e}");
        drop(file);
        // A program that another test starts has the lock of the first call until it runs.
        let mut patience = 200;
        while let Err(e) = remove(&home, "web", true) {
            assert!(patience > 0 && e.to_string().contains("another coracle works on"), "{e}");
            patience -= 1;
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}
