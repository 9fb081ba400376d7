//! Disk files that VMs have used as raw disks: their first bytes may be those of a guest, so they are raw for every next VM.
//!
//! ```text
//!  vms/NAME/vm.json     the raw disks of a VM; a volume without a source yet is a file that the launcher makes, a raw one
//!      │ keep: at each start, before QEMU opens them; before the record is removed, or replaced by that of the next start
//!      ▼
//!  raw-disks.json       those of all VMs, also of VMs that are gone or of other homes; those that the user named (`--raw`);
//!                       block devices; qcow2 images; the folders of the VMs of those homes
//! ```
//!
//! A block device is always a raw disk. It is known by its identity (`storage::DeviceId`), as its path may lead to another one, and
//! the file below a loop device is a raw disk as well. The qcow2 images are listed for one question alone: may a file
//! `NAME.partial` be removed as the rest of an interrupted run ([`storage::protected`])?
//!
//! A disk that its guest only reads (a CD-ROM, `readonly`) is none of them. Earlier versions noted files of CD-ROMs, so an entry
//! says that its guest could write (`is_writable`): without that, an ISO image stays one.
//!
//! A disk is a file, not a path. A volume of a raw disk without a recorded file (an earlier version, a start that was
//! interrupted) says of the file at its path that it may be the disk, and no more: another file may have come there.
//!
//! The disks are noted durably before the launcher is started. So a disk stays known whose record is damaged later, or which is
//! that of another home with this list (`XDG_STATE_HOME`, `--root`).

use crate::error::{Error, Result};
use crate::home_entries::{self, HomeEntry, NewEntry};
use crate::host_file::{HostDevice, HostDevices, HostDisks, HostFile, paths, unclear};
use crate::path::file_at;
use crate::place::{Home, Lock, is_own_folder};
use crate::whole_file::write_whole;
use api::launcher::{Format, Source, Sync};
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use storage::FileId;
use storage::protected::ProtectedFile;

/// Version of the file's schema.
const SCHEMA: &str = "coracle.raw-disks/v1";
/// Number of disks from which on those are dropped whose file is gone. Until then storage that is not there now may come back.
const MANY: usize = 1000;
/// Longest list that is read.
const LONGEST: u64 = 64 << 20;

/// Content of the file `raw-disks.json`.
#[derive(Debug, Serialize, Deserialize)]
struct RawDisks {
    schema: String,
    disks: Vec<RawDisk>,
    /// Block devices that guests could write to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    devices: Vec<HostDevice>,
    /// Disks that VMs used in another format than raw (qcow2). By this list, a disk named `NAME.partial` is not removed as the rest of an
    /// interrupted run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<RawDisk>,
    /// Folders of the VMs of the homes whose disks are noted here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    homes: Vec<PathBuf>,
    /// These homes with the files of their VMs. Earlier versions noted no files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    home_entries: Vec<HomeEntry>,
}

/// The parts of a VM's record that tell its disks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordedDisks<'a> {
    pub(crate) sync: &'a Sync,
    pub(crate) host_disks: &'a HostDisks,
    pub(crate) devices: &'a HostDevices,
}

impl RecordedDisks<'_> {
    /// Paths of all files that the VM uses: those of its volumes and its kernel, hostDisks that are not there, and the files under its
    /// loop devices.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let RecordedDisks { sync: Sync { vmi, resolved, .. }, devices, .. } = self;
        let volumes = resolved.volumes.values().filter_map(|source| match source {
            Source::Image { path, .. } | Source::File { path, .. } | Source::Block { path } => {
                Some(path.clone())
            }
            Source::Folder { .. } | Source::Absent => None,
        });
        let kernel =
            resolved.kernel.iter().flat_map(|kernel| [Some(kernel.kernel.clone()), kernel.initrd.clone()]);
        let host_disks = paths(vmi).map(|(_, path)| path).filter(|path| !path.as_os_str().is_empty());
        let backings = devices.values().filter_map(HostDevice::backing).map(|(path, _)| path.to_owned());
        volumes.chain(kernel.flatten()).chain(host_disks).chain(backings).collect()
    }
}

/// The start of a VM.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartOf<'a> {
    /// Folder of VMs that it is in.
    pub(crate) vms: &'a Path,
    /// Folder of VMs that it was in at its last start, if it was moved since.
    pub(crate) moved_from: Option<&'a Path>,
}

#[cfg(test)]
impl StartOf<'_> {
    /// A VM that was not moved.
    pub(crate) fn within(vms: &Path) -> StartOf<'_> {
        StartOf { vms, moved_from: None }
    }
}

