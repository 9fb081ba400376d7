//! Clones that come to their end: the same bytes, the same holes, and no byte of a hole on the way.

use super::*;
use rustix::process::Signal;
use std::process::Command;
use tests::disk::qemu_convert;

#[test]
fn the_disk_and_its_holes_are_the_same_and_holes_are_not_sent() {
    let data = [(0, 300_000), (40 * MIB, 5 * MIB), (700 * MIB + 4096, 8192), (1000 * MIB, 9 * MIB)];
    let origin = Origin::with(1024 * MIB, &data);
    let mut server = origin.serve();
    let volume = tempfile::tempdir().unwrap();
    let job = Import { size: Some(1024 * MIB), ..origin.job(&server.at(), volume.path()) };
    let report = Pod::run(&job).done();
    assert_eq!((report.message.as_str(), report.done), ("Import Complete", 1024 * MIB));
    assert!(tests::disk::same(&origin.disk(), &disk(volume.path())));
    let (before, after) = (origin.allocated(), allocated(&disk(volume.path())));
    assert!(after <= before + 256 * 1024, "{before} bytes became {after}");
    assert_eq!(names(volume.path()), ["disk.img"]);
    let (sent, data) = (sent(&mut server), data.iter().map(|(_, len)| len).sum::<u64>());
    assert!(sent <= data + data / 10 + MIB, "{sent} bytes for {data}");
    server.signal(Signal::TERM);
    let ended = server.wait();
    assert_eq!(ended.code, Some(143), "{}", ended.log);
    assert!(ended.log.contains("confined: "), "{}", ended.log);
}

#[test]
fn whatever_a_guest_wrote_at_the_beginning_of_its_disk_is_copied_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("inner.raw");
    std::fs::write(&raw, Noise::new(1).bytes(300_000)).unwrap();
    let qcow2 = std::fs::read(qemu_convert("-O qcow2", &raw, &folder.path().join("inner.qcow2"))).unwrap();
    let gzip: Vec<u8> = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &Noise::new(2).bytes(100_000)].concat();
    let with_backing = {
        let mut bytes = qcow2.clone();
        bytes[8..16].copy_from_slice(&1024_u64.to_be_bytes());
        bytes[16..20].copy_from_slice(&11_u32.to_be_bytes());
        bytes[1024..1035].copy_from_slice(b"/etc/shadow");
        bytes
    };
    for mut content in [qcow2, gzip, with_backing, b"a tar, perhaps".repeat(900)] {
        // Disks are of whole sectors.
        content.resize(content.len().next_multiple_of(512), 0);
        let origin = Origin::new();
        std::fs::write(origin.disk(), &content).unwrap();
        let mut server = origin.serve();
        let volume = tempfile::tempdir().unwrap();
        Pod::run(&origin.job(&server.at(), volume.path())).done();
        assert!(std::fs::read(disk(volume.path())).unwrap() == content);
    }
}

#[test]
fn a_volume_that_is_too_small_for_the_disk_is_told_before_a_byte_is_moved() {
    let origin = Origin::with(64 * MIB, &[(0, 8 * MIB)]);
    let mut server = origin.serve();
    let volume = tempfile::tempdir().unwrap();
    let job = Import { size: Some(32 * MIB), ..origin.job(&server.at(), volume.path()) };
    let report = Pod::run(&job).failed("DataVolumeTooSmall");
    assert!(report.message.contains("67108864"), "{report:?}");
    assert!(sent(&mut server) < 2 * MIB && names(volume.path()).is_empty());
}

/// A block device whose content is that of a file.
struct Device(PathBuf);

impl Device {
    /// `None` where there are none.
    fn of(file: &Path) -> Option<Device> {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok();
        let made = made.filter(|made| made.status.success())?;
        Some(Device(String::from_utf8(made.stdout).expect("a path").trim().into()))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn a_block_device_is_cloned_and_has_another_version_when_it_was_written() {
    let origin = Origin::with(16 * MIB, &[(MIB, 3 * MIB)]);
    let Some(device) = Device::of(&origin.disk()) else {
        eprintln!("skipped: no loop devices here");
        return;
    };
    let etag = |server: &mut Pod| {
        let mut connection = origin.connect(&server.at());
        connection.ask("HEAD /disk", &[], b"").is(200).header("etag").to_owned()
    };
    let serve = || origin.serve_with(Target::Device(device.0.clone()), &[]);
    let mut server = serve();
    let volume = tempfile::tempdir().unwrap();
    Pod::run(&origin.job(&server.at(), volume.path())).done();
    assert!(tests::disk::same(&origin.disk(), &disk(volume.path())));
    let first = etag(&mut server);
    let mut next = serve();
    assert_eq!(etag(&mut next), first, "the next pod goes on");
    let shared = || {
        let disk = Target::Device(device.0.clone());
        origin.serve_job(&Serve { disk, client: CLIENT.to_owned(), is_shared: true }, &[])
    };
    let (mut one, mut another) = (shared(), shared());
    let of_one = etag(&mut one);
    assert_eq!(etag(&mut one), of_one, "a connection that broke goes on");
    assert_ne!(etag(&mut another), of_one, "another node may have written between two pods");
    let file = File::options().write(true).open(&device.0).unwrap();
    file.write_all_at(b"other", 2 * MIB).unwrap();
    file.sync_all().unwrap();
    assert_ne!(etag(&mut next), first);
    assert_ne!(etag(&mut server), first);
}

#[test]
fn what_is_no_disk_is_not_served() {
    let origin = Origin::with(MIB, &[]);
    let failed = |target: Target, words: &str| {
        let report = origin.serve_with(target, &[]).wait().failed("Failed");
        assert!(report.message.contains(words), "{report:?}");
    };
    let link = origin.volume.path().join("link.img");
    std::os::unix::fs::symlink(origin.secret.path().join("tls.key"), &link).unwrap();
    failed(Target::File(link), "is a link; the disk itself must be there");
    failed(Target::File(origin.volume.path().join("none.img")), "there is no file");
    failed(Target::Folder(origin.volume.path().to_owned()), "a clone is of a disk");
    failed(Target::File(origin.volume.path().to_owned()), "a folder");
}
