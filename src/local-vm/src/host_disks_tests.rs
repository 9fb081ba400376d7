//! Formats of hostDisks, with real files that are replaced, written over and made larger.

use super::*;
use crate::disk_files::DiskFiles;
use crate::from_image::Drive;
use crate::host_file::files;
use crate::new_name::{NewName, VmSource};
use crate::resolve::image::usable;
use api::launcher::{Resolved, Sync};
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

/// First bytes of a qcow2 image.
const QCOW2: &[u8] = b"QFI\xfb\0\0\0\x03";

struct Place {
    folder: tempfile::TempDir,
    disk: PathBuf,
    home: Home,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::from_env(Some(folder.path().join("h")), |_| None).unwrap();
        Place { disk: folder.path().join("disk.img"), folder, home }
    }

    fn image(&self, name: &str, head: &[u8], size: usize) -> PathBuf {
        let path = self.folder.path().join(name);
        let mut bytes = head.to_vec();
        bytes.resize(size, 0);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The record of a VM that has run with the disk in this format.
    fn ran(&self, format: Format) -> Record {
        let source = Source::File { path: self.disk.clone(), format, preallocated: false };
        let resolved = Resolved { volumes: [("root".to_owned(), source)].into(), ..Resolved::default() };
        let mut record = self.record(resolved);
        record.host_disks = recorded(&record, files(&record.sync.vmi).unwrap());
        assert_eq!(record.host_disks["root"].format, format);
        record
    }

    fn record(&self, resolved: Resolved) -> Record {
        let volumes = json!([{"name": "root", "hostDisk": {"path": self.disk, "type": "DiskOrCreate"}}]);
        let sync = Sync { vmi: json!({"spec": {"volumes": volumes}}), generation: 1, resolved };
        Record::new("vm", "disk.img", false, sync, Path::new("/launcher"))
    }

    /// The format that the next start tells the launcher.
    fn next(&self, record: &mut Record) -> Result<Format> {
        // A start reads its record.
        fs::create_dir_all(self.home.vm("vm")).unwrap();
        record.save(&self.home).unwrap();
        *record = serde_json::from_str(&serde_json::to_string(record).unwrap()).unwrap();
        refresh(&self.home, record, usable)?;
        match &record.sync.resolved.volumes["root"] {
            Source::File { format, .. } => Ok(*format),
            other => panic!("{other:?}"),
        }
    }

    /// The format that `coracle run` of this file tells the launcher.
    fn run(&self, path: &Path) -> Result<Format> {
        format_of_host_disk(&self.home, path, usable)
    }

    /// The bytes of a guest, or of the user, at this offset.
    fn write(&self, bytes: &[u8], at: u64) {
        File::options().write(true).open(&self.disk).unwrap().write_all_at(bytes, at).unwrap();
    }

    fn grow(&self, size: u64) {
        File::options().write(true).open(&self.disk).unwrap().set_len(size).unwrap();
    }
}

#[test]
fn a_raw_disk_stays_raw_whatever_its_guest_writes() {
    let place = Place::new();
    place.image("disk.img", &[], 8192);
    let mut record = place.ran(Format::Raw);
    for head in [QCOW2, &[0x1f, 0x8b, 8, 0], b"KDMV"] {
        place.write(head, 0);
        for _ in 0..2 {
            assert_eq!(place.next(&mut record).unwrap(), Format::Raw);
        }
    }
}

/// Its guest saw the header of the image, and could write over it.
#[test]
fn an_image_that_takes_the_place_of_a_raw_disk_is_not_opened_as_raw() {
    let place = Place::new();
    place.image("disk.img", &[], 8192);
    let mut record = place.ran(Format::Raw);
    let new = place.image("new.img", QCOW2, 8192);
    fs::rename(new, &place.disk).unwrap();
    let e = place.next(&mut record).unwrap_err().to_string();
    assert!(e.contains("disk.img was a raw disk") && e.contains("was another file"), "{e}");
    assert!(e.contains("'coracle run' again"), "{e}");
}

