//! A file of the host that the launcher makes for a VM: it is begun as `NAME.partial`, the name under which a
//! conversion begins its target, and neither takes a byte from the other.

#![allow(clippy::unwrap_used)]

use api::launcher::Resolved;
use api::machine::Machine;
use launcher::error::{Error, ErrorKind};
use launcher::hooks::Hooks;
use launcher::root::Root;
use launcher::vm::prepare::{PrepareMode, prepare};
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const SIZE: u64 = 8192;

#[test]
fn a_file_that_another_process_fills_is_not_touched() {
    let place = Place::new();
    let begun = File::create(place.path("disk.img.partial")).unwrap();
    begun.set_len(SIZE).unwrap();
    fs::write(place.path("disk.img.partial.journal"), "marks").unwrap();
    begun.lock().unwrap();
    let said = place.make(SIZE).unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Busy, "{}", said.chain());
    assert!(said.chain().contains("disk.img.partial is in use: it is locked by another"), "{}", said.chain());
    assert_eq!(place.names(), ["disk.img.partial", "disk.img.partial.journal"]);
    assert_eq!(begun.metadata().unwrap().len(), SIZE);
    drop(begun);
    place.make(SIZE).unwrap();
}

#[test]
fn a_file_that_holds_data_is_named_and_left() {
    let place = Place::new();
    fs::write(place.path("disk.img.partial"), "a whole disk").unwrap();
    fs::write(place.path("disk.img.partial.journal"), "marks").unwrap();
    let said = place.make(SIZE).unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Refused, "{}", said.chain());
    assert!(said.chain().contains("disk.img.partial holds data of"), "{}", said.chain());
    assert_eq!(fs::read(place.path("disk.img.partial")).unwrap(), b"a whole disk");
    assert_eq!(place.names(), ["disk.img.partial", "disk.img.partial.journal"]);
}

/// Its creator may have it open, and a journal is followed by the number and the birth of its file.
#[test]
fn a_file_without_data_is_replaced_by_another_one_and_its_journal_removed() {
    let place = Place::new();
    let left = File::create(place.path("disk.img.partial")).unwrap();
    left.set_len(SIZE).unwrap();
    for name in ["disk.img.partial.journal", "disk.img.partial.journal~"] {
        fs::write(place.path(name), "marks").unwrap();
    }
    place.make(SIZE).unwrap();
    let made = fs::metadata(place.path("disk.img")).unwrap();
    assert_ne!(made.ino(), left.metadata().unwrap().ino());
    assert_eq!((made.len(), made.mode() & 0o022), (SIZE, 0));
    assert_eq!(place.names(), ["disk.img"]);
}

#[test]
fn a_name_that_is_not_a_file_is_refused() {
    let place = Place::new();
    fs::write(place.path("precious"), "").unwrap();
    std::os::unix::fs::symlink(place.path("precious"), place.path("disk.img.partial")).unwrap();
    let said = place.make(SIZE).unwrap_err();
    assert!(said.chain().contains("disk.img.partial is in the way"), "{}", said.chain());
    assert_eq!(place.names(), ["disk.img.partial", "precious"]);
}

#[test]
fn a_file_that_cannot_have_its_size_is_not_there_for_the_next_start() {
    let place = Place::new();
    place.make(i64::MAX as u64 - 511).unwrap_err();
    assert!(place.names().is_empty());
    place.make(SIZE).unwrap();
    assert_eq!(fs::metadata(place.path("disk.img")).unwrap().len(), SIZE);
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("host")).unwrap();
        Place(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("host").join(name)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.0.path().join("host"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Prepares a VM with a hostDisk of this size.
    fn make(&self, size: u64) -> Result<(), Error> {
        let path: &Path = &self.path("disk.img");
        let vmi = json!({
            "metadata": {"name": "a", "namespace": "test"},
            "spec": {
                "domain": {
                    "memory": {"guest": "128Mi"},
                    "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                    "devices": {"disks": [{"name": "data", "disk": {"bus": "virtio"}}]},
                },
                "volumes": [{
                    "name": "data",
                    "hostDisk": {"path": path, "type": "DiskOrCreate", "capacity": size.to_string()},
                }],
            },
        });
        let machine = Machine::check_again(&api::wire::read(vmi).unwrap()).unwrap();
        let root = Root::open(&self.0.path().join("root"), self.0.path()).unwrap();
        prepare(&machine, &Resolved::default(), &root, PrepareMode::Start(&Hooks::default())).map(drop)
    }
}
