//! Raw disks whose guest wrote the header of a qcow2 image, while their VM is there and after it is gone.

use super::*;
use crate::host_disks::{format_of_host_disk, is_known_raw, is_written_raw, note_raw, recorded};
use crate::host_file::files;
use crate::record::Record;
use api::launcher::{Resolved, Sync};
use serde_json::json;
use std::fs::{self, File};

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

    fn image(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        let mut bytes = QCOW2.to_vec();
        bytes.resize(8192, 0);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The saved record of a VM with the disk in this format; without one, its launcher makes the disk.
    fn record(&self, format: Option<Format>) -> Record {
        let source =
            format.map(|format| Source::File { path: self.disk.clone(), format, preallocated: false });
        let volumes = source.into_iter().map(|source| ("root".to_owned(), source)).collect();
        let resolved = Resolved { volumes, ..Resolved::default() };
        let volumes = json!([{"name": "root", "hostDisk": {"path": self.disk, "type": "DiskOrCreate"}}]);
        let sync = Sync { vmi: json!({"spec": {"volumes": volumes}}), generation: 1, resolved };
        let mut record = Record::new("vm", "disk.img", true, sync, Path::new("/launcher"));
        record.host_disks = recorded(&record, files(&record.sync.vmi).unwrap());
        self.save(&record);
        record
    }

    fn save(&self, record: &Record) {
        fs::create_dir_all(self.home.vm("vm")).unwrap();
        record.save(&self.home).unwrap();
    }

    fn forget(&self) {
        crate::vm_folder::forget(&self.home, "vm", self.home.lock_vm("vm").unwrap()).unwrap();
    }

    fn knows(&self, path: &Path) -> bool {
        is_known_raw(&self.home, path, &mut None).unwrap()
    }

    fn refusal(&self, path: &Path) -> String {
        is_known_raw(&self.home, path, &mut None).unwrap_err().to_string()
    }
}

#[test]
fn a_raw_disk_of_a_vm_is_known_under_any_path() {
    let place = Place::new();
    place.image("disk.img");
    place.record(Some(Format::Raw));
    let link = place.folder.path().join("link");
    std::os::unix::fs::symlink("disk.img", &link).unwrap();
    assert!(place.knows(&place.disk) && place.knows(&link));
    assert!(!place.knows(&place.image("other.img")) && !place.knows(Path::new("/nowhere")));
    fs::create_dir_all(place.home.vm("damaged")).unwrap();
    fs::write(place.home.vm("damaged").join("vm.json"), "").unwrap();
    let mut unreadable = None;
    assert!(!is_known_raw(&place.home, &place.folder.path().join("other.img"), &mut unreadable).unwrap());
    assert!(unreadable.unwrap().to_string().contains("damaged/vm.json"));
}

/// `run --rm --disk data.img`, twice.
#[test]
fn a_raw_disk_is_known_after_its_vm_is_removed() {
    let place = Place::new();
    place.image("disk.img");
    place.record(Some(Format::Raw));
    place.forget();
    assert!(place.knows(&place.disk));
    assert!(!place.knows(&place.image("other.img")));
    let moved = place.folder.path().join("moved.img");
    fs::rename(&place.disk, &moved).unwrap();
    assert!(place.knows(&moved));
}

#[test]
fn a_qcow2_disk_is_told_by_its_first_bytes() {
    let place = Place::new();
    place.image("disk.img");
    place.record(Some(Format::Qcow2));
    assert!(!place.knows(&place.disk));
    place.forget();
    assert!(!place.knows(&place.disk));
}

/// Neither version recorded the file: the one that is at the path now is not taken for a raw disk, nor for an image.
#[test]
fn what_lies_at_the_path_of_a_raw_disk_is_refused_if_it_begins_as_a_qcow2() {
    let place = Place::new();
    place.image("disk.img");
    let mut record = place.record(Some(Format::Raw));
    record.host_disks.clear();
    place.save(&record);
    assert!(place.refusal(&place.disk).contains("lies where a VM had a raw disk"));
    place.forget();
    assert!(place.refusal(&place.disk).contains("lies where a VM had a raw disk"));
    fs::write(&place.disk, [0; 8192]).unwrap();
    assert!(!place.knows(&place.disk));
    place.image("disk.img");
    note_raw(&place.home, &place.disk).unwrap();
    assert!(place.knows(&place.disk), "its user knows more");
    assert_eq!(RawDisks::read(&place.home).unwrap().disks.len(), 1);
    fs::rename(place.image("new.img"), &place.disk).unwrap();
    assert!(!place.knows(&place.disk), "another file");
}

