//! A file of the host that the launcher makes for a VM: it is begun as `NAME.partial`, the name under which a
//! conversion begins its target, and neither takes a byte from the other.

#![allow(clippy::unwrap_used)]

use api::launcher::{Format, Resolved, Source};
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

/// Its format is not known: only that of a new file is.
#[test]
fn a_file_that_came_where_one_was_to_be_made_is_refused() {
    let place = Place::new();
    fs::write(place.path("disk.img"), b"QFI\xfb").unwrap();
    let said = place.start(SIZE, Some(Source::Absent)).unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Refused, "{}", said.chain());
    assert!(said.chain().contains("was made by another program meanwhile"), "{}", said.chain());
    assert_eq!(fs::read(place.path("disk.img")).unwrap(), b"QFI\xfb");
    fs::remove_file(place.path("disk.img")).unwrap();
    place.start(SIZE, Some(Source::Absent)).unwrap();
    // A launcher that takes the VM over finds the file that was made, as a VM that starts again does.
    place.prepare("disk.img", SIZE, Some(Source::Absent), PrepareMode::TakeOver).unwrap();
    place.make(SIZE).unwrap();
}

/// The conversion would go on behind its last mark, and keep what the guest wrote in front.
#[test]
fn the_unfinished_target_of_a_conversion_is_given_to_no_guest_that_writes() {
    let place = Place::new();
    fs::write(place.path("a.img.partial"), vec![1; 8192]).unwrap();
    fs::write(place.path("a.img.partial.journal"), "marks").unwrap();
    std::os::unix::fs::symlink("a.img.partial", place.path("link")).unwrap();
    for name in ["a.img.partial", "link"] {
        let source = Source::File { path: place.path(name), format: Format::Raw, preallocated: false };
        for source in [Some(source), None] {
            let start = || place.prepare(name, SIZE, source.clone(), PrepareMode::Start(&Hooks::default()));
            let said = start().unwrap_err();
            assert_eq!(said.kind(), ErrorKind::Refused, "{}", said.chain());
            assert!(said.chain().contains("is the unfinished target of a conversion"), "{}", said.chain());
            // A VM that runs goes on.
            place.prepare(name, SIZE, source.clone(), PrepareMode::TakeOver).unwrap();
            fs::rename(place.path("a.img.partial.journal"), place.path("away")).unwrap();
            start().unwrap();
            fs::rename(place.path("away"), place.path("a.img.partial.journal")).unwrap();
        }
    }
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
        self.start(size, None)
    }

    fn start(&self, size: u64, source: Option<Source>) -> Result<(), Error> {
        self.prepare("disk.img", size, source, PrepareMode::Start(&Hooks::default()))
    }

    fn prepare(
        &self,
        name: &str,
        size: u64,
        source: Option<Source>,
        how: PrepareMode<'_>,
    ) -> Result<(), Error> {
        let path: &Path = &self.path(name);
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
        let volumes = source.map(|source| ("data".to_owned(), source)).into_iter().collect();
        prepare(&machine, &Resolved { volumes, ..Resolved::default() }, &root, how).map(drop)
    }
}
