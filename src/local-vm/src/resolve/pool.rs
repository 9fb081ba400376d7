//! Disks that outlive VMs: the PVCs and DataVolumes of a computer without a cluster.
//!
//! ```text
//!  pool/PVC/disk.img            the disk, raw
//!          /disk.img.partial    an import in progress; the engine resumes it
//!          /disk.json           its source; it exists once the disk is complete (`disk_record.rs`)
//!          /importing           mark of an import that has not ended
//!          /removing            mark of a removal that has not ended: the record that the disk had
//!          /lock                held until the record of a VM that starts names the disk; others wait
//! ```
//!
//! A complete disk is kept and reused, whatever the manifest says now, since it holds the guest's data. It
//! grows when its PVC has grown, and never shrinks. A disk of another namespace is refused, since the name of a PVC
//! means another one there.

use super::disk_record::DiskRecord;
use super::folder;
use super::image::Images;
use super::pool_users::other_user;
use crate::error::{Error, ErrorKind, Result};
use crate::homes::VmOfHome;
use crate::host_disks;
use crate::manifest::{Located, Objects};
use crate::place::{Lock, check_name};
use crate::pool_disk::DISK;
use crate::random;
use crate::worker::Task;
use api::data_volume::{self, DataVolume};
use api::job::{Confidential, Files, Import, References, Refusal, Target};
use api::launcher::{Format, Source};
use cdi::size::human;
use cdi::source;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use storage::file_in_use;

/// The pool, as the volumes of one VM use it.
pub struct Pool<'a> {
    pub images: &'a Images,
    /// Objects of the manifest, for its PVCs and DataVolumes.
    pub objects: &'a Objects,
    /// Namespace of the VM.
    pub namespace: &'a str,
    /// Name of the VM on this computer.
    pub vm: &'a str,
}

/// Use of a disk by a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskUse {
    Written,
    /// The VM reads the disk, and writes to an overlay over it.
    BelowOverlay,
}

/// Locked disks of the pool, by the names of their PVCs. No other process creates, imports or removes them.
#[derive(Debug)]
pub struct HeldDisks(BTreeMap<String, Lock>);

impl HeldDisks {
    /// Makes the folders of these disks and locks them, in the order of their names.
    pub(crate) fn lock<'a>(images: &Images, pvcs: impl IntoIterator<Item = &'a str>) -> Result<HeldDisks> {
        let mut sorted: Vec<&str> = pvcs.into_iter().collect();
        sorted.sort_unstable();
        // A second lock of one file would wait for the first.
        sorted.dedup();
        let lock = |pvc: &str| images.home.lock_disk(pvc, images.notify);
        let locks = sorted.into_iter().map(|pvc| Ok((pvc.to_owned(), lock(pvc)?)));
        locks.collect::<Result<_>>().map(HeldDisks)
    }
}

