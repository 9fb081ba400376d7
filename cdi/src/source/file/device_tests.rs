//! Block devices as sources, where this host permits loop devices.

use super::*;
use crate::convert::{Request, prepare};
use crate::permissions::Permissions;
use crate::plan::ConvertOptions;
use crate::run::watch::Watch;
use crate::source::{Options, SourceSpec};
use crate::target::Destination;
use ::tests::loop_device::Loop;
use ::tests::qemu_lock::{self, qemu_lock};
use guard::confine::Use;
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::process::Command;

const SIZE: usize = 4 << 20;
const SECTOR: u64 = 512;

/// A device over a file in the folder.
fn device(folder: &Path, flags: &[&str]) -> Option<Loop> {
    let file = folder.join("backing");
    fs::write(&file, vec![0xAA; SIZE]).unwrap();
    Loop::over(&file, flags)
}

fn writer(device: &Path) -> File {
    File::options().read(true).write(true).open(device).unwrap()
}

#[test]
fn a_device_that_qemu_writes_to_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(device) = device(folder.path(), &[]) else { return };
    for byte in QEMU_WRITES {
        let locked = qemu_lock(&device.0, byte);
        let e = FileSource::open(&device.0).unwrap_err();
        assert!(e.to_string().contains("a running QEMU writes to"), "{e}");
        drop(locked);
    }
    let reads = qemu_lock(&device.0, qemu_lock::READS);
    FileSource::open(&device.0).unwrap().unchanged().unwrap();
    drop(reads);
}

/// Also one that is in the page cache alone when the read ends. One of before the read does not count, whenever
/// it reaches the device.
#[test]
fn a_write_to_a_device_is_noticed_and_a_read_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let Some(device) = device(folder.path(), &[]) else { return };
    let file = writer(&device.0);
    file.write_all_at(b"before", 0).unwrap();
    let source = FileSource::open(&device.0).unwrap();
    file.sync_all().unwrap();
    let mut all = Vec::new();
    source.stream(0).unwrap().read_to_end(&mut all).unwrap();
    FileSource::open(&device.0).unwrap();
    source.unchanged().unwrap();

    file.write_all_at(b"x", 1 << 20).unwrap();
    let e = source.unchanged().unwrap_err();
    assert!(e.to_string().contains("was changed while it was read"), "{e}");
    FileSource::open(&device.0).unwrap().unchanged().unwrap();
}

#[test]
fn a_device_that_is_written_during_its_conversion_fails_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(device) = device(folder.path(), &[]) else { return };
    let target = folder.path().join("disk.img");
    for is_written in [true, false] {
        let (named, goal) = (SourceSpec::Path(device.0.clone()), Destination::File(target.clone()));
        let request = Request::new(named, goal, Options::default(), ConvertOptions::with_threads(1));
        let watch = Arc::new(Watch::default());
        let prepared = prepare(request, &watch).unwrap();
        if is_written {
            writer(&device.0).write_all_at(b"x", 1 << 20).unwrap();
            let e = prepared.run(&watch).unwrap_err();
            assert!(e.to_string().contains("was changed while it was read"), "{e}");
            assert!(!target.exists());
        } else {
            prepared.run(&watch).unwrap();
            assert_eq!(fs::read(&target).unwrap().len(), SIZE);
        }
    }
}

/// A partition has counters of its own.
#[test]
fn a_write_beside_a_partition_does_not_change_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(device) = device(folder.path(), &[]) else { return };
    let file = writer(&device.0);
    let Some(partition) = partition(&device.0, &file, folder.path()) else {
        return eprintln!("skipped: partitions of loop devices cannot be opened here");
    };
    let sequence = |path: &Path| device::sequence(fs::metadata(path).unwrap().rdev());
    assert_eq!(sequence(&partition), sequence(&device.0), "that of the disk");
    let source = FileSource::open(&partition).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    file.sync_all().unwrap();
    source.unchanged().unwrap();
    writer(&partition).write_all_at(b"x", 0).unwrap();
    let e = source.unchanged().unwrap_err();
    assert!(e.to_string().contains("was changed while it was read"), "{e}");
}

/// The node of a new partition in the second half of a device.
fn partition(device: &Path, file: &File, folder: &Path) -> Option<PathBuf> {
    let mut table = [0; SECTOR as usize];
    let half = SIZE as u64 / SECTOR / 2;
    table[450] = 0x83;
    table[454..458].copy_from_slice(&(half as u32).to_le_bytes());
    table[458..462].copy_from_slice(&(half as u32).to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xAA]);
    file.write_all_at(&table, 0).unwrap();
    file.sync_all().unwrap();
    Command::new("partx").arg("--add").arg(device).output().ok()?;
    let name = device.file_name()?.to_str()?;
    let number = fs::read_to_string(format!("/sys/block/{name}/{name}p1/dev")).ok()?;
    let (major, minor) = number.trim().split_once(':')?;
    let node = folder.join("partition");
    let number = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &node, FileType::BlockDevice, mode, number).ok()?;
    (File::open(&node).is_ok() && fs::metadata(&node).ok()?.rdev() == number).then_some(node)
}

#[test]
fn a_confined_reader_of_a_device_reads_its_counters() {
    let folder = tempfile::tempdir().unwrap();
    let Some(device) = device(folder.path(), &[]) else { return };
    let of_device = Permissions::new().file(&device.0);
    for counters in ["/sys/dev/block", "/sys/devices"] {
        assert_eq!(of_device.process().use_of(Path::new(counters)), Some(Use::Read));
    }
}
