//! Formats of the user's disk files (hostDisks), kept for a file and not for its path.
//!
//! ```text
//!  what the records know of the very file               its format
//!  a disk of the pool                                   raw
//!  a raw disk of this size                              raw, whatever its first bytes are: they may be its guest's
//!  a raw disk of another size                           raw, unless it begins as a qcow2 image: that is refused
//!  a VM without a record of its file had it at its      raw, unless it begins as a qcow2 image: that is refused
//!  path as a raw disk
//!  another file at the path of a raw disk, which may    refused if it begins as a qcow2 image
//!  be that disk for all that its file system says
//!  a qcow2 image                                        by its first bytes, which a guest of a qcow2 cannot write
//!  nothing, at the path of a raw disk of this VM        raw, unless it begins as a qcow2 image: that is refused
//!  nothing                                              by its first bytes
//! ```
//!
//! A file that its guest only reads (a CD-ROM, `readonly`) counts as nothing. All records count, and the list of the raw disks of
//! VMs that are gone (`raw_disks`): for `run`, `start` and `restart`.
//!
//! Where a file system has no times of birth, the inode number stands for the file. A file of that number and another size is
//! refused only at the path that is recorded: elsewhere it may be another file.
//!
//! A raw disk that became a qcow2 is refused by `start` even under a new inode: a copy of a disk has the bytes of its guest,
//! too, and some network file systems number their files anew. `coracle run`, where the user names the file, takes it.
//!
//! A guest changes neither the inode of a raw file nor its time of birth, and its size only within the last sector. A file
//! that was written over in place (`cp`, `qemu-img convert`) keeps both, and is noticed by its size. The user's word that it
//! is a raw disk (`--raw`) is noted in that list.
//!
//! `start` makes no disk: one that is missing lies on storage that is away, and an empty disk in its place would be the wrong
//! one.
//!
//! A block device is known by its identity, and `start` refuses another one at its path: `coracle run`, where the user names the
//! path, takes it. A record of an earlier version has no identity, and takes the device that is there.
//!
//! The launcher gets a path and a format. So directly before that each path is compared with the file whose format was told
//! ([`check_unchanged`]). A new disk is made here before (`new_disk`), and recorded with the identity of that very file. A path
//! that has no location all the same is marked as absent: the launcher takes no file that has come there.

use crate::error::{Error, ErrorKind, Result};
use crate::homes::{all_vms, lists};
use crate::host_file::{
    HostDevice, HostDevices, HostDisk, HostDisks, HostFile, begins_as_qcow2, paths, unclear,
};
use crate::path::file_at;
use crate::place::Home;
use crate::pool_disk::is_pool_disk;
use crate::raw_disks::{self, DisksOfVm, RawDisk, Relation};
use crate::record::Record;
use api::launcher::{Format, Source, Sync};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use storage::Storage;

/// Use of a file as a raw disk, by all records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PastUse {
    /// No VM had it as a raw disk.
    None,
    /// A VM without a record of its file had it at its path as a raw disk. It is no qcow2 image now.
    Unrecorded,
    /// A raw disk. `is_writable` if a guest could write to it.
    Raw { is_writable: bool },
    /// A VM had a raw disk at this path that its guest could write to, and the file there is another one.
    Replaced,
}

/// The hostDisks of a record, whose files were `files` before their formats were told.
pub fn recorded(record: &Record, files: BTreeMap<String, (PathBuf, HostFile)>) -> HostDisks {
    let formats = &record.sync.resolved.volumes;
    let disks = files.into_iter().filter_map(|(volume, (_, file))| match formats.get(&volume) {
        Some(Source::File { format, .. }) => Some((volume, HostDisk { file, format: *format })),
        _ => None,
    });
    disks.collect()
}

/// Refuses a hostDisk that is another file than the recorded one, whose format was told.
pub fn check_unchanged(record: &Record) -> Result<()> {
    for (volume, path) in paths(&record.sync.vmi) {
        let is_unchanged = match (record.host_disks.get(volume), HostFile::find(&path)?) {
            (None, None) => true,
            (Some(HostDisk { file, format: Format::Raw }), Some(now)) => file.is_unchanged(&now),
            // A qcow2 grows, by a VM that shares it.
            (Some(HostDisk { file, .. }), Some(now)) => file.is_same(&now),
            (Some(_), None) => matches!(record.sync.resolved.volumes.get(volume), Some(Source::Block { .. })),
            (None, Some(_)) => false,
        };
        if !is_unchanged {
            return Err(changed(&path));
        }
    }
    for known in record.devices.values() {
        // The launcher reports a device that is gone.
        if HostDevice::find(&known.path)?.is_some_and(|now| !now.id.may_be(&known.id)) {
            return Err(changed(&known.path));
        }
    }
    Ok(())
}