/// Disks of a record, for the time after it.
#[derive(Debug, Default)]
pub(crate) struct DisksOfVm {
    pub(crate) raw: Vec<RawDisk>,
    pub(crate) devices: Vec<HostDevice>,
    pub(crate) images: Vec<RawDisk>,
    /// Its home, with the files of the VM.
    pub(crate) home: Option<NewEntry>,
}

/// A raw disk as it was at the last start of its VM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RawDisk {
    path: PathBuf,
    pub(crate) file: HostFile,
    /// True if the file was found at the path of the disk, and no start recorded it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_unrecorded: bool,
    /// True if a guest could write to the file. Unset in entries of earlier versions, which may be of a CD-ROM.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_writable: bool,
}

/// Relation of a raw disk to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// The disk is another file.
    Other,
    /// Both have one inode number, and their times of birth cannot be compared.
    Possible,
    /// The disk is this file.
    Same,
}

/// Notes the disks of a record before it is removed or replaced, and at a start before its guest can write to
/// them.
pub(crate) fn keep(home: &Home, start: Option<StartOf<'_>>, record: RecordedDisks<'_>) -> Result<()> {
    let images = record.host_disks.iter().filter(|(_, disk)| disk.raw_file().is_none());
    let on_host: BTreeMap<&str, PathBuf> = paths(&record.sync.vmi).collect();
    let images = images.filter_map(|(volume, disk)| {
        Some(RawDisk::recorded(on_host.get(volume.as_str())?.clone(), disk.file.clone()))
    });
    add(
        home,
        DisksOfVm {
            raw: of_record(record)?,
            devices: devices_of_record(record)?,
            images: images.collect(),
            home: start
                .map(|start| NewEntry::new(home, start.vms, record.files(), start.moved_from))
                .transpose()?,
        },
    )
}

/// Adds disks to those that are kept.
pub(crate) fn add(home: &Home, mut new: DisksOfVm) -> Result<()> {
    if new.raw.is_empty() && new.devices.is_empty() && new.images.is_empty() && new.home.is_none() {
        return Ok(());
    }
    let path = home.raw_disks();
    home.make(path.parent().unwrap_or(Path::new("/")))?;
    let _lock = Lock::wait(&path.with_extension("lock"))?;
    let mut kept = RawDisks::read(home)?;
    new.raw.retain(|new| !kept.disks.iter().any(|old| old.file == new.file && old.stands_for(new)));
    new.devices.retain(|new| !kept.devices.contains(new));
    new.images.retain(|new| !kept.images.contains(new));
    let is_home_new = match new.home {
        Some(home) => home_entries::add(&mut kept.homes, &mut kept.home_entries, home)?,
        None => false,
    };
    // A full file system forbids no removal of a VM whose start noted its disks.
    if new.raw.is_empty() && new.devices.is_empty() && new.images.is_empty() && !is_home_new {
        return Ok(());
    }
    kept.disks
        .retain(|old| !new.raw.iter().any(|new| new.file.is_unchanged(&old.file) && new.stands_for(old)));
    kept.disks.extend(new.raw);
    kept.devices.retain(|old| !new.devices.iter().any(|new| new.path == old.path && new.id.may_be(&old.id)));
    kept.devices.extend(new.devices);
    kept.images
        .retain(|old| !new.images.iter().any(|new| new.path == old.path && new.file.is_same(&old.file)));
    kept.images.extend(new.images);
    for disks in [&mut kept.disks, &mut kept.images] {
        if disks.len() > MANY {
            disks.retain(RawDisk::is_there);
        }
    }
    if kept.devices.len() > MANY {
        // A loop device is known by its file alone.
        kept.devices.retain(|device| device.backing().is_none_or(|(file, _)| file.exists()));
    }
    kept.write(&path)
}

/// The block devices of a record that its guest may have written to: as they were at its start. Earlier versions recorded
/// none; then those at their paths now.
pub(crate) fn devices_of_record(record: RecordedDisks<'_>) -> Result<Vec<HostDevice>> {
    let mut devices = vec![];
    for (volume, source) in &record.sync.resolved.volumes {
        if let Source::Block { path } = source
            && !is_only_read(&record.sync.vmi, volume)
        {
            match record.devices.get(volume) {
                Some(device) => devices.push(device.clone()),
                None => devices.extend(HostDevice::find(path)?),
            }
        }
    }
    Ok(devices)
}

/// Folders of the VMs of the homes whose disks are noted here.
pub(crate) fn noted_homes(home: &Home) -> Result<Vec<PathBuf>> {
    RawDisks::read(home).map(|kept| kept.homes)
}

