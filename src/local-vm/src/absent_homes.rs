//! Homes that are noted in a list of disks, and whose VMs are not known.
//!
//! | folder of the VMs | its VMs |
//! |---|---|
//! | there, of this user | all records there count (`homes`) |
//! | not there (its storage is away), or of another user | not known: none of its noted files is given out or removed |
//! | another folder is at its path now | the same |
//! | noted by an earlier version, without files | the same for each raw disk of the list |
//! | that of this home, which was moved | those of this home |
//!
//! A VM that was moved out of such a home, or restored to its path, has its own record: that counts for its files, and for those alone.

use crate::error::{Error, ErrorKind, Result};
use crate::home_entries::HomeEntry;
use crate::homes::lists;
use crate::host_file::HostFile;
use crate::path::{absolute, file_at};
use crate::place::{Home, is_own_folder};
use crate::raw_disks;
use crate::record::Vm;
use std::path::{Path, PathBuf};

/// Homes whose VMs are not known.
#[derive(Debug)]
pub(crate) struct AbsentHomes {
    homes: Vec<AbsentHome>,
    /// Raw disks of the lists.
    disks: Vec<HostFile>,
}

/// A home whose VMs are not known.
#[derive(Debug)]
struct AbsentHome {
    /// Folder of its VMs.
    vms: PathBuf,
    /// With its files, or nothing where an earlier version noted it.
    noted: Option<HomeEntry>,
    /// Files of its VMs that are in this home now.
    moved: Vec<PathBuf>,
}

impl AbsentHome {
    fn may_have(&self, path: &Path, file: Option<&HostFile>, disks: &[HostFile]) -> Result<bool> {
        let may_have = match &self.noted {
            Some(noted) => noted.may_have(path, file),
            None => file.is_some_and(|file| disks.iter().any(|disk| disk.is_same(file))),
        };
        if !may_have {
            return Ok(false);
        }
        let here = file_at(path)?.filter(|_| file.is_some());
        for moved in &self.moved {
            if moved == path || (here.is_some() && file_at(moved)? == here) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl AbsentHomes {
    /// Reads the homes whose VMs are not known from the lists of this home, of its pool, and of the home of the environment.
    pub(crate) fn read(home: &Home) -> Result<AbsentHomes> {
        let mut absent = AbsentHomes { homes: vec![], disks: vec![] };
        let own = Vm::all(home)?;
        let moved_from = |vms: &Path| {
            let records = own.iter().filter_map(|(_, vm)| vm.as_ref().ok());
            records.filter(|vm| was_in(vm, vms)).flat_map(|vm| vm.record.files()).collect()
        };
        for list in lists(home) {
            let (homes, noted, disks) = raw_disks::noted(&list)?;
            absent.disks.extend(disks);
            for vms in homes {
                let mut entries = noted.iter().filter(|noted| noted.vms == vms).peekable();
                if entries.peek().is_none() && vms != home.vms() && !is_own_folder(&vms) {
                    let moved = moved_from(&vms);
                    absent.homes.push(AbsentHome { vms, noted: None, moved });
                    continue;
                }
                for noted in entries.filter(|noted| is_absent(home, noted)) {
                    let (noted, moved) = (Some(noted.clone()), moved_from(&vms));
                    absent.homes.push(AbsentHome { vms: vms.clone(), noted, moved });
                }
            }
        }
        Ok(absent)
    }

    /// Folder of the VMs of such a home whose VM may have one of these files.
    pub(crate) fn user(&self, files: &[PathBuf]) -> Result<Option<&Path>> {
        if self.homes.is_empty() {
            return Ok(None);
        }
        for path in files {
            let file = HostFile::find(path)?;
            for home in &self.homes {
                if home.may_have(path, file.as_ref(), &self.disks)? {
                    return Ok(Some(&home.vms));
                }
            }
        }
        Ok(None)
    }

    /// Refuses these files of the disk `name`, if one may be that of such a home's VM.
    pub(crate) fn check(&self, name: &str, files: &[PathBuf]) -> Result<()> {
        let Some(vms) = self.user(files)? else { return Ok(()) };
        let (is_there, vms) = (is_own_folder(vms), vms.display());
        let why = if is_there { "another folder is there now" } else { "that folder is not there" };
        let what = format!("{name} may be a disk of a VM in {vms}, and {why}");
        Err(Error::failed(what).with_hint(format!(
            "if that home is gone for good, 'coracle pool forget {vms}' says so; else bring the folder back (mount its storage), or start \
             its VM where the folder was moved to"
        )))
    }
}

/// True if the VMs of a noted home are not known.
fn is_absent(home: &Home, noted: &HomeEntry) -> bool {
    let is_there = is_own_folder(&noted.vms) && !noted.is_replaced();
    !is_there && !noted.is_folder(&home.vms())
}

/// Removes the entries of a home that is gone for good from the lists of this home. `folder`: that of its VMs, or its root. A home whose
/// VMs are known is kept.
pub(crate) fn forget(home: &Home, folder: &Path) -> Result<()> {
    let (mut is_forgotten, mut known) = (false, None);
    let folder = absolute(folder)?;
    for vms in [folder.clone(), folder.join("state/vms")] {
        for list in lists(home) {
            let (homes, noted, _) = raw_disks::noted(&list)?;
            if !homes.contains(&vms) {
                continue;
            }
            let is_kept = |noted: &HomeEntry| noted.vms == vms && !is_absent(home, noted);
            if noted.iter().any(is_kept) || is_own_folder(&vms) {
                known = Some(vms.clone());
            }
            is_forgotten |= raw_disks::forget_home(&list, &vms, &is_kept)?;
        }
    }
    match known {
        _ if is_forgotten => Ok(()),
        Some(vms) => Err(Error::refused(format!("{} is there, so its VMs are known", vms.display()))
            .with_hint("remove the VM that has the disk")),
        None => {
            let what = format!("{} is not noted as a home whose VMs have disks here", folder.display());
            Err(Error::new(ErrorKind::NotFound, what))
        }
    }
}

/// True if the VM was in this folder of VMs at its last start, and is in its home now.
fn was_in(vm: &Vm, vms: &Path) -> bool {
    vm.record.folder.as_ref().is_some_and(|noted| noted.vms() == Some(vms))
        && matches!(vm.is_copy(), Ok(false))
}

#[cfg(test)]
#[path = "absent_homes_tests.rs"]
mod tests;