#[test]
fn an_image_that_is_copied_over_a_raw_disk_is_not_opened_as_raw() {
    let place = Place::new();
    place.image("disk.img", &[], 8192);
    let mut record = place.ran(Format::Raw);
    fs::copy(place.image("new.img", QCOW2, 4096), &place.disk).unwrap();
    let e = place.next(&mut record).unwrap_err().to_string();
    assert!(e.contains("disk.img had 8192 bytes as a raw disk and has 4096"), "{e}");
    assert!(e.contains("run a copy of it") && !e.contains("truncate"), "{e}");
    assert_eq!(place.run(&place.disk).unwrap_err().kind(), ErrorKind::Refused);
    let copy = place.folder.path().join("copy.img");
    fs::copy(&place.disk, &copy).unwrap();
    assert_eq!(place.run(&copy).unwrap(), Format::Qcow2);
}

#[test]
fn a_raw_disk_that_is_replaced_or_grows_is_used_on() {
    let place = Place::new();
    place.image("disk.img", &[], 8192);
    let mut record = place.ran(Format::Raw);
    fs::rename(place.image("new.img", &[], 4096), &place.disk).unwrap();
    assert_eq!(place.next(&mut record).unwrap(), Format::Raw);
    place.grow(16384);
    assert_eq!(place.next(&mut record).unwrap(), Format::Raw);
    // From now on it is the disk of this size.
    place.write(QCOW2, 0);
    assert_eq!(place.next(&mut record).unwrap(), Format::Raw);
}

/// A guest encrypts its disk, and its user makes it larger.
#[test]
fn a_raw_disk_that_grows_is_raw_whatever_its_guest_wrote_in_front() {
    for head in [&[0x1f, 0x8b, 8, 0][..], b"LUKS\xba\xbe\0\x01", b"KDMV\x01\0\0\0"] {
        let place = Place::new();
        place.image("disk.img", head, 8192);
        let mut record = place.ran(Format::Raw);
        place.grow(16384);
        assert_eq!(place.next(&mut record).unwrap(), Format::Raw);
    }
}

#[test]
fn what_takes_the_place_of_a_qcow2_is_told_by_its_first_bytes() {
    let place = Place::new();
    place.image("disk.img", QCOW2, 8192);
    let mut record = place.ran(Format::Qcow2);
    assert_eq!(place.next(&mut record).unwrap(), Format::Qcow2);
    fs::copy(place.image("copied.img", &[], 4096), &place.disk).unwrap();
    assert_eq!(place.next(&mut record).unwrap(), Format::Raw);
    fs::rename(place.image("disk.img.new", QCOW2, 8192), &place.disk).unwrap();
    place.next(&mut record).unwrap_err();
}

#[test]
fn a_disk_that_a_start_makes_is_known_as_raw() {
    let place = Place::new();
    let mut record = place.record(Resolved::default());
    crate::new_disk::make_disk(&mut record, "root", &place.disk, 8192).unwrap();
    check_unchanged(&record).unwrap();
    assert_eq!(record.host_disks["root"].format, Format::Raw);
    place.write(QCOW2, 0);
    assert_eq!(place.next(&mut record).unwrap(), Format::Raw);
    crate::new_disk::make_disk(&mut record.clone(), "root", &place.disk, 8192).unwrap_err();
    fs::rename(place.image("new.img", QCOW2, 8192), &place.disk).unwrap();
    refresh(&place.home, &mut record, usable).unwrap_err();
    fs::remove_file(&place.disk).unwrap();
    let e = refresh(&place.home, &mut record, usable).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert_eq!(record.host_disks.len(), 1, "the launcher does not make it anew");
}

/// Storage that is away at one start, and an image that comes to its path later.
#[test]
fn a_disk_that_is_missing_is_not_forgotten() {
    let place = Place::new();
    place.image("disk.img", &[], 8192);
    let mut record = place.ran(Format::Raw);
    let before = record.clone();
    let away = place.folder.path().join("away.img");
    fs::rename(&place.disk, &away).unwrap();
    let e = place.next(&mut record).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    assert!(e.to_string().contains("disk.img of this VM is not there"), "{e}");
    assert!(e.to_string().contains("bring back the file"), "{e}");
    assert_eq!(record, before);

    place.image("disk.img", QCOW2, 8192);
    let e = place.next(&mut record).unwrap_err().to_string();
    assert!(e.contains("was another file"), "{e}");
    assert_eq!(record, before);
    assert_eq!(place.run(&place.disk).unwrap(), Format::Qcow2, "a record names files and no paths");

    fs::rename(&away, &place.disk).unwrap();
    place.write(QCOW2, 0);
    assert_eq!(place.next(&mut record).unwrap(), Format::Raw);
}

