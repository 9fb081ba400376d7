//! Removal of the folder of a VM: of a VM that its user removes, and of a start that was killed.
//!
//! ```text
//!  vms/NAME/vm.json lock launcher.log root/ secrets/ known_hosts      files of ours; every other file stays
//!      │ rename: a process that creates a VM of that name finds the whole folder or none
//!      ▼
//!  vms/.NAME.INODE.gone                                               removed; by the next sweep, if that is interrupted
//! ```
//!
//! | folder without a record | |
//! |---|---|
//! | files of a start that was killed: no disk, no EFI variables, no TPM | removed by a sweep |
//! | a disk, EFI variables or a TPM: the record was set aside or lost | stays; `coracle rm -f` removes it |
//! | files that are not ours | stays |
//! | a file that a process uses, or that was a disk of a VM | stays |

use crate::client::Client;
use crate::disk_files::{DISKS, DiskFiles, check_removal, files_below, reason_to_keep};
use crate::error::{Error, ErrorKind, Result};
use crate::launch;
use crate::lock::LOCK;
use crate::path::own_entries;
use crate::place::{Home, Lock, RECORD, check_name, gone};
use crate::raw_disks;
use crate::record::Vm;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Files and folders of a VM besides its lock. `known_hosts` is written by ssh.
const OWN: [&str; 8] = [
    RECORD,
    "vm.json.partial",
    "launcher.log",
    "launcher.log.1",
    "root",
    "secrets",
    "known_hosts",
    "known_hosts.old",
];
/// Folders in `root` with files that outlive a start: disks, EFI variables, the TPM.
const LASTING: [&str; 3] = ["disks", "nvram", "lib/swtpm"];
/// End of the name of a folder that is being removed.
const GONE: &str = ".gone";

/// Kind of a folder that has no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftFolder {
    /// There is no folder, or it has nothing but files of a start that was killed.
    KilledStart,
    /// It has this disk or state of a VM, whose record is not there.
    LostRecord(PathBuf),
    /// It has this file or folder, which is not ours.
    Foreign(PathBuf),
    /// A file there is in use, or was a disk of a VM: a sentence.
    Used(String),
}

impl LeftFolder {
    /// Message for the user about a folder that stays. `None` for one that a process still uses.
    pub fn message(&self, home: &Home, name: &str) -> Option<String> {
        let (folder, record) = (home.vm(name), home.vm_record(name));
        match self {
            LeftFolder::KilledStart | LeftFolder::Used(_) => None,
            LeftFolder::LostRecord(file) => Some(format!(
                "{} is kept: it has no record {}, and {} is there; bring back the record, or remove all with \
                 'coracle rm -f {name}'",
                folder.display(),
                record.display(),
                file.display()
            )),
            LeftFolder::Foreign(file) => Some(format!(
                "{} is not a VM, and is kept: coracle has not made {}; move it to another folder",
                folder.display(),
                file.display()
            )),
        }
    }

    /// Examines a folder without a record.
    pub fn examine(home: &Home, name: &str) -> Result<LeftFolder> {
        let folder = home.vm(name);
        let (own, foreign) = entries(&folder)?;
        for lasting in LASTING.map(|lasting| folder.join("root").join(lasting)) {
            if let Some(file) = files_below(&lasting)?.into_iter().next() {
                return Ok(LeftFolder::LostRecord(file));
            }
        }
        if let Some(file) = foreign.into_iter().next() {
            return Ok(LeftFolder::Foreign(file));
        }
        let (disks, now) = (DiskFiles::read(home), Instant::now());
        for path in own {
            for file in files_below(&path)? {
                if let Some(why) = reason_to_keep(&file, &disks, now)? {
                    return Ok(LeftFolder::Used(why.into_sentence()));
                }
            }
        }
        Ok(LeftFolder::KilledStart)
    }
}

/// Entries of a VM's folder: those that are ours, and those that are not.
fn entries(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    match own_entries(folder, &OWN) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok((vec![], vec![])),
        other => other,
    }
}

/// Removes all files of a VM here, unless one of them is the disk of a VM. Its launcher must have ended. With its QEMU still running
/// it is an error: nothing could find that process afterwards.
pub fn forget(home: &Home, name: &str, lock: Lock) -> Result<()> {
    if let Some((pid, file)) = launch::qemu(home, name)? {
        let what = format!("the files of {name} are not removed: its QEMU (process {pid}) runs");
        return Err(Error::failed(what).with_hint(format!(
            "end that process (kill {pid}); if it is not that of {name}, remove {}",
            file.display()
        )));
    }
    let remove = |path: &Path| {
        gone(fs::remove_file(path)).map_err(|e| Error::io(format!("cannot remove {}", path.display()), e))
    };
    // A record that cannot be read says nothing about disks.
    if let Ok(Some(vm)) = Vm::find(home, name) {
        raw_disks::keep(home, None, vm.record.disks())?;
    }
    remove(&home.socket(name)?)?;
    // Another home may have a VM of this name, whose launcher listens there.
    if let Some(earlier) =
        home.earlier_socket(name).filter(|path| !Client::new(name, path.clone()).is_there())
    {
        remove(&earlier)?;
    }
    clear(home, name)?;
    drop(lock);
    Ok(())
}