/// `run --disk new.img:16MiB` that is killed before it records the file that its launcher made.
#[test]
fn a_disk_that_the_launcher_made_for_a_killed_start_is_no_qcow2() {
    let place = Place::new();
    let mut record = place.record(None);
    assert!(!place.knows(&place.disk));
    place.image("disk.img");
    assert!(place.refusal(&place.disk).contains("lies where a VM had a raw disk"));
    let file = HostFile::find(&place.disk).unwrap().unwrap();
    record.host_disks.insert("root".to_owned(), crate::host_file::HostDisk { file, format: Format::Raw });
    place.save(&record);
    assert!(place.knows(&place.disk));
    place.forget();
    assert!(place.knows(&place.disk));
}

/// The second `coracle run installer.iso` has a CD-ROM, too.
#[test]
fn an_image_in_a_cdrom_is_no_raw_disk() {
    let place = Place::new();
    place.image("disk.img");
    let mut record = place.record(Some(Format::Raw));
    assert!(place.knows(&place.disk));
    record.sync.vmi["spec"]["domain"]["devices"]["disks"] =
        json!([{"name": "root", "cdrom": {"bus": "sata"}}]);
    place.save(&record);
    assert!(!place.knows(&place.disk));
    record.host_disks.clear();
    place.save(&record);
    assert!(!place.knows(&place.disk));
    place.forget();
    assert!(!place.knows(&place.disk));
}

/// `readonly` in a manifest.
#[test]
fn an_image_that_is_only_read_is_no_raw_disk() {
    for target in ["disk", "lun"] {
        let place = Place::new();
        place.image("disk.img");
        let mut record = place.record(Some(Format::Raw));
        let mut disk = json!({"name": "root", target: {"bus": "scsi", "readonly": false}});
        record.sync.vmi["spec"]["domain"]["devices"]["disks"] = json!([disk]);
        place.save(&record);
        assert!(place.knows(&place.disk));
        disk[target]["readonly"] = true.into();
        record.sync.vmi["spec"]["domain"]["devices"]["disks"] = json!([disk]);
        place.save(&record);
        assert!(!place.knows(&place.disk));
        place.forget();
        assert!(!place.home.raw_disks().exists());
    }
}

/// Earlier versions had the files of CD-ROMs in the list. As for the format, these are raw disks still.
#[test]
fn an_entry_of_an_earlier_version_does_not_say_that_a_guest_could_write() {
    let place = Place::new();
    place.image("disk.img");
    note_raw(&place.home, &place.disk).unwrap();
    assert!(is_written_raw(&place.home, &place.disk).unwrap());
    let mut list = serde_json::to_value(RawDisks::read(&place.home).unwrap()).unwrap();
    list["disks"][0].as_object_mut().unwrap().remove("is_writable").unwrap();
    fs::write(place.home.raw_disks(), list.to_string()).unwrap();
    assert!(place.knows(&place.disk) && !is_written_raw(&place.home, &place.disk).unwrap());
    place.record(Some(Format::Raw));
    assert!(is_written_raw(&place.home, &place.disk).unwrap());
    place.forget();
    assert!(is_written_raw(&place.home, &place.disk).unwrap());
    assert_eq!(RawDisks::read(&place.home).unwrap().disks.len(), 1);
}

/// Two file systems give one number to a file of each.
#[test]
fn a_file_of_the_same_number_is_another_one_if_both_exist() {
    let place = Place::new();
    let [here, there] = ["here", "there"].map(|name| file_at(&place.image(name)).unwrap().unwrap());
    for (is_sure, at_its_path, wanted) in [
        (false, Some((there, true)), Relation::Other),
        (false, Some((here, true)), Relation::Same),
        (false, Some((there, false)), Relation::Possible),
        (false, None, Relation::Possible),
        // A snapshot of the file system has the bytes of the guest, too.
        (true, Some((there, true)), Relation::Same),
        (true, None, Relation::Same),
    ] {
        assert_eq!(relation(is_sure, here, at_its_path), wanted, "{is_sure} {at_its_path:?}");
    }
}