fn changed(path: &Path) -> Error {
    let what = format!("{} was made, replaced or changed while the VM was being prepared", path.display());
    Error::refused(what).with_hint("the same command again takes what is there then")
}

/// The block devices of a VM as they are now, by volume.
pub fn devices(sync: &Sync) -> Result<HostDevices> {
    let mut devices = HostDevices::new();
    for (volume, source) in &sync.resolved.volumes {
        if let Source::Block { path } = source
            && let Some(device) = HostDevice::find(path)?
        {
            devices.insert(volume.clone(), device);
        }
    }
    Ok(devices)
}

/// The block devices of a record as they are now. A device that is another one than at the last start is refused: its path was
/// given to it after a reboot, or after another disk was attached.
fn same_devices(record: &Record) -> Result<HostDevices> {
    let mut now = devices(&record.sync)?;
    for (volume, known) in &record.devices {
        match now.get(volume) {
            Some(device) if device.id.may_be(&known.id) => {}
            None if file_at(&known.path)?.is_none() => {
                // Its launcher reports that it is missing.
                now.insert(volume.clone(), known.clone());
            }
            _ => {
                let what =
                    format!("{} is another device than at the last start of this VM", known.path.display());
                return Err(Error::refused(what).with_hint(
                    "attach that device under this path again; 'coracle run' takes the device that is there",
                ));
            }
        }
    }
    Ok(now)
}

/// The request to the launcher of a VM that is made: a hostDisk without a location, which is to be made, is marked as absent.
pub fn with_new_files(record: &Record) -> Sync {
    let mut sync = record.sync.clone();
    for (volume, _) in paths(&record.sync.vmi) {
        sync.resolved.volumes.entry(volume.to_owned()).or_insert(Source::Absent);
    }
    sync
}

/// Settles the identities of the files that a guest may write to, before they are recorded.
pub fn settle(vmi: &serde_json::Value, volumes: &BTreeMap<String, Source>) {
    let on_host = paths(vmi);
    let files = volumes.iter().filter_map(|(volume, source)| match source {
        Source::File { path, .. } => Some((volume.as_str(), path.clone())),
        _ => None,
    });
    for (volume, path) in on_host.chain(files) {
        if !raw_disks::is_only_read(vmi, volume) {
            HostFile::settle(&path);
        }
    }
}

/// Tells the formats of a record's hostDisks again, before its VM starts again. After an error the record is as it was.
pub fn refresh(home: &Home, record: &mut Record, judge: impl Fn(&Path) -> Result<Format>) -> Result<()> {
    let devices = same_devices(record)?;
    let mut now = HostDisks::new();
    for (volume, path) in paths(&record.sync.vmi) {
        let known = record.host_disks.get(volume);
        let source = record.sync.resolved.volumes.get(volume);
        let Some(file) = HostFile::find(&path)? else {
            check_absent(&path, known, source)?;
            continue;
        };
        let format = match (known, source) {
            (Some(known), _) if known.file.is_same(&file) => known_again(home, known, &path, &file, &judge)?,
            (Some(HostDisk { format: Format::Raw, .. }), _) => in_place_of_raw(home, &path, known)?,
            (_, Some(Source::File { format: Format::Qcow2, .. })) => {
                format_of_host_disk(home, &path, &judge)?
            }
            // An earlier version recorded no file, and an interrupted start not the one that its launcher made, which is raw.
            (_, _) => in_place_of_raw(home, &path, None)?,
        };
        now.insert(volume.to_owned(), HostDisk { file, format });
    }
    for (volume, disk) in &now {
        if let Some(Source::File { format, .. }) = record.sync.resolved.volumes.get_mut(volume) {
            *format = disk.format;
        }
    }
    record.host_disks.extend(now);
    record.devices = devices;
    Ok(())
}

/// Format of a disk file of the user. `judge` tells it by the first bytes where no record knows the file.
pub fn format_of_host_disk(
    home: &Home,
    path: &Path,
    judge: impl FnOnce(&Path) -> Result<Format>,
) -> Result<Format> {
    let mut unreadable = None;
    let past = past_use(home, path, &mut unreadable)?;
    if !matches!(past, PastUse::None | PastUse::Replaced) || is_in_device_of_vm(home, path)? {
        return Ok(Format::Raw);
    }
    match (judge(path)?, unreadable) {
        (Format::Qcow2, Some(e)) => Err(e),
        (format, _) => Ok(format),
    }
}

