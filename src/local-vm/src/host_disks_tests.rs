//! Formats of hostDisks, with real files that are replaced, written over and made larger.

use super::*;
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
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        Place { disk: folder.path().join("disk.img"), folder }
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
}

/// The format that the next start tells the launcher.
fn next(record: &mut Record) -> Result<Format> {
    // A start reads its record.
    *record = serde_json::from_str(&serde_json::to_string(record).unwrap()).unwrap();
    refresh(record, usable)?;
    match &record.sync.resolved.volumes["root"] {
        Source::File { format, .. } => Ok(*format),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_raw_disk_stays_raw_whatever_its_guest_writes() {
    let place = Place::new();
    place.image("disk.img", &[], 8192);
    let mut record = place.ran(Format::Raw);
    let guest = File::options().write(true).open(&place.disk).unwrap();
    for head in [QCOW2, &[0x1f, 0x8b, 8, 0], b"KDMV"] {
        guest.write_all_at(head, 0).unwrap();
        for _ in 0..2 {
            assert_eq!(next(&mut record).unwrap(), Format::Raw);
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
    let e = next(&mut record).unwrap_err().to_string();
    assert!(e.contains("disk.img was a raw disk") && e.contains("was another file"), "{e}");
    assert!(e.contains("'coracle run' again"), "{e}");
}

#[test]
fn an_image_that_is_copied_over_a_raw_disk_is_not_opened_as_raw() {
    let place = Place::new();
    place.image("disk.img", &[], 8192);
    let mut record = place.ran(Format::Raw);
    fs::copy(place.image("new.img", QCOW2, 4096), &place.disk).unwrap();
    let e = next(&mut record).unwrap_err().to_string();
    assert!(e.contains("had 8192 bytes") && e.contains("truncate -s 8192"), "{e}");
}

#[test]
fn a_raw_disk_that_is_replaced_or_grows_is_used_on() {
    let place = Place::new();
    place.image("disk.img", &[], 8192);
    let mut record = place.ran(Format::Raw);
    fs::rename(place.image("new.img", &[], 4096), &place.disk).unwrap();
    assert_eq!(next(&mut record).unwrap(), Format::Raw);
    File::options().write(true).open(&place.disk).unwrap().set_len(16384).unwrap();
    assert_eq!(next(&mut record).unwrap(), Format::Raw);
    // From now on it is the disk of this size.
    File::options().write(true).open(&place.disk).unwrap().write_all_at(QCOW2, 0).unwrap();
    assert_eq!(next(&mut record).unwrap(), Format::Raw);
}

/// A guest encrypts its disk, and its user makes it larger.
#[test]
fn a_raw_disk_that_grows_is_raw_whatever_its_guest_wrote_in_front() {
    for head in [&[0x1f, 0x8b, 8, 0][..], b"LUKS\xba\xbe\0\x01", b"KDMV\x01\0\0\0"] {
        let place = Place::new();
        place.image("disk.img", head, 8192);
        let mut record = place.ran(Format::Raw);
        File::options().write(true).open(&place.disk).unwrap().set_len(16384).unwrap();
        assert_eq!(next(&mut record).unwrap(), Format::Raw);
    }
}

#[test]
fn what_takes_the_place_of_a_qcow2_is_told_by_its_first_bytes() {
    let place = Place::new();
    place.image("disk.img", QCOW2, 8192);
    let mut record = place.ran(Format::Qcow2);
    assert_eq!(next(&mut record).unwrap(), Format::Qcow2);
    fs::copy(place.image("copied.img", &[], 4096), &place.disk).unwrap();
    assert_eq!(next(&mut record).unwrap(), Format::Raw);
    fs::rename(place.image("disk.img.new", QCOW2, 8192), &place.disk).unwrap();
    next(&mut record).unwrap_err();
}

#[test]
fn a_disk_that_the_launcher_makes_is_known_as_raw() {
    let place = Place::new();
    let mut record = place.record(Resolved::default());
    assert!(!add_made(&mut record).unwrap());
    place.image("disk.img", &[], 8192);
    assert!(add_made(&mut record).unwrap());
    assert!(!add_made(&mut record).unwrap());
    fs::rename(place.image("new.img", QCOW2, 8192), &place.disk).unwrap();
    refresh(&mut record, usable).unwrap_err();
    fs::remove_file(&place.disk).unwrap();
    refresh(&mut record, usable).unwrap();
    assert_eq!(record.host_disks.len(), 0, "the launcher makes it anew");
}

/// An older record has no files, and its disk may have a header that its guest wrote.
#[test]
fn a_record_of_an_earlier_version_keeps_its_format() {
    let place = Place::new();
    place.image("disk.img", QCOW2, 8192);
    let mut record = place.ran(Format::Raw);
    record.host_disks.clear();
    assert_eq!(next(&mut record).unwrap(), Format::Raw);
    assert_eq!(record.host_disks["root"].format, Format::Raw);
}
