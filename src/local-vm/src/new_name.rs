//! Names of new VMs. A name is locked from its choice on until its VM has started, so two processes never choose one.
//!
//! | record of the name | `--name`, a manifest | derived by `run` | of `test` |
//! |---|---|---|---|
//! | none | taken | taken, but for a URL no pool disk of another VM or of a manifest | taken, but no pool disk |
//! | a stopped VM that `run` made of the same source and disks, without `--rm` | replaced | replaced, but not by `--rm` | next name |
//! | another stopped VM | replaced | next name | next name |
//! | a VM that runs | refused | next name; refused for the same file or URL | next name |
//!
//! The next name has a number appended: `web-2`. A derived name is a word of ours, so a VM of that name that the user made of
//! something else keeps its record, its TPM and its files.

use crate::error::{Error, ErrorKind, Result};
use crate::from_image::Drive;
use crate::host_file::HostDevice;
use crate::kept_disks::{has_disk_of, has_disk_of_other};
use crate::place::{Home, Lock, check_name, real};
use crate::record::{Record, Vm};
use crate::vm_folder::{LeftFolder, remove_left};
use cdi::source::name_digest;
use std::collections::BTreeSet;

/// Numbers that are tried at the end of a name. The number 1 is not written.
const NUMBERS: std::ops::Range<u32> = 1..1000;

/// Name of a new VM, locked. Dropped before its VM has a record, it leaves no folder.
#[derive(Debug)]
pub struct NewName {
    name: String,
    home: Home,
    lock: Option<Lock>,
}

/// Source of a VM that `run` makes without a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmSource {
    /// Name that is derived from it.
    pub name: String,
    /// The source as the record of its VM keeps it: an absolute path, the reference of an image, the digest of a URL.
    pub made_from: String,
    /// True for an image, of which several VMs can run.
    pub is_image: bool,
    /// All drives of the VM.
    pub drives: Vec<Drive>,
}

impl VmSource {
    /// Drives whose writes outlive a run, as the record of the VM keeps them: files by their paths without links, URLs by their
    /// digests.
    pub(crate) fn lasting_drives(&self) -> Result<BTreeSet<String>> {
        let drives = self.drives.iter().filter_map(|drive| match drive {
            Drive::File(path, _) => Some(real(path).map(|path| format!("file {}", path.display()))),
            Drive::Web(url) => Some(Ok(format!("url {}", name_digest(url)))),
            Drive::Image(_) | Drive::Cdrom(_) | Drive::Empty(_) => None,
        });
        drives.collect()
    }