impl Pool<'_> {
    /// True if a PVC has a complete disk.
    pub fn has(images: &Images, pvc: &str) -> Result<bool> {
        Ok(check_name(pvc).is_ok() && DiskRecord::find(&images.home.pool().join(pvc))?.is_some())
    }

    /// Checks that the disk of a PVC exists, or can be created or imported by the manifest.
    pub fn check(&self, pvc: &str, usage: DiskUse) -> Result<()> {
        check_name(pvc)?;
        if let Some(record) = DiskRecord::find(&self.images.home.pool().join(pvc))? {
            return self.check_kept(pvc, &record, usage).map(drop);
        }
        self.check_unfinished(pvc)?;
        match self.objects.data_volumes.get(pvc) {
            Some(volume) => self.import_of(pvc, &volume.object, None).map(drop),
            None => self.size_of(pvc).map(drop),
        }
    }

    /// Refuses a disk of another namespace, and one that the VM must not share. Returns a sentence for the user about a disk that
    /// another VM has, too.
    fn check_kept(&self, pvc: &str, record: &DiskRecord, usage: DiskUse) -> Result<Option<String>> {
        if let Some(other) = record.namespace.as_deref().filter(|&other| other != self.namespace) {
            let what = format!(
                "the disk {pvc} is one of the namespace {}, and the VM is of the namespace {}",
                printable::line(other),
                printable::line(self.namespace)
            );
            return Err(Error::refused(what).with_hint(format!(
                "give the PVC or DataVolume of one of them another name; {}",
                self.ways(pvc)
            )));
        }
        if usage == DiskUse::BelowOverlay {
            return Ok(None);
        }
        if self.is_foreign_to_test(pvc) {
            let whose = match self.other_user(pvc)? {
                Some(vm) => format!("is a disk of the VM {vm}"),
                None => "was there before".to_owned(),
            };
            let what = format!("{pvc} {whose}, and the test would write to it");
            return Err(Error::refused(what).with_hint(
                "give the DataVolume or PVC of the test another name, or set another home (CORACLE_HOME)",
            ));
        }
        match self.objects.data_volumes.get(pvc).filter(|_| self.objects.is_of_arguments) {
            Some(volume) => self.check_for_arguments(pvc, record, &volume.object).map(|()| None),
            None => self.check_for_manifest(pvc),
        }
    }

    /// For a source that a user names in a command, refuses a disk that another VM or a manifest has, or that was made from another
    /// source: the VM would boot something else than was asked for.
    fn check_for_arguments(&self, pvc: &str, record: &DiskRecord, volume: &DataVolume) -> Result<()> {
        let other_name = "give the new VM another --name";
        let refused = |vm: &dyn std::fmt::Display| {
            Err(Error::refused(format!("{pvc} is a disk of the VM {vm}")).with_hint(other_name))
        };
        if let Some(other) = record.vm.as_deref().filter(|&other| other != self.vm) {
            return refused(&printable::line(other));
        }
        let difference = Origin::of(Some(volume)).difference(record);
        let what = match (difference, self.other_user(pvc)?) {
            (Some(difference), _) => format!("{pvc} has a disk already, which was made from {difference}"),
            (None, Some(vm)) => return refused(&vm),
            (None, None) if !record.is_for_arguments_of(self.vm) => format!("{pvc} is a disk of a manifest"),
            (None, None) => return Ok(()),
        };
        Err(Error::refused(what).with_hint(format!("{other_name}; {}", self.ways(pvc))))
    }

    /// Refuses the disk of a VM's own DataVolume that another VM has: the manifest was run under another name. A sentence about another
    /// disk that another VM has.
    fn check_for_manifest(&self, pvc: &str) -> Result<Option<String>> {
        match self.other_user(pvc) {
            Ok(Some(vm)) if self.objects.template_volumes.contains(pvc) => {
                let what =
                    format!("{pvc} is a disk of the VM {vm}, and the VM {} would write to it", self.vm);
                Err(Error::refused(what)
                    .with_hint(format!("give the DataVolume of the new VM another name; {}", self.ways(pvc))))
            }
            Ok(Some(vm)) => Ok(Some(format!("{pvc} is a disk of the VM {vm}, too"))),
            Ok(None) => Ok(None),
            Err(e) if self.objects.template_volumes.contains(pvc) => Err(e),
            Err(e) => Ok(Some(format!("warning: {pvc} may be the disk of another VM: {e}"))),
        }
    }

    /// True for the disk of a test that the test has not imported.
    fn is_foreign_to_test(&self, pvc: &str) -> bool {
        self.objects.is_for_test && !self.objects.imported.has(pvc)
    }

    /// Another VM that has this disk, of any home.
    fn other_user(&self, pvc: &str) -> Result<Option<VmOfHome>> {
        other_user(&self.images.home, &self.images.home.pool().join(pvc), self.vm)
    }

    /// The hint how the data of a kept disk is reached, and how the disk is removed.
    fn ways(&self, pvc: &str) -> String {
        let folder = self.images.home.pool().join(pvc);
        let disk = folder.join(DISK);
        // The VM of this name counts, too.
        let keep = match other_user(&self.images.home, &folder, "") {
            Ok(Some(VmOfHome { name, vms: None })) => {
                format!("'coracle start {name}' starts the VM with that disk")
            }
            _ => format!("'coracle run {}' boots that disk with all its data", disk.display()),
        };
        format!("{keep}; 'coracle pool rm -f {pvc}' removes the disk with all its data, to begin anew")
    }

    /// The disk of a PVC, created or imported on first use.
    pub fn disk(&self, pvc: &str, held: &HeldDisks, usage: DiskUse) -> Result<Source> {
        if !held.0.contains_key(pvc) {
            return Err(Error::failed(format!("the disk {pvc} is not locked")));
        }
        let folder = self.images.home.pool().join(pvc);
        let volume = self.objects.data_volumes.get(pvc);
        let record = match (DiskRecord::find(&folder)?, volume) {
            (Some(record), _) => self.kept(pvc, usage, volume, record)?,
            (None, Some(volume)) => self.fill(pvc, &folder, &volume.object)?,
            (None, None) => self.claimed(pvc, &folder)?,
        };
        Ok(Source::File { path: folder.join(DISK), format: Format::Raw, preallocated: record.preallocated })
    }

    /// Opens an existing disk, and grows it if its PVC has grown.
    fn kept(
        &self,
        pvc: &str,
        usage: DiskUse,
        volume: Option<&Located<DataVolume>>,
        mut record: DiskRecord,
    ) -> Result<DiskRecord> {
        let folder = &self.images.home.pool().join(pvc);
        if let Some(told) = self.check_kept(pvc, &record, usage)? {
            (self.images.notify)(&format!("coracle: {told}"));
        }
        // An earlier import may have been ended before it removed its mark.
        DiskRecord::end(folder)?;
        if let Some(volume) = volume {
            self.compare(pvc, folder, &Origin::of(Some(&volume.object)), &mut record)?;
        }
        if record.namespace.is_none() {
            record.namespace = Some(self.namespace.to_owned());
            record.write(folder)?;
            (self.images.notify)(&format!(
                "coracle: the disk {pvc} of an earlier version is one of the namespace {} from now on",
                printable::line(self.namespace)
            ));
        }
        let wanted = match volume {
            Some(volume) => volume.object.spec.size().and_then(|size| size.bytes()),
            None => self.wanted(pvc),
        };
        if let Some(wanted) = wanted.filter(|_| !self.is_foreign_to_test(pvc)) {
            self.grow(pvc, folder, whole(wanted))?;
        }
        Ok(record)
    }

    /// Grows a disk to this size, unless another VM runs with it.
    fn grow(&self, pvc: &str, folder: &Path, wanted: u64) -> Result<()> {
        let disk = folder.join(DISK);
        let cannot = |e| Error::io(format!("cannot grow {}", disk.display()), e);
        let now = std::fs::metadata(&disk).map_err(cannot)?.len();
        if wanted <= now {
            return Ok(());
        }
        let file = std::fs::File::options().read(true).write(true).open(&disk).map_err(cannot)?;
        let told = match file_in_use(&file).map_err(cannot)? {
            Some(why) => format!("does not grow from {} to {}: {why}", human(now), human(wanted)),
            None => {
                file.set_len(wanted).and_then(|()| file.sync_all()).map_err(cannot)?;
                format!("grew from {} to {}", human(now), human(wanted))
            }
        };
        (self.images.notify)(&format!("coracle: the disk {pvc} {told}"));
        Ok(())
    }

    /// Tells how the source of a kept disk differs from the one that is wanted. A record of an earlier version says neither
    /// query nor user, and gets those that are wanted first.
    fn compare(&self, pvc: &str, folder: &Path, wanted: &Origin, record: &mut DiskRecord) -> Result<()> {
        if let Some(difference) = wanted.difference(record) {
            (self.images.notify)(&format!(
                "coracle: {pvc} keeps the disk that it has, which was made from {difference}"
            ));
        } else if record.address.is_none() && wanted.address.is_some() {
            record.address.clone_from(&wanted.address);
            record.write(folder)?;
            if !wanted.is_whole {
                (self.images.notify)(&format!(
                    "coracle: the disk {pvc} of an earlier version counts as one from {} with this query and user from now on",
                    printable::line(&wanted.shown)
                ));
            }
        }
        Ok(())
    }

    fn wanted(&self, pvc: &str) -> Option<u64> {
        self.objects.pvcs.get(pvc)?.object.spec.storage()?.bytes()
    }

    /// Size of the empty disk of a PVC.
    fn size_of(&self, pvc: &str) -> Result<u64> {
        let Some(written) = self.objects.pvcs.get(pvc) else {
            let what = format!(
                "there is no disk {pvc:?}: neither a PersistentVolumeClaim nor a DataVolume of the manifest is called so, \
                 and {} has none from before",
                self.images.home.pool().display()
            );
            return Err(Error::new(ErrorKind::NotFound, what));
        };
        let refused =
            |field: &str, what: &str| Error::refused(written.origin.finding(field, what).to_string());
        let spec = &written.object.spec;
        if spec.data_source.is_some() || spec.data_source_ref.is_some() {
            return Err(refused("spec.dataSource", "not supported yet"));
        }
        let size = self.wanted(pvc).filter(|&size| size > 0);
        size.ok_or_else(|| refused("spec.resources.requests.storage", "an empty disk needs a size"))
    }

    /// Creates the empty disk of a PVC without a source.
    fn claimed(&self, pvc: &str, folder: &Path) -> Result<DiskRecord> {
        let (source, size) = (api::job::Source::Blank, Some(self.size_of(pvc)?));
        let target = Target::File(folder.join(DISK));
        self.import(pvc, folder, &Origin::of(None), Import { source, target, size, preallocate: false })
    }

    /// Imports a disk from the source of its DataVolume.
    fn fill(&self, pvc: &str, folder: &Path, volume: &DataVolume) -> Result<DiskRecord> {
        self.import(pvc, folder, &Origin::of(Some(volume)), self.import_of(pvc, volume, Some(folder))?)
    }

    /// The import that a DataVolume asks for. Without a folder nothing is created: its references are only
    /// checked.
    fn import_of(&self, pvc: &str, volume: &DataVolume, folder: Option<&Path>) -> Result<Import> {
        let target = Target::File(folder.unwrap_or(Path::new("")).join(DISK));
        Import::from_data_volume(volume, target, &mut ManifestReferences { pool: self, folder }).map_err(
            |refusal| {
                match refusal {
                    // The manifest was refused for these faults before.
                    Refusal::Faults(faults) => {
                        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
                        Error::refused(format!("the DataVolume {pvc}: {}", faults.join("; ")))
                    }
                    Refusal::Reference(e) => e,
                }
            },
        )
    }

    /// Refuses an import over an unfinished disk that a VM has run by its path, as a file of its user.
    fn check_unfinished(&self, pvc: &str) -> Result<()> {
        let disk = self.images.home.pool().join(pvc).join(DISK);
        if !host_disks::is_written_raw(&self.images.home, &disk)? {
            return Ok(());
        }
        let what = format!(
            "the disk {pvc} is not imported: {} is left of an import that did not end, and a VM has run with it since",
            disk.display()
        );
        Err(Error::refused(what).with_hint(format!(
            "move that file away to keep its data, or remove it: 'coracle pool rm -f {pvc}'; or choose another --name"
        )))
    }

    /// Runs an import, and writes its record.
    fn import(&self, pvc: &str, folder: &Path, origin: &Origin, import: Import) -> Result<DiskRecord> {
        let import = Import { size: import.size.map(whole), ..import };
        let (preallocated, id) = (import.preallocate, random::uuid()?);
        if origin.address.is_some() {
            let from = printable::line(&origin.shown);
            (self.images.notify)(&format!("coracle: importing {from} as the disk {pvc}"));
        }
        self.check_unfinished(pvc)?;
        self.objects.imported.add(pvc);
        DiskRecord::begin(folder)?;
        let size: u64 = self.images.ask(Task::Import(Box::new(import)))?;
        let disk = folder.join(DISK);
        let cannot = |e| Error::io(format!("cannot complete {}", disk.display()), e);
        let file = std::fs::File::options().write(true).open(&disk).map_err(cannot)?;
        let now = file.metadata().map_err(cannot)?.len();
        file.set_len(whole(now)).and_then(|()| file.sync_all()).map_err(cannot)?;
        let mut record = DiskRecord::new(origin.shown.clone(), size, preallocated);
        record.address = origin.address.clone();
        record.namespace = Some(self.namespace.to_owned());
        record.vm = self.objects.is_of_arguments.then(|| self.vm.to_owned());
        record.vms = Some(self.images.home.vms());
        record.id = Some(id);
        record.write(folder)?;
        Ok(record)
    }
}