/// True if a VM has used the very file at this path as a raw disk. An error if it may be one, and begins as a qcow2 image.
/// `unreadable` gets the first record that cannot be read.
pub(crate) fn is_known_raw(home: &Home, path: &Path, unreadable: &mut Option<Error>) -> Result<bool> {
    Ok(matches!(past_use(home, path, unreadable)?, PastUse::Raw { .. }))
}

/// True if a VM has used the very file at this path as a raw disk that its guest could write to, or a device with these bytes. An
/// error if the file may be a raw disk, and begins as a qcow2 image. Records that cannot be read do not count.
pub fn is_written_raw(home: &Home, path: &Path) -> Result<bool> {
    let is_written =
        |path: &Path| Ok::<_, Error>(past_use(home, path, &mut None)? == PastUse::Raw { is_writable: true });
    if is_written(path)? || is_in_device_of_vm(home, path)? {
        return Ok(true);
    }
    let Some(device) = HostDevice::find(path)? else { return Ok(false) };
    let is_of_guest = match device.backing() {
        Some((file, _)) => is_written(file)?,
        None => false,
    };
    Ok(is_of_guest || is_device_of_guest(home, &device)?)
}

/// Refuses a file that has taken the place of a raw disk and begins as something else: whether it is that disk, whose guest may
/// have written the beginning, its identity does not say on each file system. For verbs to which the user can name the format.
/// `judge` says what it begins like, if not like a raw disk.
pub fn check_replaced(
    home: &Home,
    path: &Path,
    judge: impl FnOnce(&Path) -> Result<Option<String>>,
) -> Result<()> {
    // Nothing but a file is read: the bytes of a pipe are gone then.
    if past_use(home, path, &mut None)? != PastUse::Replaced {
        return Ok(());
    }
    let Ok(Some(disguise)) = judge(path) else { return Ok(()) };
    let what = format!(
        "{} lies where a VM had another file as a raw disk, and begins like {disguise}: a guest can write such a beginning, too",
        path.display()
    );
    Err(Error::refused(what)
        .with_hint("-f raw reads it as a raw disk; move a file that is not the disk of a VM to another path"))
}

/// True if a VM has had this block device, one in it or the one that it lies in, by the records of all VMs, also of those that are
/// gone.
fn is_device_of_guest(home: &Home, device: &HostDevice) -> Result<bool> {
    let vms = all_vms(home)?.into_iter().filter_map(|(_, vm)| vm.ok());
    let of_vms = vms.map(|vm| raw_disks::devices_of_record(vm.record.disks())).collect::<Result<Vec<_>>>()?;
    let kept = raw_disks::kept_devices(home)?;
    Ok(of_vms.iter().flatten().chain(&kept).any(|known| device.shares_bytes(known)))
}

/// True if a VM has a block device with bytes of the file or device at this path, and its guest may write to them: a loop device
/// over the file, the device itself, the disk of a partition. A device is always a raw disk.
fn is_in_device_of_vm(home: &Home, path: &Path) -> Result<bool> {
    let Ok(storage) = Storage::of_path(path) else { return Ok(false) };
    let vms = all_vms(home)?.into_iter().filter_map(|(_, vm)| vm.ok());
    Ok(vms.map(|vm| vm.record).any(|record| {
        record.sync.resolved.volumes.iter().any(|(volume, source)| match source {
            Source::Block { path } if !raw_disks::is_only_read(&record.sync.vmi, volume) => {
                is_at_its_path(record.devices.get(volume), path)
                    && Storage::of_path(path).is_ok_and(|device| device.shares_bytes(&storage))
            }
            _ => false,
        })
    }))
}

/// True if the device at the path of a record is the one of its VM: another one may have got the path. Earlier versions recorded no
/// device.
fn is_at_its_path(known: Option<&HostDevice>, path: &Path) -> bool {
    known.is_none_or(|known| {
        HostDevice::find(path).is_ok_and(|now| now.is_some_and(|now| now.id.may_be(&known.id)))
    })
}