#[test]
fn a_folder_in_the_place_of_a_disk_is_refused() {
    let place = Place::new();
    place.image("disk.img", &[], 8192);
    let mut record = place.ran(Format::Raw);
    fs::remove_file(&place.disk).unwrap();
    fs::create_dir(&place.disk).unwrap();
    let e = place.next(&mut record).unwrap_err();
    assert!(e.kind() == ErrorKind::Refused && e.to_string().contains("is not a file now"), "{e}");
}

/// A disk of a killed `run` that its launcher has not made: `start` does not make it either.
#[test]
fn a_start_makes_no_disk() {
    let place = Place::new();
    let mut record = place.record(Resolved::default());
    assert_eq!(refresh(&place.home, &mut record, usable).unwrap_err().kind(), ErrorKind::NotFound);
    place.image("disk.img", &[], 8192);
    refresh(&place.home, &mut record, usable).unwrap();
    assert_eq!(record.host_disks["root"].format, Format::Raw);
    record.host_disks.clear();
    place.write(QCOW2, 0);
    let e = refresh(&place.home, &mut record, usable).unwrap_err();
    assert!(e.to_string().contains("lies where a VM had a raw disk"), "{e}");
}

/// `run --disk new.img:16MiB` that is killed before it records the file, whose guest encrypts or archives to the whole disk.
#[test]
fn a_disk_of_a_killed_start_is_raw_whatever_its_guest_wrote_in_front() {
    for head in [&[0x1f, 0x8b, 8, 0][..], b"\xfd7zXZ\0", b"KDMV\x01\0\0\0"] {
        let place = Place::new();
        place.image("disk.img", head, 8192);
        place.run(&place.disk).unwrap_err();
        let mut record = place.record(Resolved::default());
        fs::create_dir_all(place.home.vm("vm")).unwrap();
        record.save(&place.home).unwrap();
        assert_eq!(place.run(&place.disk).unwrap(), Format::Raw);
        crate::vm_folder::forget(&place.home, "vm", place.home.lock_vm("vm").unwrap()).unwrap();
        assert_eq!(place.run(&place.disk).unwrap(), Format::Raw);
        refresh(&place.home, &mut record, usable).unwrap();
        assert_eq!(record.host_disks["root"].format, Format::Raw);
    }
}

#[test]
fn a_raw_disk_that_is_moved_to_the_path_of_a_qcow2_stays_raw() {
    let place = Place::new();
    place.image("disk.img", QCOW2, 8192);
    let mut record = place.ran(Format::Qcow2);
    let raw = place.image("raw.img", &[], 4096);
    note_raw(&place.home, &raw).unwrap();
    fs::rename(&raw, &place.disk).unwrap();
    place.write(QCOW2, 0);
    assert_eq!(place.next(&mut record).unwrap(), Format::Raw);
    assert_eq!(record.host_disks["root"].format, Format::Raw);
}

/// The records contradict one another: either answer may be the wrong one.
#[test]
fn a_qcow2_that_another_vm_has_as_a_raw_disk_is_refused() {
    let place = Place::new();
    place.image("disk.img", QCOW2, 8192);
    let mut record = place.ran(Format::Qcow2);
    note_raw(&place.home, &place.disk).unwrap();
    let e = place.next(&mut record).unwrap_err().to_string();
    assert!(e.contains("was a qcow2 image at the last start of this VM"), "{e}");
}

/// `truncate -s 8M disk.img; coracle run disk.img`, after its guest wrote a header.
#[test]
fn a_raw_disk_that_grew_is_opened_as_no_qcow2_by_any_verb() {
    let place = Place::new();
    place.image("disk.img", QCOW2, 8192);
    let mut record = place.ran(Format::Raw);
    place.grow(16384);
    let e = place.next(&mut record).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Refused);
    let e = place.run(&place.disk).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert!(e.to_string().contains("had 8192 bytes as a raw disk and has 16384"), "{e}");
    assert!(e.to_string().contains(&format!("--raw {}", place.disk.display())), "{e}");
    note_raw(&place.home, &place.disk).unwrap();
    assert_eq!(place.run(&place.disk).unwrap(), Format::Raw);
    assert_eq!(place.next(&mut record).unwrap(), Format::Raw);
}