/// The homes of this list by the folders of their VMs, those whose files are noted, and the raw disks.
pub(crate) fn noted(home: &Home) -> Result<(Vec<PathBuf>, Vec<HomeEntry>, Vec<HostFile>)> {
    let kept = RawDisks::read(home)?;
    Ok((kept.homes, kept.home_entries, kept.disks.into_iter().map(|disk| disk.file).collect()))
}

/// Removes the entries of a home from this list, but those that `is_kept` selects. False if there is nothing to remove. A home that is
/// there stays in the list.
pub(crate) fn forget_home(home: &Home, vms: &Path, is_kept: &dyn Fn(&HomeEntry) -> bool) -> Result<bool> {
    let path = home.raw_disks();
    let _lock = Lock::wait(&path.with_extension("lock"))?;
    let mut kept = RawDisks::read(home)?;
    let before = (kept.homes.len(), kept.home_entries.len());
    kept.home_entries.retain(|noted| noted.vms != vms || is_kept(noted));
    let is_there = is_own_folder(vms) || kept.home_entries.iter().any(|noted| noted.vms == vms);
    kept.homes.retain(|noted| noted != vms || is_there);
    if (kept.homes.len(), kept.home_entries.len()) == before {
        return Ok(false);
    }
    kept.write(&path).map(|()| true)
}

/// The block devices of VMs that are gone.
pub(crate) fn kept_devices(home: &Home) -> Result<Vec<HostDevice>> {
    RawDisks::read(home).map(|kept| kept.devices)
}

/// Files of VMs that may be gone, in any format, to be kept.
pub(crate) fn kept_files(home: &Home) -> Result<Vec<ProtectedFile>> {
    let kept = RawDisks::read(home)?;
    Ok(kept.disks.iter().chain(&kept.images).filter_map(RawDisk::protected).collect())
}

/// The raw disks of VMs that are gone.
pub(crate) fn kept(home: &Home) -> Result<Vec<RawDisk>> {
    RawDisks::read(home).map(|kept| kept.disks)
}

/// The raw disks of a record that its guest may have written to. A hostDisk without a file in it may be the file that is at
/// its path now; a disk of the pool is that file. A file below a loop device has what the guest wrote to the device.
pub(crate) fn of_record(record: RecordedDisks<'_>) -> Result<Vec<RawDisk>> {
    let RecordedDisks { sync, host_disks, .. } = record;
    let volumes = &sync.resolved.volumes;
    let on_host: BTreeMap<&str, PathBuf> = paths(&sync.vmi).collect();
    let mut disks = vec![];
    for (volume, path) in &on_host {
        match (host_disks.get(*volume), volumes.get(*volume)) {
            _ if is_only_read(&sync.vmi, volume) => {}
            (Some(disk), _) => {
                disks.extend(disk.raw_file().map(|file| RawDisk::recorded(path.clone(), file.clone())));
            }
            (None, None | Some(Source::File { format: Format::Raw, .. })) => {
                let file = HostFile::find(path)?;
                disks.extend(
                    file.map(|file| RawDisk { is_unrecorded: true, ..RawDisk::recorded(path.clone(), file) }),
                );
            }
            (None, Some(_)) => {}
        }
    }
    for (volume, source) in volumes {
        if let Source::File { path, format: Format::Raw, .. } = source
            && !on_host.contains_key(volume.as_str())
            && !is_only_read(&sync.vmi, volume)
        {
            disks.extend(HostFile::find(path)?.map(|file| RawDisk::recorded(path.clone(), file)));
        }
    }
    for device in devices_of_record(record)? {
        disks.extend(device.backing().map(|(path, file)| RawDisk::recorded(path.to_owned(), file)));
    }
    Ok(disks)
}

/// True if the guest only reads a volume: it has it as a CD-ROM, or as a disk that is `readonly`.
pub(crate) fn is_only_read(vmi: &serde_json::Value, volume: &str) -> bool {
    let mut disks = vmi["spec"]["domain"]["devices"]["disks"].as_array().into_iter().flatten();
    disks.any(|disk| {
        let is_readonly = |target: &str| disk[target]["readonly"] == true;
        disk["name"] == volume && (disk["cdrom"].is_object() || is_readonly("disk") || is_readonly("lun"))
    })
}

/// Relation of a raw disk to a file that may be it by its number. `there`: the file at the disk's path, and whether that may
/// be the disk. Two files of two file systems can have one number, and both exist then.
fn relation(is_sure: bool, here: FileId, there: Option<(FileId, bool)>) -> Relation {
    match there {
        _ if is_sure => Relation::Same,
        Some((there, _)) if there == here => Relation::Same,
        Some((_, true)) => Relation::Other,
        _ => Relation::Possible,
    }
}