    /// True if the VM of a record was made of this source, which is the same device if it is one.
    fn is_of(&self, record: &Record) -> Result<bool> {
        if record.made_from.as_ref() != Some(&self.made_from) {
            return Ok(false);
        }
        for drive in &self.drives {
            // Earlier versions recorded no devices.
            if let Drive::File(path, _) = drive
                && !record.devices.is_empty()
                && let Some(now) = HostDevice::find(path)?
                && !now.may_be_one_of(&record.devices)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// True if the VM of a record has the same lasting drives. Earlier versions recorded none.
    fn has_drives_of(&self, record: &Record) -> Result<bool> {
        match &record.lasting_drives {
            Some(drives) => Ok(*drives == self.lasting_drives()?),
            None => Ok(true),
        }
    }
}

impl NewName {
    /// The name that the user wrote, in a flag or a manifest.
    pub fn given(home: &Home, name: &str) -> Result<NewName> {
        check_name(name)?;
        let lock = Some(home.claim_vm(name)?);
        Ok(NewName { name: name.to_owned(), home: home.clone(), lock })
    }

    /// The name that `run` derives from a source. `remove`: the new VM is removed after its end.
    pub fn derived(home: &Home, source: &VmSource, remove: bool) -> Result<NewName> {
        let is_free = |vm: &Vm| {
            if !source.is_of(&vm.record)? || vm.is_copy()? {
                return Ok(false);
            }
            match vm.standing()?.is_up() {
                // Its start refuses a second VM with the same disk.
                true => Ok(!source.is_image),
                false => Ok(!vm.record.remove && !remove && source.has_drives_of(&vm.record)?),
            }
        };
        let has_pool_disk = source.drives.iter().any(|drive| matches!(drive, Drive::Web(_)));
        let is_new = |name: &str| Ok(!has_pool_disk || !has_disk_of_other(home, name)?);
        NewName::first(home, &source.name, !source.is_image, is_free, is_new)
    }

    /// The first name of `wanted` that neither a VM nor a disk of the pool has.
    pub fn unused(home: &Home, wanted: &str) -> Result<NewName> {
        NewName::first(home, wanted, false, |_| Ok(false), |name| Ok(!has_disk_of(home, name)?))
    }

    /// The first free name. `is_free` is asked about a name with a record, and `is_new` about one without. `is_claimed`: the start
    /// of another process under a name is an error, and no reason to take the next one.
    fn first(
        home: &Home,
        wanted: &str,
        is_claimed: bool,
        is_free: impl Fn(&Vm) -> Result<bool>,
        is_new: impl Fn(&str) -> Result<bool>,
    ) -> Result<NewName> {
        let mut last = None;
        for i in NUMBERS {
            let name = if i == 1 { wanted.to_owned() } else { format!("{wanted}-{i}") };
            check_name(&name)?;
            let judged = || match Vm::find(home, &name)? {
                Some(vm) => is_free(&vm),
                // A folder with other files stays as it is, without a lock of ours.
                None if LeftFolder::examine(home, &name)? != LeftFolder::KilledStart => Ok(false),
                None => is_new(&name),
            };
            match judged() {
                Ok(true) => {}
                Ok(false) => continue,
                Err(e) => {
                    last = Some(e);
                    continue;
                }
            }
            let claimed = match is_claimed {
                true => NewName::given(home, &name)?,
                false => match home.lock_vm(&name) {
                    Ok(lock) => NewName { name: name.clone(), home: home.clone(), lock: Some(lock) },
                    Err(e) => {
                        last = Some(e);
                        continue;
                    }
                },
            };
            // Another process may have made a VM of this name before the lock.
            if judged()? {
                return Ok(claimed);
            }
        }
        let what = format!("no free name like {wanted} was found; give this VM a --name");
        let error = Error::new(ErrorKind::Usage, what);
        Err(match last {
            Some(e) => error.because(e),
            None => error,
        })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The lock of the VM.
    pub(crate) fn lock(&self) -> Result<&Lock> {
        self.lock.as_ref().ok_or_else(|| Error::failed(format!("the VM {} is not locked", self.name)))
    }

    /// The lock of the VM, for a removal of its files.
    pub(crate) fn into_lock(mut self) -> Option<Lock> {
        self.lock.take()
    }
}

impl Drop for NewName {
    fn drop(&mut self) {
        // The lock has made the folder.
        if let Some(lock) = self.lock.take()
            && let Err(e) = remove_left(&self.home, &self.name, &lock)
        {
            tracing::info!("the folder of {} is not removed: {e}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use api::launcher::{Resolved, Sync};
    use std::path::Path;

    fn source(made_from: &str, is_image: bool) -> VmSource {
        VmSource { name: "web".into(), made_from: made_from.into(), is_image, drives: vec![] }
    }

    /// A stopped VM.
    fn stopped(home: &Home, name: &str, made_from: Option<&str>, remove: bool) {
        let sync = Sync { vmi: serde_json::json!({}), generation: 1, resolved: Resolved::default() };
        let mut record = Record::new(name, "x", remove, sync, Path::new("/launcher"));
        record.made_from = made_from.map(str::to_owned);
        std::fs::create_dir_all(home.vm(name)).unwrap();
        record.save(home).unwrap();
    }

    fn home(folder: &tempfile::TempDir) -> Home {
        Home::from_env(Some(folder.path().join("h")), |_| None).unwrap()
    }

    /// Its record was replaced, its TPM written over, and `--rm` removed it.
    #[test]
    fn a_derived_name_takes_no_stopped_vm_of_another_source() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        let derived = |made_from, remove| {
            let name = NewName::derived(&home, &source(made_from, true), remove).unwrap();
            name.as_str().to_owned()
        };
        for before in [None, Some("file /other.img")] {
            stopped(&home, "web", before, false);
            assert_eq!(derived("file /web.img", false), "web-2", "{before:?}");
        }
        stopped(&home, "web", Some("file /web.img"), false);
        assert_eq!(derived("file /web.img", false), "web");
        assert_eq!(derived("file /web.img", true), "web-2", "it would be removed");
        stopped(&home, "web", Some("file /web.img"), true);
        assert_eq!(derived("file /web.img", false), "web-2", "another command removes it");
        assert_eq!(home.names().unwrap(), ["web"], "a name that is not used leaves no folder");
    }

    /// The record of a VM with another data disk was replaced, with its TPM.
    #[test]
    fn a_derived_name_takes_no_stopped_vm_with_other_disks() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            Drive::File(path, None)
        };
        let (own, further, link) = (file("web.img"), file("data.img"), folder.path().join("link.img"));
        std::os::unix::fs::symlink("data.img", &link).unwrap();
        let with = |drives: &[&Drive]| VmSource {
            drives: drives.iter().map(|&drive| drive.clone()).collect(),
            ..source("file /web.img", false)
        };
        let derived =
            |drives: &[&Drive]| NewName::derived(&home, &with(drives), false).unwrap().as_str().to_owned();
        stopped(&home, "web", Some("file /web.img"), false);
        assert_eq!(derived(&[&own]), "web", "an earlier version recorded no drives");
        let mut record = Vm::open(&home, "web").unwrap().record;
        record.lasting_drives = Some(with(&[&own, &further]).lasting_drives().unwrap());
        record.save(&home).unwrap();
        let (link, sized) = (Drive::File(link, None), Drive::File(folder.path().join("data.img"), Some(7)));
        for same in [[&own, &further].as_slice(), &[&own, &link, &Drive::Empty(7)], &[&sized, &own]] {
            assert_eq!(derived(same), "web", "{same:?}");
        }
        for other in
            [[&own].as_slice(), &[&own, &file("other.img")], &[&own, &Drive::Web("http://h/d".into())]]
        {
            assert_eq!(derived(other), "web-2", "{other:?}");
        }
    }

    /// Its guard powered a VM off that another test had started.
    #[test]
    fn a_test_takes_no_name_of_a_vm_or_of_a_disk() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        stopped(&home, "web-test", None, true);
        std::fs::create_dir_all(home.pool().join("web-test-2-disk1")).unwrap();
        std::fs::write(home.pool().join("web-test-2-disk1/disk.img"), "disk").unwrap();
        let third = NewName::unused(&home, "web-test").unwrap();
        assert_eq!(third.as_str(), "web-test-3");
        assert_eq!(NewName::unused(&home, "web-test").unwrap().as_str(), "web-test-4", "it is locked");
        drop(third);
        assert_eq!(NewName::unused(&home, "web-test").unwrap().as_str(), "web-test-3");
    }

    /// A second copy of a disk was imported, under another name.
    #[test]
    fn a_url_that_another_process_imports_is_not_imported_under_the_next_name() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        let _starts = NewName::given(&home, "web").unwrap();
        let e = NewName::derived(&home, &source("url 00", false), false).unwrap_err().to_string();
        assert!(e.contains("another coracle works on the VM web"), "{e}");
        assert_eq!(NewName::derived(&home, &source("image os:1", true), false).unwrap().as_str(), "web-2");
    }
}
