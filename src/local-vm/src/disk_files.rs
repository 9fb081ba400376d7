//! Disk files of VMs by their records, and the checks that keep them: no conversion, start or removal takes one away.
//!
//! ```text
//!  records of VMs, raw-disks.json ──► DiskFiles ──► storage::protected    unfinished files of conversions
//!                                              ├──► check_removal         files of a folder that is removed
//!                                              └──► check_start           files that a launcher makes anew
//! ```
//!
//! A file is known by its identity, not by its path: a VM may run with any file that its user names, also with one in a folder of
//! ours. A running VM is noticed by its locks as well, which holds for VMs of other homes too.

use crate::error::{Error, Result};
use crate::homes::{VmOfHome, all_vms};
use crate::host_file::{HostDevice, HostFile, paths};
use crate::launch;
use crate::path::file_at;
use crate::place::Home;
use crate::raw_disks;
use crate::record::{Record, Vm};
use api::launcher::Source;
use container_disk::inputs::beside;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use storage::protected::{ProtectedFile, ProtectedFiles};
use storage::{FileId, file_in_use};

/// Time in which a process that ends may still have its files open.
const ENDS: Duration = Duration::from_secs(1);
/// Folder of the disks that a launcher makes, in its root.
pub(crate) const DISKS: &str = "disks";
/// Ends of the names beside a disk that is being made.
const UNFINISHED: [&str; 3] = [".partial", ".partial.journal", ".partial.journal~"];

/// User of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DiskUser {
    /// A VM, running or stopped.
    Vm(VmOfHome),
    /// A VM that was removed. Its disk files stay.
    Gone,
}

/// Disk files of VMs.
#[derive(Debug, Default)]
pub(crate) struct DiskFiles {
    of_vms: Vec<(VmOfHome, ProtectedFile)>,
    of_gone: Vec<ProtectedFile>,
    /// Records that cannot be read. `None`: the list of disks, or a whole home.
    unread: Vec<(Option<VmOfHome>, Error)>,
}

impl DiskFiles {
    /// The files by all records that can be read, of this home and of those that are noted in its list.
    pub(crate) fn read(home: &Home) -> DiskFiles {
        let mut files = DiskFiles::default();
        match raw_disks::kept_files(home) {
            Ok(kept) => files.of_gone = kept,
            Err(e) => files.unread.push((None, e)),
        }
        match all_vms(home) {
            Ok(vms) => {
                for (whose, vm) in vms {
                    match (vm.and_then(|vm| of_record(vm.record)), whose) {
                        (Ok(disks), Some(whose)) => {
                            files.of_vms.extend(disks.into_iter().map(|disk| (whose.clone(), disk)));
                        }
                        (Ok(_), None) => {}
                        (Err(e), whose) => files.unread.push((whose, e)),
                    }
                }
            }
            Err(e) => files.unread.push((None, e)),
        }
        files
    }

    /// The same, and an error if a record cannot be read.
    pub(crate) fn read_all(home: &Home) -> Result<DiskFiles> {
        let mut files = DiskFiles::read(home);
        match files.unread.is_empty() {
            true => Ok(files),
            false => Err(files.unread.swap_remove(0).1),
        }
    }

    /// Reason why a file of the VM `name` may be the disk of another one, as a sentence: a record that cannot be read. The own record of
    /// `name` says nothing of others.
    fn unread_beside(&self, name: &str, file: &Path) -> Option<String> {
        let is_own =
            |whose: &Option<VmOfHome>| whose.as_ref().is_some_and(|vm| vm.vms.is_none() && vm.name == name);
        let (whose, e) = self.unread.iter().find(|(whose, _)| !is_own(whose))?;
        Some(VmOfHome::may_have(whose.as_ref(), file.display(), e))
    }

    /// The VM whose disk an open file may be.
    fn user(&self, file: &File) -> io::Result<Option<DiskUser>> {
        for (vm, disk) in &self.of_vms {
            if disk.is_file(file)? {
                return Ok(Some(DiskUser::Vm(vm.clone())));
            }
        }
        for disk in &self.of_gone {
            if disk.is_file(file)? {
                return Ok(Some(DiskUser::Gone));
            }
        }
        Ok(None)
    }