/// Use of the file at this path, by all records. An error if it may be a raw disk, and begins as a qcow2 image.
fn past_use(home: &Home, path: &Path, unreadable: &mut Option<Error>) -> Result<PastUse> {
    let (Some(now), Some(here)) = (HostFile::find(path)?, file_at(path)?) else { return Ok(PastUse::None) };
    let records =
        all_vms(home)?.into_iter().map(|(_, vm)| vm.and_then(|vm| raw_disks::of_record(vm.record.disks())));
    if is_pool_disk(home, path, here)? {
        return Ok(PastUse::Raw { is_writable: true });
    }
    let (mut unchanged, mut others, mut replaced) = (false, vec![], vec![]);
    // The kept ones are read last: a record that is removed meanwhile has its disks there.
    let lists = lists(home);
    for disks in records.chain(lists.iter().map(raw_disks::kept)) {
        match disks {
            Err(e) => *unreadable = unreadable.take().or(Some(e)),
            Ok(disks) => {
                for disk in disks {
                    match disk.relation(&now, here) {
                        Relation::Other if disk.is_replaced_by(here) => replaced.push(disk),
                        Relation::Other => {}
                        _ if !disk.is_recorded() || !disk.file.is_unchanged(&now) => others.push(disk),
                        _ if disk.is_writable() => return Ok(PastUse::Raw { is_writable: true }),
                        _ => unchanged = true,
                    }
                }
            }
        }
    }
    if unchanged {
        return Ok(PastUse::Raw { is_writable: false });
    }
    if others.is_empty() {
        return match replaced.iter().find(|disk| disk.file.may_have_moved(&now)) {
            Some(_) if begins_as_qcow2(path)? => Err(raw_disks::moved_refusal(path)),
            _ if replaced.is_empty() => Ok(PastUse::None),
            _ => Ok(PastUse::Replaced),
        };
    }
    if begins_as_qcow2(path)? {
        let same = others.iter().filter(|disk| disk.relation(&now, here) == Relation::Same);
        return same
            .max_by_key(|disk| disk.is_recorded())
            .map_or(Ok(PastUse::None), |disk| Err(disk.refusal(path, &now)));
    }
    let mut recorded = others.iter().filter(|disk| disk.is_recorded()).peekable();
    Ok(match recorded.peek() {
        None => PastUse::Unrecorded,
        Some(_) => PastUse::Raw { is_writable: recorded.any(RawDisk::is_writable) },
    })
}

/// Notes the user's word that the file at this path is a raw disk, for every VM from now on.
pub fn note_raw(home: &Home, path: &Path) -> Result<()> {
    match HostFile::find(path)? {
        Some(file) => {
            let raw = vec![RawDisk::recorded(path.to_owned(), file)];
            raw_disks::add(home, DisksOfVm { raw, ..DisksOfVm::default() })
        }
        None => Err(Error::refused(format!(
            "{} is not a file, and only a file has a format of its own",
            path.display()
        ))),
    }
}

/// Format of the very file that the last start of this VM had.
fn known_again(
    home: &Home,
    known: &HostDisk,
    path: &Path,
    now: &HostFile,
    judge: impl FnOnce(&Path) -> Result<Format>,
) -> Result<Format> {
    match known.format {
        Format::Raw if known.file.is_unchanged(now) => Ok(Format::Raw),
        Format::Raw if is_known_raw(home, path, &mut None)? || !begins_as_qcow2(path)? => Ok(Format::Raw),
        Format::Raw => Err(RawDisk::recorded(path.to_owned(), known.file.clone()).refusal(path, now)),
        Format::Qcow2 if is_known_raw(home, path, &mut None)? => {
            let what = format!(
                "{} was a qcow2 image at the last start of this VM, and is a raw disk of another one",
                path.display()
            );
            Err(Error::refused(what).with_hint("if it is a raw disk, start the VM by 'coracle run' again"))
        }
        Format::Qcow2 => Ok(judge(path).unwrap_or(Format::Qcow2)),
    }
}

/// Format of another file, where this VM had a raw disk. `known`: the file of the last start, if that is recorded.
fn in_place_of_raw(home: &Home, path: &Path, known: Option<&HostDisk>) -> Result<Format> {
    if is_known_raw(home, path, &mut None)? || !begins_as_qcow2(path)? {
        return Ok(Format::Raw);
    }
    Err(match known {
        Some(_) => unclear(
            path,
            "was a raw disk at the last start of this VM and was another file",
            "if the image is yours, start the VM by 'coracle run' again",
        ),
        None => raw_disks::unrecorded_refusal(path),
    })
}

/// Checks a path where no file is. Only `run` makes a disk.
fn check_absent(path: &Path, known: Option<&HostDisk>, source: Option<&Source>) -> Result<()> {
    let is_there = file_at(path)?.is_some();
    match (source, known) {
        // The launcher looks at a device that is gone, and `same_devices` at one that is there.
        (Some(Source::Block { .. }), _) => Ok(()),
        (None, None) if is_there => Ok(()),
        _ if is_there => {
            let what =
                format!("{} was a file at the last start of this VM, and is not a file now", path.display());
            Err(Error::refused(what).with_hint("start the VM by 'coracle run' again to use what is there"))
        }
        _ => {
            let what = format!("the disk {} of this VM is not there", path.display());
            Err(Error::new(ErrorKind::NotFound, what).with_hint(
                "bring back the file, or the storage that it is on; a new disk is made by 'coracle run' alone",
            ))
        }
    }
}

#[cfg(test)]
#[path = "host_disks_tests.rs"]
mod tests;