/// The refusal of a file that begins as a qcow2 image, at the path of a raw disk whose file is not recorded.
pub(crate) fn unrecorded_refusal(path: &Path) -> Error {
    unclear(path, "lies where a VM had a raw disk", &user_says(path))
}

/// The refusal of a file that begins as a qcow2 image, at the path of a raw disk that it may be under another identity.
pub(crate) fn moved_refusal(path: &Path) -> Error {
    unclear(path, "lies where a VM had a raw disk, and may be that disk", &user_says(path))
}

/// The hint how the user says what a file is.
fn user_says(path: &Path) -> String {
    let path = path.display();
    format!(
        "if it is an image of yours, run a copy of it under another name; if it is a raw disk, 'coracle run' with '--raw \
         {path}' notes it as one for good"
    )
}

impl RawDisk {
    /// A disk that a VM has used as a raw one, and could write to.
    pub(crate) fn recorded(path: PathBuf, file: HostFile) -> RawDisk {
        RawDisk { path, file, is_unrecorded: false, is_writable: true }
    }

    /// Relation to the file `now`, which is `here`.
    pub(crate) fn relation(&self, now: &HostFile, here: FileId) -> Relation {
        if !self.file.is_same(now) {
            return Relation::Other;
        }
        // A path that cannot be looked at says nothing.
        let is_disk = matches!(HostFile::find(&self.path), Ok(Some(found)) if found.is_same(&self.file));
        let there = file_at(&self.path).ok().flatten().map(|there| (there, is_disk));
        relation(self.file.is_surely(now), here, there)
    }

    /// True if the file `here` lies at the path of this disk, which a start recorded and a guest could write to.
    pub(crate) fn is_replaced_by(&self, here: FileId) -> bool {
        self.is_recorded()
            && self.is_writable()
            && matches!(file_at(&self.path), Ok(Some(there)) if there == here)
    }

    /// Entry of this disk in a list of files to be kept. A disk without a time of birth that has left its path has none: once the disk
    /// is removed, its file system gives the number to another file.
    fn protected(&self) -> Option<ProtectedFile> {
        let protected = self.file.protected(&self.path);
        (self.file.is_surely(&self.file) || protected.at.is_some()).then_some(protected)
    }

    /// True if a guest could write to it.
    pub(crate) fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// True if the file itself is known, and not its path alone.
    pub(crate) fn is_recorded(&self) -> bool {
        !self.is_unrecorded
    }

    /// The refusal of this file, which is `now` at `path`, begins as a qcow2 image, and is not known to be raw.
    pub(crate) fn refusal(&self, path: &Path, now: &HostFile) -> Error {
        if self.is_unrecorded {
            return unrecorded_refusal(path);
        }
        let how = format!("had {} bytes as a raw disk and has {}", self.file.size(), now.size());
        unclear(path, &how, &user_says(path))
    }

    /// True if this says all that `other` does, of the same file.
    fn stands_for(&self, other: &RawDisk) -> bool {
        (self.path == other.path || self.file.is_surely(&other.file))
            && (self.is_recorded() || other.is_unrecorded)
            && (self.is_writable || !other.is_writable)
    }

    /// True unless its path is free or leads to another file.
    fn is_there(&self) -> bool {
        match HostFile::find(&self.path) {
            Ok(now) => now.is_some_and(|now| now.is_same(&self.file)),
            Err(_) => true,
        }
    }
}

impl RawDisks {
    fn read(home: &Home) -> Result<RawDisks> {
        let path = home.raw_disks();
        let bytes = match read_bounded(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(RawDisks {
                    schema: SCHEMA.into(),
                    disks: vec![],
                    devices: vec![],
                    images: vec![],
                    homes: vec![],
                    home_entries: vec![],
                });
            }
            other => other.map_err(|e| Error::io(format!("cannot read {}", path.display()), e))?,
        };
        serde_json::from_slice(&bytes).map_err(|e| {
            let what = format!("{} is not what coracle wrote: the list of raw disks", path.display());
            let hint =
                "restore that file; without it, a raw disk of a removed VM is told by what its guest wrote";
            Error::refused(what).because(e).with_hint(hint)
        })
    }

    fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::failed("cannot write the list of raw disks").because(e))?;
        write_whole(path, &text)
    }
}

/// Content of a regular file of limited length.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let file = std::fs::File::from(file);
    let facts = file.metadata()?;
    if !facts.is_file() || facts.len() > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a file of at most 64 MiB"));
    }
    let mut bytes = vec![];
    file.take(LONGEST).read_to_end(&mut bytes).map(|_| bytes)
}

#[cfg(test)]
#[path = "raw_disks_tests.rs"]
mod tests;