    /// The VM that has the file at this path as its disk.
    pub(crate) fn user_at(&self, path: &Path) -> Result<Option<DiskUser>> {
        let Some(file) = open(path)? else { return Ok(None) };
        self.user(&file).map_err(|e| Error::io(format!("cannot look at {}", path.display()), e))
    }

    /// The list for [`storage::protected`].
    pub(crate) fn protected(self) -> ProtectedFiles {
        let of_vms = self.of_vms.into_iter().map(|(_, disk)| disk);
        let unread = self.unread.first().map(|(_, e)| e.to_string());
        ProtectedFiles { files: of_vms.chain(self.of_gone).collect(), unread }
    }
}

/// Disk files of a record.
fn of_record(record: Record) -> Result<Vec<ProtectedFile>> {
    let mut files = vec![];
    let Record { sync, host_disks, devices, .. } = record;
    for (volume, path) in paths(&sync.vmi) {
        let recorded = host_disks.get(volume).map(|disk| disk.file.clone());
        let file = recorded.map_or_else(|| HostFile::find(&path), |file| Ok(Some(file)))?;
        files.extend(file.map(|file| file.protected(&path)));
    }
    for (volume, source) in &sync.resolved.volumes {
        if let Source::File { path, .. } = source
            && !host_disks.contains_key(volume)
        {
            files.extend(HostFile::find(path)?.map(|file| file.protected(path)));
        }
    }
    for (path, file) in devices.values().filter_map(HostDevice::backing) {
        files.push(file.protected(path));
    }
    Ok(files)
}

/// Files that these VMs use, each with its VM. An unreadable record is an error: it does not say which files its VM needs, so none
/// may pass for unused.
pub(crate) fn users<N: Clone>(vms: Vec<(N, Result<Vm>)>) -> Result<Vec<(FileId, N)>> {
    let mut users = vec![];
    for (name, vm) in vms {
        for path in vm?.record.files() {
            users.extend(file_at(&path)?.map(|file| (file, name.clone())));
        }
    }
    Ok(users)
}

/// Regular files at this path, at any depth of a folder. Links are not followed.
pub(crate) fn files_below(path: &Path) -> Result<Vec<PathBuf>> {
    let cannot = |e| Error::io(format!("cannot read {}", path.display()), e);
    let facts = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        other => other.map_err(cannot)?,
    };
    if !facts.is_dir() {
        return Ok(Some(path.to_owned()).filter(|_| facts.is_file()).into_iter().collect());
    }
    let mut files = vec![];
    for entry in fs::read_dir(path).map_err(cannot)? {
        files.extend(files_below(&entry.map_err(cannot)?.path())?);
    }
    Ok(files)
}

/// Reason why a file that is to be removed must stay, as a sentence. A lock that goes within a moment is waited for until `until`.
pub(crate) fn reason_to_keep(path: &Path, disks: &DiskFiles, until: Instant) -> Result<Option<KeepReason>> {
    let Some(file) = open(path)? else { return Ok(None) };
    let cannot = |e| Error::io(format!("cannot find out whether {} is in use", path.display()), e);
    let user = disks.user(&file).map_err(cannot)?;
    let path = path.display();
    let shown = match &user {
        Some(DiskUser::Vm(vm)) => format!("{path}, a disk of the VM {vm},"),
        Some(DiskUser::Gone) | None => path.to_string(),
    };
    loop {
        match file_in_use(&file).map_err(cannot)? {
            Some(_) if Instant::now() < until => std::thread::sleep(ENDS / 50),
            Some(how) => return Ok(Some(KeepReason::InUse(format!("{shown} is in use: {how}")))),
            None => break,
        }
    }
    Ok(user.map(|user| match user {
        DiskUser::Vm(vm) => KeepReason::Disk { why: format!("{path} is a disk of the VM {vm}"), vm },
        DiskUser::Gone => KeepReason::DiskOfGone(format!("{path} was a disk of a VM that is removed")),
    }))
}

