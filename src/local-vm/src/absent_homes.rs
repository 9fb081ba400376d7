//! Homes that are noted in a list of disks, and whose VMs are not known.
//!
//! | folder of the VMs | its VMs |
//! |---|---|
//! | there, of this user | all records there count (`homes`) |
//! | not there (its storage is away), or of another user | not known: none of its noted files is given out or removed |
//! | noted by an earlier version, without files | the same for each raw disk of the list |
//! | that of this home, which was moved | those of this home |

use crate::error::{Error, Result};
use crate::home_entries::HomeEntry;
use crate::homes::lists;
use crate::host_file::HostFile;
use crate::place::{Home, is_own_folder};
use crate::raw_disks;
use crate::record::Vm;
use std::path::{Path, PathBuf};

/// Homes whose VMs are not known.
#[derive(Debug)]
pub(crate) struct AbsentHomes {
    /// With their files, or without where an earlier version noted them.
    homes: Vec<(PathBuf, Option<HomeEntry>)>,
    /// Raw disks of the lists.
    disks: Vec<HostFile>,
}

impl AbsentHomes {
    /// Reads the homes whose VMs are not known from the lists of this home and of the home of the environment.
    pub(crate) fn read(home: &Home) -> Result<AbsentHomes> {
        let mut absent = AbsentHomes { homes: vec![], disks: vec![] };
        let own = Vm::all(home)?;
        for list in lists(home) {
            let (homes, noted, disks) = raw_disks::noted(list)?;
            absent.disks.extend(disks);
            for vms in homes {
                let noted = noted.iter().find(|noted| noted.vms == vms);
                let is_own = noted.is_some_and(|noted| noted.is_home(&home.vms()))
                    || own.iter().any(|(_, vm)| vm.as_ref().is_ok_and(|vm| was_in(vm, &vms)));
                if !is_own && !is_own_folder(&vms) {
                    absent.homes.push((vms, noted.cloned()));
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
            let is_raw_disk =
                || file.as_ref().is_some_and(|file| self.disks.iter().any(|disk| disk.is_same(file)));
            let user = self.homes.iter().find(|(_, noted)| match noted {
                Some(noted) => noted.may_have(path, file.as_ref()),
                None => is_raw_disk(),
            });
            if let Some((vms, _)) = user {
                return Ok(Some(vms));
            }
        }
        Ok(None)
    }

    /// Refuses these files of the disk `name`, if one may be that of such a home's VM.
    pub(crate) fn check(&self, name: &str, files: &[PathBuf]) -> Result<()> {
        let Some(vms) = self.user(files)? else { return Ok(()) };
        let vms = vms.display();
        let what = format!("{name} may be a disk of a VM in {vms}, and that folder is not there");
        Err(Error::failed(what).with_hint(format!(
            "bring that folder back (mount its storage), or start its VM where the folder was moved to; 'coracle pool forget \
             {vms}' says that it is gone for good"
        )))
    }
}

/// True if the VM was in this folder of VMs before, and was moved to its home.
fn was_in(vm: &Vm, vms: &Path) -> bool {
    vm.record.folder.as_ref().is_some_and(|noted| noted.is_in(vms)) && matches!(vm.is_copy(), Ok(false))
}

#[cfg(test)]
#[path = "absent_homes_tests.rs"]
mod tests;
