//! A device that fails writes: Linux reports such an error once, and keeps the pages as if they had been
//! written.

use super::held::{has_mark, is_held, signal};
use super::{PROGRAM, done, is_long, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tests::coracle::Ran;
use tests::disk::Noise;
use tests::failing_disk::{FailingDisk, evict, request_pages};
use tests::http::{Behaviour, Server};
use tests::place::Place;

/// Size of a disk that does not compress; the file system's metadata fits beside it.
const SIZE: usize = 20 << 20;
/// Numbers of bytes that can still be written when an import begins.
const ROOM: [u64; 6] = [1 << 20, 3 << 20, 6 << 20, 9 << 20, 13 << 20, 17 << 20];

fn place(seed: u64) -> Place {
    let place = Place::empty(PROGRAM);
    std::fs::write(place.path("disk.raw"), Noise::new(seed).bytes(SIZE)).unwrap();
    place
}

/// The bytes on the disk, read past the page cache.
fn direct(path: &Path) -> Vec<u8> {
    let from = format!("if={}", path.display());
    let output = Command::new("dd").args([&from, "iflag=direct", "bs=1M", "status=none"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// First and last offset at which two disks differ, and true if the bytes there read as zeros.
fn other_bytes(there: &[u8], disk: &[u8]) -> Option<(usize, usize, bool)> {
    assert_eq!(there.len(), disk.len());
    let differs = |at: &usize| there[*at] != disk[*at];
    let (first, last) = ((0..disk.len()).find(differs)?, (0..disk.len()).rev().find(differs)?);
    Some((first, last, there[first..=last].iter().all(|&byte| byte == 0)))
}

/// Imports to a disk that fails after the first mark and then recovers: the same command completes the disk.
fn fails_and_goes_on(place: &Place, source: &str, words: &[&str]) -> Option<()> {
    let case = format!("{source} {words:?}");
    let disk = FailingDisk::new()?;
    let target = disk.path().join("out.img");
    let args = [&["convert", "--json", source, text(&target)], words].concat();
    let failed = fails_behind_a_mark(place, &args, &disk, &target);
    assert_eq!(failed.code, 1, "{case}: {}", failed.err);
    assert!(!target.exists(), "{case}: a part of a disk");
    disk.heal();
    let ran = place.run(&args);
    assert_eq!(ran.code, 0, "{case}: {} behind {}", ran.err, failed.err);
    disk.remount();
    let resumed_at = &ran.json()["resumed_at"];
    let wrong = other_bytes(&direct(&target), &place.bytes("disk.raw"));
    assert_eq!(wrong, None, "{case}, gone on with at {resumed_at}: exit code 0");
    assert!(resumed_at.as_u64() > Some(0), "{case}: the good mark is lost: {}", ran.err);
    Some(())
}

/// Starts a run, and stops it at a mark while its disk begins to fail. A run that ends before gets another
/// attempt.
fn fails_behind_a_mark(place: &Place, args: &[&str], disk: &FailingDisk, target: &Path) -> Ran {
    for _ in 0..50 {
        let mut command = place.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !has_mark(target) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let is_held = is_held(child.id());
        if is_held {
            disk.fail();
            signal(child.id(), "-CONT");
        }
        let ran = Ran::of(child.wait_with_output().unwrap());
        if ran.code != 0 {
            return ran;
        }
        // All bytes had been written before.
        if is_held {
            disk.heal();
        }
        assert_eq!(other_bytes(&direct(target), &place.bytes("disk.raw")), None);
        std::fs::remove_file(target).unwrap();
    }
    panic!("no run can be held behind a mark");
}

#[test]
fn an_import_that_a_device_failed_goes_on_from_its_last_good_mark() {
    let place = place(51);
    place.qcow2("disk.qcow2", "");
    place.shell("split -b 1M --filter='zstd -q -1' disk.raw > disk.raw.zst");
    let slow = Behaviour { rate: Some(2 << 20), ..Behaviour::default() };
    let server = Server::start(place.bytes("disk.qcow2"), slow);
    let url = server.url("/disk.qcow2");
    let quick = ["--journal-every", "2"];
    for (source, words) in [
        ("disk.raw", &["--journal-every", "2", "--threads", "1"][..]),
        ("disk.qcow2", &quick),
        ("disk.raw.zst", &quick),
        (&url, &quick),
        (&url, &["--verify"]),
    ] {
        for _ in 0..if is_long() { 8 } else { 2 } {
            if fails_and_goes_on(&place, source, words).is_none() {
                return;
            }
        }
    }
}

/// A loop device over a sparse file on a tmpfs.
struct Device {
    folder: tempfile::TempDir,
    name: Option<String>,
}

impl Device {
    /// A new device; `None`, with the reason printed, if the host has none.
    fn new() -> Option<Device> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={}", SIZE + (4 << 20));
        if !done("mount", &["-t", "tmpfs", "-o", &size, "none", text(folder.path())]) {
            println!("left out: a tmpfs needs root");
            return None;
        }
        let mut device = Device { folder, name: None };
        let file = device.folder.path().join("back");
        std::fs::File::create(&file).unwrap().set_len(SIZE as u64).unwrap();
        let output = Command::new("losetup").args(["--find", "--show", text(&file)]).output().ok()?;
        if !output.status.success() {
            println!("left out: no loop device can be had here");
            return None;
        }
        let name = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        request_pages(&name);
        device.name = Some(name);
        Some(device)
    }

    fn balloon(&self) -> PathBuf {
        self.folder.path().join("balloon")
    }

    /// Limits the number of bytes that can be written from now on.
    fn fail_behind(&self, room: usize) {
        let bytes = (SIZE + (4 << 20)).saturating_sub(room);
        std::fs::write(self.balloon(), vec![1; bytes]).unwrap();
    }

    fn heal(&self) {
        std::fs::remove_file(self.balloon()).unwrap();
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            done("losetup", &["--detach", name]);
        }
        done("umount", &["-l", text(self.folder.path())]);
    }
}

/// A device that loses bytes and says nothing would show faults that are the kernel's.
#[test]
fn the_devices_of_these_tests_tell_each_write_that_they_lose() {
    let source = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(source.path(), Noise::new(56).bytes(64 << 10)).unwrap();
    let from = format!("if={}", source.path().display());
    for room in [0, 4 << 10, 8 << 10, 60 << 10] {
        let Some(device) = Device::new() else { return };
        let name = device.name.as_deref().unwrap();
        device.fail_behind(room);
        let to = format!("of={name}");
        let whole = ["bs=64k", "count=1", "oflag=direct", "conv=notrunc,fsync", "status=none"];
        assert!(
            !done("dd", &[&[from.as_str(), to.as_str()], &whole[..]].concat()),
            "room for {room}: success"
        );
        assert_ne!(
            other_bytes(&direct(Path::new(name))[..64 << 10], &std::fs::read(source.path()).unwrap()),
            None
        );
    }
    // One whose pages are there in part. ext4 keeps up to 64 KiB of blocks for a small file, which are there too.
    let Some(disk) = FailingDisk::new() else { return };
    std::fs::write(source.path(), Noise::new(58).bytes(1 << 20)).unwrap();
    let file = disk.path().join("file");
    std::fs::write(&file, Noise::new(57).bytes(8 << 10)).unwrap();
    disk.fail();
    let to = format!("of={}", file.display());
    assert!(!done("dd", &[&from, &to, "bs=1M", "count=1", "conv=notrunc,fsync", "status=none"]), "success");
}

#[test]
fn a_device_that_failed_a_write_never_ends_an_import_well() {
    let place = place(52);
    place.qcow2("disk.qcow2", "");
    for room in ROOM {
        let Some(device) = Device::new() else { return };
        let name = device.name.as_deref().unwrap();
        device.fail_behind(usize::try_from(room).unwrap());
        let args = ["convert", "-q", "disk.qcow2", name];
        place.run(&args).refused(1, name);
        device.heal();
        place.run(&args).ok();
        let wrong = other_bytes(&direct(Path::new(name)), &place.bytes("disk.raw"));
        assert_eq!(wrong, None, "room for {room}: exit code 0");
    }
}

#[test]
fn a_device_is_not_blamed_for_what_another_program_left_unwritten() {
    let place = place(54);
    place.qcow2("disk.qcow2", "");
    let Some(device) = Device::new() else { return };
    let name = device.name.as_deref().unwrap();
    device.fail_behind(1 << 20);
    // The program never syncs, and so gets no error.
    done("dd", &["if=/dev/urandom", &format!("of={name}"), "bs=1M", "count=8", "conv=notrunc"]);
    device.heal();
    place.run(&["convert", "-q", "disk.qcow2", name]).ok();
    assert_eq!(other_bytes(&direct(Path::new(name)), &place.bytes("disk.raw")), None);
}

/// Clusters without a known place wait in an unnamed file, which is never synced.
fn loses_what_waits_in(folder: &Path, disk: &FailingDisk, place: &Place) {
    disk.fail();
    let image = place.bytes("disk.qcow2");
    // To a pipe, a qcow2 goes through a disk in the temporary folder.
    let mut command = place.command(&["convert", "-", "-"]);
    command.env("TMPDIR", folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &image[..image.len() / 2]).unwrap();
    let scratch = waits_for_scratch(folder, child.id(), image.len() as u64 / 4);
    let lost = std::fs::File::open(&scratch).unwrap().sync_all();
    lost.expect_err("the device fails writes");
    evict(&scratch);
    disk.heal();
    std::io::Write::write_all(&mut input, &image[image.len() / 2..]).unwrap();
    drop(input);
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert!(ran.code == 1 || ran.out == place.bytes("disk.raw"), "exit code {}, and other bytes", ran.code);
    ran.refused(1, "temporary");
}

#[test]
fn bytes_that_waited_beside_the_target_and_were_lost_there_are_not_written_into_it() {
    let place = place(53);
    place.qcow2("disk.qcow2", "");
    let Some(disk) = FailingDisk::new() else { return };
    loses_what_waits_in(disk.path(), &disk, &place);
}

/// The root file system of a container is an overlay; its files are not those of the disk below.
#[test]
fn bytes_that_waited_on_an_overlay_and_were_lost_below_it_are_not_written_into_the_target() {
    let place = place(55);
    place.qcow2("disk.qcow2", "");
    let Some(disk) = FailingDisk::new() else { return };
    let Some(overlay) = Overlay::over(disk.path()) else { return };
    loses_what_waits_in(overlay.0.path(), &disk, &place);
}

/// An overlay file system whose upper folder is on a disk.
struct Overlay(tempfile::TempDir);

impl Overlay {
    /// An overlay; `None`, with the reason printed, if the host has none.
    fn over(disk: &Path) -> Option<Overlay> {
        let [lower, upper, work] = ["lower", "upper", "work"].map(|name| disk.join(name));
        for folder in [&lower, &upper, &work] {
            std::fs::create_dir(folder).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let options =
            format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        if !done("mount", &["-t", "overlay", "-o", &options, "none", text(folder.path())]) {
            println!("left out: no overlay can be mounted here");
            return None;
        }
        Some(Overlay(folder))
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let folder = text(self.0.path());
        let _ = done("umount", &[folder]) || done("umount", &["-l", folder]);
    }
}

/// The largest unnamed file, once it has so many bytes.
fn waits_for_scratch(folder: &Path, process: u32, bytes: u64) -> PathBuf {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let all = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten().map(|fd| fd.path());
        let found = all
            .filter(|fd| std::fs::read_link(fd).is_ok_and(|to| to.starts_with(folder)))
            .find(|fd| std::fs::metadata(fd).is_ok_and(|file| file.is_file() && file.len() >= bytes));
        if let Some(found) = found {
            return found;
        }
        assert!(Instant::now() < until, "nothing waits in {}", folder.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}