/// Reason why a file must stay, each with its sentence.
#[derive(Debug)]
pub(crate) enum KeepReason {
    Disk { vm: VmOfHome, why: String },
    InUse(String),
    DiskOfGone(String),
}

impl KeepReason {
    pub(crate) fn into_sentence(self) -> String {
        let (KeepReason::Disk { why, .. } | KeepReason::InUse(why) | KeepReason::DiskOfGone(why)) = self;
        why
    }
}

/// Checks that these files and folders of `what` may be removed: none of their files is the disk of a VM or in use.
pub(crate) fn check_removal<'a>(
    home: &Home,
    what: &str,
    removed: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<()> {
    let (disks, until) = (DiskFiles::read(home), Instant::now() + ENDS);
    let refused =
        |why: String, hint: &str| Err(Error::failed(format!("{what} is not removed: {why}")).with_hint(hint));
    for path in removed {
        for file in files_below(path)? {
            match reason_to_keep(&file, &disks, until)? {
                // It is removed with the folder that has made it. Files that the folder has not made are kept by its removal.
                None | Some(KeepReason::DiskOfGone(_)) => {}
                Some(KeepReason::Disk { why, .. } | KeepReason::InUse(why)) => {
                    let hint = "move that file out of this folder, or remove or end its user first";
                    return refused(why, hint);
                }
            }
            if is_among_disks(&file, path)
                && let Some(why) = disks.unread_beside(what, &file)
            {
                return refused(why, "or move that file out of this folder to keep it");
            }
        }
    }
    Ok(())
}

/// True for a file in the folder of a VM's disks, which is an entry of the VM's folder or below it. No other file there has the
/// name of a disk.
fn is_among_disks(file: &Path, entry: &Path) -> bool {
    let below = entry.parent().and_then(|folder| file.strip_prefix(folder).ok());
    below.is_some_and(|below| below.components().any(|part| part.as_os_str() == DISKS))
}

/// Refuses a start whose launcher would make a file anew that is or may be the disk of another VM: an overlay of its own, or an
/// unfinished disk of the user.
pub(crate) fn check_start(home: &Home, record: &Record) -> Result<()> {
    let name = &record.name;
    let own = files_below(&launch::root(home, name).join(DISKS))?;
    let made = paths(&record.sync.vmi).filter(|(volume, path)| {
        !record.sync.resolved.volumes.contains_key(*volume) && !path.as_os_str().is_empty()
    });
    let unfinished =
        made.flat_map(|(_, path)| UNFINISHED.map(|end| beside(&path, end))).filter(|path| path.exists());
    let replaced: Vec<PathBuf> = own.into_iter().chain(unfinished).collect();
    if replaced.is_empty() {
        return Ok(());
    }
    let disks = DiskFiles::read(home);
    for path in &replaced {
        let why = match disks.user_at(path)? {
            Some(DiskUser::Vm(vm)) => format!("{}, a disk of the VM {vm}", path.display()),
            Some(DiskUser::Gone) => format!("{}, a disk of a VM that is removed", path.display()),
            None => match disks.unread_beside(name, path) {
                Some(why) => why,
                None => continue,
            },
        };
        return Err(Error::refused(format!("{name} is not started: it would replace {why}"))
            .with_hint("move that file to another folder"));
    }
    Ok(())
}

/// Opens a regular file; `None` for a link, and if it is gone.
fn open(path: &Path) -> Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        Ok(file) => Ok(Some(File::from(file))),
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NXIO) => Ok(None),
        Err(e) => Err(Error::io(format!("cannot open {}", path.display()), io::Error::from(e))),
    }
}

/// Protects the disk files of the user's VMs from all that this process writes. They are listed when that is first asked for.
pub fn protect_disks() {
    storage::protected::provide(|| {
        let variable = |name: &str| std::env::var_os(name);
        match Home::from_env(variable("CORACLE_HOME").map(PathBuf::from), variable) {
            Ok(home) => DiskFiles::read(&home).protected(),
            // Without folders of VMs there are none.
            Err(_) => ProtectedFiles::default(),
        }
    });
}

#[cfg(test)]
#[path = "disk_files_tests.rs"]
mod tests;