/// QEMU rounds the size of a raw disk up to a sector, and its guest may write there.
#[test]
fn a_guest_that_fills_the_last_sector_has_the_same_disk() {
    let place = Place::new();
    place.image("disk.img", QCOW2, 1_000_000);
    let mut record = place.ran(Format::Raw);
    place.write(&[1; 448], 1_000_000);
    assert_eq!(place.next(&mut record).unwrap(), Format::Raw);
    assert_eq!(place.run(&place.disk).unwrap(), Format::Raw);
    place.write(&[1], 1_000_448);
    place.run(&place.disk).unwrap_err();
    place.next(&mut record).unwrap_err();
}

/// An older record has no files. The one that is at the path now may be another one.
#[test]
fn a_raw_disk_of_an_earlier_version_is_refused_once_it_begins_as_a_qcow2() {
    let place = Place::new();
    place.image("disk.img", QCOW2, 8192);
    let mut record = place.ran(Format::Raw);
    record.host_disks.clear();
    let e = place.next(&mut record).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert!(e.to_string().contains("lies where a VM had a raw disk"), "{e}");
    note_raw(&place.home, &place.disk).unwrap();
    assert_eq!(place.next(&mut record).unwrap(), Format::Raw);
    assert_eq!(record.host_disks["root"].format, Format::Raw);

    for (format, head) in [(Format::Raw, &[][..]), (Format::Qcow2, QCOW2)] {
        let place = Place::new();
        place.image("disk.img", head, 8192);
        let mut record = place.ran(format);
        record.host_disks.clear();
        assert_eq!(place.next(&mut record).unwrap(), format);
        assert_eq!(record.host_disks["root"].format, format);
    }
}

/// An import of minutes lies between the look at a file and the start of its VM.
#[test]
fn a_file_that_changes_while_its_vm_is_prepared_is_refused() {
    let refused = |record: &Record| {
        let said = check_unchanged(record).unwrap_err();
        assert!(said.to_string().contains("disk.img was made, replaced or changed while"), "{said}");
    };
    for format in [Format::Raw, Format::Qcow2] {
        let place = Place::new();
        place.image("disk.img", if format == Format::Raw { &[] } else { QCOW2 }, 8192);
        let record = place.ran(format);
        check_unchanged(&record).unwrap();
        place.write(b"x", 4096);
        check_unchanged(&record).unwrap();
        // A qcow2 grows, and a raw disk does not.
        place.grow(16384);
        match format {
            Format::Raw => refused(&record),
            Format::Qcow2 => check_unchanged(&record).unwrap(),
        }
        place.grow(8192);
        fs::rename(place.image("new.img", QCOW2, 8192), &place.disk).unwrap();
        refused(&record);
        fs::remove_file(&place.disk).unwrap();
        refused(&record);
    }
    // A file that comes where the launcher is to make one.
    let place = Place::new();
    let record = place.record(Resolved::default());
    check_unchanged(&record).unwrap();
    let given = with_new_files(&record);
    assert_eq!(given.resolved.volumes["root"], Source::Absent, "the launcher takes no file that is there");
    assert!(record.sync.resolved.volumes.is_empty());
    place.image("disk.img", QCOW2, 8192);
    refused(&record);
    // A location stays.
    let record = place.ran(Format::Qcow2);
    assert_eq!(with_new_files(&record), record.sync);
}

/// The record of a VM with this device, as a start saves it.
fn with_device(place: &Place, device: &Path) -> Record {
    let source = Source::Block { path: device.to_owned() };
    let resolved = Resolved { volumes: [("root".to_owned(), source)].into(), ..Resolved::default() };
    let volumes = json!([{"name": "root", "hostDisk": {"path": device, "type": "Disk"}}]);
    let sync = Sync { vmi: json!({"spec": {"volumes": volumes}}), generation: 1, resolved };
    let mut record = Record::new("vm", "device", false, sync, Path::new("/launcher"));
    record.devices = devices(&record.sync).unwrap();
    fs::create_dir_all(place.home.vm("vm")).unwrap();
    record.save(&place.home).unwrap();
    serde_json::from_slice(&fs::read(place.home.vm("vm").join("vm.json")).unwrap()).unwrap()
}