/// References of an import to Secrets and ConfigMaps of the manifest: values, and folders for those that are
/// read as files.
struct ManifestReferences<'a> {
    pool: &'a Pool<'a>,
    /// Folder of the PVC, which is locked: another manifest may have a ConfigMap of the same name.
    folder: Option<&'a Path>,
}

impl References for ManifestReferences<'_> {
    type Error = Error;

    fn secret(&mut self, name: &str) -> Result<Files> {
        let secret = self.pool.objects.secrets.get(name).ok_or_else(|| missing("Secret", name))?;
        let files = folder::of_secret(&secret.object)?;
        Ok(Files::Values(files.into_iter().map(|(key, bytes)| (key, Confidential(bytes))).collect()))
    }

    fn config_map(&mut self, name: &str) -> Result<PathBuf> {
        let map = self.pool.objects.config_maps.get(name).ok_or_else(|| missing("ConfigMap", name))?;
        let files = folder::of_config_map(&map.object)?;
        match self.folder {
            Some(folder) => folder::write(&folder.join("certificates").join(name), &files),
            None => Ok(PathBuf::new()),
        }
    }
}

fn missing(kind: &str, name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("the manifest has no {kind} {name:?}, which is needed; add it"))
}

/// What a disk is made from.
struct Origin {
    /// Name of the source without its secrets: the record stays beside the disk.
    shown: String,
    /// Digest of the whole address, if the source has one.
    address: Option<String>,
    /// True if `shown` leaves out nothing of the address.
    is_whole: bool,
}