/// A network file system without times of birth, where the number is that of a disk that is gone.
#[test]
fn a_qcow2_with_the_number_of_another_file_is_no_raw_disk() {
    let place = Place::new();
    let path = place.image("disk.img");
    let number = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap());
    let list = |path: &Path, size: u64| {
        let disk = json!({"path": path, "file": {"id": {"ino": number}, "size": size}, "is_writable": true});
        place.home.make(&place.home.pool()).unwrap();
        let list = json!({"schema": SCHEMA, "disks": [disk]});
        fs::write(place.home.raw_disks(), list.to_string()).unwrap();
    };
    let gone = place.folder.path().join("gone.img");
    list(&gone, 4096);
    assert!(!place.knows(&path));
    list(&path, 4096);
    let e = place.refusal(&path);
    assert!(e.contains("had 4096 bytes as a raw disk"), "{e}");
    let copy = e.find("run a copy of it").unwrap();
    assert!(copy < e.find("--raw").unwrap(), "{e}");
    // Its guest wrote the header, and it was moved.
    list(&gone, 8192);
    assert!(place.knows(&path));
}

/// Its path is ours, so that the file there is the disk.
#[test]
fn a_disk_of_the_pool_is_known_by_its_path() {
    let place = Place::new();
    place.image("disk.img");
    let mut record = place.record(Some(Format::Raw));
    record.host_disks.clear();
    record.sync.vmi["spec"]["volumes"] = json!([{"name": "root", "dataVolume": {"name": "d"}}]);
    place.save(&record);
    assert!(place.knows(&place.disk));
    place.forget();
    assert!(place.knows(&place.disk));
}

/// Of two records with one file, the one that does not know it takes nothing away from the other.
#[test]
fn a_recorded_disk_stays_so_beside_an_unrecorded_one() {
    let place = Place::new();
    place.image("disk.img");
    note_raw(&place.home, &place.disk).unwrap();
    let mut record = place.record(Some(Format::Raw));
    record.host_disks.clear();
    place.save(&record);
    assert!(place.knows(&place.disk));
    place.forget();
    assert!(place.knows(&place.disk));
}

/// A VM that had the disk before it grew is removed after the one that has it now.
#[test]
fn a_raw_disk_is_known_with_each_size_that_it_had() {
    let place = Place::new();
    place.image("disk.img");
    place.record(Some(Format::Raw));
    File::options().write(true).open(&place.disk).unwrap().set_len(16384).unwrap();
    assert!(place.refusal(&place.disk).contains("had 8192 bytes as a raw disk and has 16384"));
    note_raw(&place.home, &place.disk).unwrap();
    assert!(place.knows(&place.disk));
    place.forget();
    assert!(place.knows(&place.disk));
}

#[test]
fn kept_disks_whose_files_are_gone_are_dropped_once_there_are_many() {
    let place = Place::new();
    let file = HostFile::find(&place.image("disk.img")).unwrap().unwrap();
    let gone = |i| RawDisk::recorded(format!("/nowhere/{i}").into(), file.clone());
    let disks = (0..MANY).map(gone).collect();
    let many = RawDisks {
        schema: SCHEMA.into(),
        disks,
        devices: vec![],
        images: vec![],
        homes: vec![],
        home_entries: vec![],
    };
    place.home.make(&place.home.pool()).unwrap();
    many.write(&place.home.raw_disks()).unwrap();
    place.image("disk.img.new");
    fs::rename(place.folder.path().join("disk.img.new"), &place.disk).unwrap();
    place.record(Some(Format::Raw));
    place.forget();
    assert_eq!(RawDisks::read(&place.home).unwrap().disks.len(), 1);
    assert!(place.knows(&place.disk));
}

/// Overlayfs gave the disk another time of birth, and the header of the guest was believed.
#[test]
fn a_file_with_the_number_of_a_raw_disk_at_its_path_may_be_that_disk() {
    use std::os::unix::fs::MetadataExt as _;
    let place = Place::new();
    fs::write(&place.disk, [&b"QFI\xfb\0\0\0\x03"[..], &[0; 504]].concat()).unwrap();
    let number = fs::metadata(&place.disk).unwrap().ino();
    let noted = |number: u64| {
        let id = json!({"ino": number, "born": [1, 2]});
        let disk = json!({"path": place.disk, "file": {"id": id, "size": 512}, "is_writable": true});
        let list = json!({"schema": SCHEMA, "disks": [disk]});
        fs::create_dir_all(place.home.raw_disks().parent().unwrap()).unwrap();
        fs::write(place.home.raw_disks(), list.to_string()).unwrap();
    };
    let told = || format_of_host_disk(&place.home, &place.disk, |_| Ok(Format::Qcow2));
    noted(number);
    let e = told().unwrap_err().to_string();
    assert!(e.contains("lies where a VM had a raw disk, and may be that disk") && e.contains("--raw"), "{e}");
    // `run` takes another file at the path, which its user names.
    noted(number + 1);
    assert_eq!(told().unwrap(), Format::Qcow2);
}