/// Leads a path to this device, as udev does with the paths of a device that has come.
fn lead(path: &Path, device: &Loop) {
    fs::remove_file(path).unwrap_or_default();
    std::os::unix::fs::symlink(&device.0, path).unwrap();
}

/// A loop device that is detached when it is dropped.
struct Loop(PathBuf);

impl Loop {
    /// A device over this file. `None`, with the reason printed, where loop devices cannot be made.
    fn over(file: &Path) -> Option<Loop> {
        match std::process::Command::new("losetup").args(["--find", "--show"]).arg(file).output() {
            Ok(output) if output.status.success() => {
                Some(Loop(PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())))
            }
            why => {
                eprintln!("skipped: no loop device: {why:?}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        std::process::Command::new("losetup").arg("-d").arg(&self.0).status().unwrap();
    }
}

/// A qcow2 image that another loop device is over, at the path of a device that a VM had, was opened as a raw disk.
#[test]
fn a_file_below_a_device_that_has_the_path_of_another_one_is_no_raw_disk() {
    let place = Place::new();
    let (own, image) = (place.image("own.img", b"", 1 << 20), place.image("image.img", QCOW2, 1 << 20));
    let (Some(device), Some(second)) = (Loop::over(&own), Loop::over(&image)) else { return };
    let path = place.folder.path().join("device");
    lead(&path, &device);
    with_device(&place, &path);
    assert!(is_written_raw(&place.home, &own).unwrap());
    lead(&path, &second);
    assert_eq!(place.run(&image).unwrap(), Format::Qcow2);
    assert!(!is_written_raw(&place.home, &image).unwrap());
    assert!(is_written_raw(&place.home, &own).unwrap());
}

/// The guest wrote to the disk that had got the path of its device.
#[test]
fn a_device_path_that_leads_elsewhere_is_refused_at_the_next_start() {
    let place = Place::new();
    let (own, other) = (place.image("own.img", b"", 1 << 20), place.image("precious.img", b"", 1 << 20));
    let (Some(device), Some(second)) = (Loop::over(&own), Loop::over(&other)) else { return };
    let path = place.folder.path().join("device");
    lead(&path, &device);
    let mut record = with_device(&place, &path);
    check_unchanged(&record).unwrap();
    refresh(&place.home, &mut record, usable).unwrap();
    assert_eq!(record.devices.len(), 1);

    lead(&path, &second);
    let before = record.clone();
    let e = refresh(&place.home, &mut record, usable).unwrap_err().to_string();
    assert!(e.contains("another device than at the last start of this VM"), "{e}");
    assert_eq!(record, before);
    assert!(check_unchanged(&record).is_err(), "it came while the VM was being prepared");
    // 'coracle run' takes the device that is there, and a record of an earlier version knows none.
    record.devices.clear();
    refresh(&place.home, &mut record, usable).unwrap();
    assert_eq!(record.devices, devices(&record.sync).unwrap());
    check_unchanged(&record).unwrap();
}

/// The record of the VM was replaced whose disk another loop device has now.
#[test]
fn a_derived_name_takes_no_stopped_vm_of_another_device_of_that_path() {
    let place = Place::new();
    let (own, other) = (place.image("own.img", b"", 1 << 20), place.image("other.img", b"", 1 << 20));
    let (Some(device), Some(second)) = (Loop::over(&own), Loop::over(&other)) else { return };
    let path = place.folder.path().join("device");
    lead(&path, &device);
    let mut record = with_device(&place, &path);
    record.made_from = Some("file /dev/loop".into());
    record.save(&place.home).unwrap();
    let source = VmSource {
        name: "vm".into(),
        made_from: "file /dev/loop".into(),
        is_image: false,
        drives: vec![Drive::File(path.clone(), None)],
    };
    let derived = || NewName::derived(&place.home, &source, false).unwrap().as_str().to_owned();
    assert_eq!(derived(), "vm");
    lead(&path, &second);
    assert_eq!(derived(), "vm-2");
    record.devices.clear();
    record.save(&place.home).unwrap();
    assert_eq!(derived(), "vm", "an earlier version recorded no device");
}

/// `rm` forgot the device, and a conversion believed the header that its guest had written there.
#[test]
fn a_device_and_the_file_below_it_stay_raw_after_their_vm_is_removed() {
    let place = Place::new();
    let (own, other) = (place.image("own.img", QCOW2, 1 << 20), place.image("other.img", QCOW2, 1 << 20));
    let (Some(device), Some(second)) = (Loop::over(&own), Loop::over(&other)) else { return };
    let path = place.folder.path().join("device");
    lead(&path, &device);
    let written = |path: &Path| is_written_raw(&place.home, path).unwrap();
    assert!(!written(&path) && !written(&own));
    with_device(&place, &path);
    assert!(written(&path) && written(&device.0) && written(&own) && !written(&other) && !written(&second.0));
    crate::vm_folder::forget(&place.home, "vm", place.home.lock_vm("vm").unwrap()).unwrap();
    assert!(written(&path) && written(&own) && !written(&other));
    assert!(is_known_raw(&place.home, &own, &mut None).unwrap(), "'coracle run own.img'");

    lead(&path, &second);
    assert!(!written(&path) && !written(&other), "another device of that path");
    drop(device);
    assert!(written(&own));
    let Some(third) = Loop::over(&own) else { return };
    assert!(written(&third.0), "the device under another path");
}

/// A conversion removed the disk of a stopped VM, whose name was that of its own unfinished file.
#[test]
fn every_disk_file_of_a_vm_is_protected_also_after_its_removal() {
    let place = Place::new();
    place.image("disk.img", QCOW2, 8192);
    let other = place.image("other.img", QCOW2, 8192);
    let is_protected = |path: &Path| {
        let (id, here) = (HostFile::find(path).unwrap().unwrap().protected(path), file_at(path).unwrap());
        let files = DiskFiles::read(&place.home).protected();
        assert_eq!(files.unread, None);
        files.files.iter().any(|file| file.id.may_be(&id.id) && file.at.is_none_or(|at| Some(at) == here))
    };
    assert!(!is_protected(&place.disk));
    for format in [Format::Qcow2, Format::Raw] {
        place.ran(format);
        let mut record = place.ran(format);
        assert_eq!(place.next(&mut record).unwrap(), format);
        assert!(is_protected(&place.disk) && !is_protected(&other), "{format:?}");
        crate::vm_folder::forget(&place.home, "vm", place.home.lock_vm("vm").unwrap()).unwrap();
        assert!(is_protected(&place.disk) && !is_protected(&other), "{format:?}");
        fs::remove_file(place.home.raw_disks()).unwrap();
        assert!(!is_protected(&place.disk));
    }
    fs::write(place.home.raw_disks(), "").unwrap();
    assert!(DiskFiles::read(&place.home).protected().unread.unwrap().contains("the list of raw disks"));
}

/// A guest's header was believed where no record names the disk, or a damaged one does.
#[test]
fn a_disk_of_the_pool_is_raw_whichever_vms_are_known() {
    let place = Place::new();
    let disk = place.home.pool().join("web/disk.img");
    fs::create_dir_all(disk.parent().unwrap()).unwrap();
    fs::write(&disk, b"QFI\xfb of a guest").unwrap();
    assert!(!is_written_raw(&place.home, &disk).unwrap(), "an import that has not ended");
    fs::write(disk.with_file_name("disk.json"), "{").unwrap();
    let link = place.home.pool().join("../link.img");
    std::os::unix::fs::symlink(&disk, &link).unwrap();
    for path in [&disk, &link] {
        assert!(is_written_raw(&place.home, path).unwrap());
        assert_eq!(format_of_host_disk(&place.home, path, |_| Ok(Format::Qcow2)).unwrap(), Format::Raw);
    }
    // By its path, in the pool of another home.
    let other = Place::new();
    assert!(is_written_raw(&other.home, &disk).unwrap());
    // A user's own files of these names.
    let own = other.home.pool().join("../mine/disk.img");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, QCOW2).unwrap();
    for (mark, text, is_raw) in [
        ("disk.json", r#"{"size": 7}"#, false),
        ("disk.json", "no JSON", false),
        ("removing", "", false),
        ("disk.json", r#"{"schema": "coracle.disk/v1"}"#, true),
    ] {
        let mark = own.with_file_name(mark);
        fs::write(&mark, text).unwrap();
        assert_eq!(is_written_raw(&other.home, &own).unwrap(), is_raw, "{text}");
        fs::remove_file(mark).unwrap();
    }
}