impl Origin {
    /// The source of a DataVolume; nothing without one.
    fn of(volume: Option<&DataVolume>) -> Origin {
        let source = volume.and_then(|volume| volume.spec.source.as_ref());
        match source.and_then(data_volume::Source::address) {
            Some(address) => Origin {
                shown: source::shown(address),
                address: Some(source::name_digest(address)),
                is_whole: source::is_shown_whole(address),
            },
            None => Origin { shown: "nothing".to_owned(), address: None, is_whole: true },
        }
    }

    /// The source that a disk was made from, and how it differs from this one; `None` if it is the same, as far as a record
    /// without the digest of an address says.
    fn difference(&self, record: &DiskRecord) -> Option<String> {
        let was = source::shown(&record.from);
        let shown = printable::line(&was);
        if was != self.shown {
            return Some(format!("{shown}, not from {}", printable::line(&self.shown)));
        }
        match &record.address {
            Some(address) if Some(address) != self.address.as_ref() => {
                Some(format!("{shown} with another query or user"))
            }
            _ => None,
        }
    }
}

/// Size rounded up to whole blocks: with the host's cache off, QEMU cannot write a partial block at the end.
pub(crate) fn whole(size: u64) -> u64 {
    size.checked_next_multiple_of(4096).unwrap_or(size)
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