/// Removes the folder of a copied record; false for another VM. The processes and the disks of the original stay.
pub fn remove_copy(home: &Home, name: &str) -> Result<bool> {
    check_name(name)?;
    let is_copy = || match Vm::find(home, name) {
        Ok(Some(vm)) => vm.is_copy(),
        _ => Ok(false),
    };
    if !is_copy()? {
        return Ok(false);
    }
    let _lock = home.lock_vm(name)?;
    // Another process may have made a VM of this name before the lock.
    if !is_copy()? {
        return Ok(false);
    }
    clear(home, name)?;
    Ok(true)
}

/// Removes the folder of a VM whose lock is held, unless a file there is the disk of a VM or in use. Files that are not ours
/// stay, and the folder with them.
pub(crate) fn clear(home: &Home, name: &str) -> Result<()> {
    let folder = home.vm(name);
    let (own, mut foreign) = entries(&folder)?;
    check_removal(home, name, &own)?;
    foreign.extend(foreign_disks(home, name)?);
    if foreign.is_empty() {
        return set_aside(home, name);
    }
    // The record goes first: a folder without one is not listed.
    let record = folder.join(RECORD);
    for path in std::iter::once(&record).chain(&own).chain([&folder.join(LOCK)]) {
        gone(remove_but(path, &foreign))
            .map_err(|e| Error::io(format!("cannot remove {}", path.display()), e))?;
    }
    for kept in foreign {
        tracing::warn!("{} is kept: coracle has not made it", kept.display());
    }
    Ok(())
}

/// Files among the disks of a VM that its launcher has not made: it names them by the volumes, also by those of earlier runs. A VM without a record has none.
fn foreign_disks(home: &Home, name: &str) -> Result<Vec<PathBuf>> {
    let Ok(Some(vm)) = Vm::find(home, name) else { return Ok(vec![]) };
    let disks = launch::root(home, name).join(DISKS);
    let names = vm.record.all_volumes().into_iter();
    let own: Vec<PathBuf> =
        names.flat_map(|name| ["qcow2", "partial"].map(|end| disks.join(format!("{name}.{end}")))).collect();
    let mut files = files_below(&disks)?;
    files.retain(|file| !own.contains(file));
    Ok(files)
}

/// Removes a file or folder, but these files and the folders that they are in.
fn remove_but(path: &Path, kept: &[PathBuf]) -> io::Result<()> {
    if kept.iter().any(|kept| kept == path) {
        return Ok(());
    }
    match fs::symlink_metadata(path) {
        Ok(facts) if facts.is_dir() && kept.iter().any(|kept| kept.starts_with(path)) => {
            fs::read_dir(path)?.try_for_each(|entry| remove_but(&entry?.path(), kept))
        }
        Ok(facts) if facts.is_dir() => fs::remove_dir_all(path),
        _ => gone(fs::remove_file(path)),
    }
}

/// Removes the folder of a start that was killed, whose lock is held.
pub fn remove_left(home: &Home, name: &str, _: &Lock) -> Result<LeftFolder> {
    let left = match Vm::find(home, name)? {
        Some(_) => return Ok(LeftFolder::Used(format!("{name} is a VM"))),
        None => LeftFolder::examine(home, name)?,
    };
    if left == LeftFolder::KilledStart {
        set_aside(home, name)?;
    }
    Ok(left)
}

/// Renames the folder of a VM, and removes it.
fn set_aside(home: &Home, name: &str) -> Result<()> {
    let folder = home.vm(name);
    let cannot = |e| Error::io(format!("cannot remove {}", folder.display()), e);
    let number = match fs::metadata(&folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(cannot)?.ino(),
    };
    // The inode number is unique among existing folders.
    let aside = home.vms().join(format!(".{name}.{number}{GONE}"));
    fs::rename(&folder, &aside).and_then(|()| gone(fs::remove_dir_all(&aside))).map_err(cannot)
}

/// Finishes removals that were interrupted.
pub fn clear_gone(home: &Home) {
    for entry in fs::read_dir(home.vms()).into_iter().flatten().flatten() {
        let path = entry.path();
        if !entry
            .metadata()
            .is_ok_and(|facts| facts.is_dir() && is_set_aside(&entry.file_name(), facts.ino()))
        {
            continue;
        }
        // Another process may remove it at the same time.
        match check_removal(home, "a VM that was being removed", [&path]) {
            Ok(()) => drop(fs::remove_dir_all(&path)),
            Err(e) => tracing::info!("{e}"),
        }
    }
}

/// True for the name that [`set_aside`] gives to a folder of this inode number.
fn is_set_aside(name: &OsStr, number: u64) -> bool {
    let name = name.to_str().and_then(|name| name.strip_prefix('.')?.strip_suffix(GONE)?.rsplit_once('.'));
    name.is_some_and(|(vm, inode)| check_name(vm).is_ok() && inode == number.to_string())
}
