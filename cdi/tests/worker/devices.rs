//! Imports to block devices, where this host permits loop devices.

use super::ends::mark_of;
use super::{PATIENCE, Pod, job};
use api::job::{Import, Source, Target};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tests::http::{Behaviour, Server, pattern};

const SIZE: usize = 16 << 20;
/// Three times the bytes in flight (eight ranges of 2 MiB): a disk that fits in one round has no mark inside
/// it.
const ROUNDS: usize = 48 << 20;

/// A device with old bytes of another user.
pub(super) struct Device {
    pub(super) path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Device {
    /// `None` where there are none.
    fn used() -> Option<Device> {
        Device::of(SIZE)
    }

    pub(super) fn of(size: usize) -> Option<Device> {
        let folder = tempfile::tempdir().expect("it can be made");
        let file = folder.path().join("backing");
        std::fs::write(&file, vec![0xaa; size]).expect("it can be made");
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().ok();
        let made = made.filter(|made| made.status.success())?;
        let path = String::from_utf8(made.stdout).expect("a path").trim().into();
        Some(Device { path, _folder: folder })
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).expect("the device")
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

#[test]
fn nothing_of_what_was_there_before_shows_behind_the_end_of_the_disk() {
    let volume = tempfile::tempdir().unwrap();
    let bytes = pattern((3 << 20) + 512);
    let server = Server::start(bytes.clone(), Behaviour::default());
    for source in [job(volume.path(), &server.url("/disk.img")).source, Source::Blank] {
        let Some(device) = Device::used() else { return eprintln!("skipped: no loop device") };
        let is_blank = source == Source::Blank;
        let target = Target::Device(device.path.clone());
        let report = Pod::run(&Import { source, target, size: Some(4 << 20), preallocate: false }).done();
        assert_eq!(report.done, SIZE as u64);
        let found = device.bytes();
        let disk = if is_blank { 0 } else { bytes.len() };
        assert!(found.len() == SIZE && found[..disk] == bytes[..disk]);
        assert!(found[disk..].iter().all(|&byte| byte == 0), "up to the end of the device");
    }
}

#[test]
fn a_device_that_is_too_small_is_told_with_its_missing_bytes() {
    let Some(device) = Device::used() else { return eprintln!("skipped: no loop device") };
    let volume = tempfile::tempdir().unwrap();
    let server = Server::start(pattern(SIZE + 4096), Behaviour::default());
    let target = Target::Device(device.path.clone());
    let import = Import { target, size: None, ..job(volume.path(), &server.url("/disk.img")) };
    let report = Pod::run(&import).failed("DataVolumeTooSmall");
    assert!(report.message.contains("4096 are missing"), "{report:?}");
    assert!(device.bytes().iter().all(|&byte| byte == 0xaa), "nothing was written");
}

/// A journal that is where pods have theirs.
fn journal(folder: &Path, device: &Device) -> PathBuf {
    let rdev = std::fs::metadata(&device.path).expect("the device").rdev();
    folder.join(format!("device-{}-{}.journal", rustix::fs::major(rdev), rustix::fs::minor(rdev)))
}

/// Ends the process that converts, as the kernel does for want of memory.
fn kill_attempt(pod: &Pod) {
    let pid = pod.process.id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let others = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let all = others.fold(children, |all, more| all + " " + &more);
    let attempt = all.split_whitespace().find_map(|child| child.parse().ok().and_then(Pid::from_raw));
    kill_process(attempt.expect("an attempt runs"), Signal::KILL).expect("it is ours");
}

#[test]
fn an_attempt_that_is_killed_is_gone_on_with_by_the_next_of_its_pod() {
    let volume = tempfile::tempdir().unwrap();
    let bytes = pattern(ROUNDS);
    let Some(device) = Device::of(ROUNDS) else { return eprintln!("skipped: no loop device") };
    // A round takes eight seconds, so that a mark comes between two of them also where a sync of the device is slow.
    let slow = Behaviour { rate: Some(256 << 10), ..Behaviour::default() };
    let server = Server::start(bytes.clone(), slow);
    let target = Target::Device(device.path.clone());
    let import = Import { target, ..job(volume.path(), &server.url("/disk.img")) };
    let temp = tempfile::tempdir().unwrap();
    let own = [("TMPDIR", temp.path().to_str().expect("a path"))];
    let mut pod = Pod::start_with(&import, &own);
    let journal = journal(temp.path(), &device);
    let until = Instant::now() + PATIENCE;
    while mark_of(&journal, "done").is_none_or(|done| done < 4 << 20) {
        assert!(Instant::now() < until && !pod.has_ended(), "no mark: {}", pod.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    let before = server.requests().len();
    kill_attempt(&pod);
    let mark = mark_of(&journal, "done").expect("a mark stays");
    server.hurry();
    let report = pod.wait().done();
    assert!(report.resumed >= 4 << 20, "{report:?}");
    assert!(device.bytes() == bytes);
    let ranges = server.requests()[before..]
        .iter()
        .map(|r| r.range(ROUNDS as u64).expect("a range"))
        .collect::<Vec<_>>();
    let is_look = |range: &&std::ops::Range<u64>| range.start == 0 && range.end <= 256 << 10;
    assert!(
        ranges.iter().filter(|range| !is_look(range)).all(|range| range.start >= mark),
        "{mark}: {ranges:?}"
    );
    assert!(!journal.exists(), "the disk is whole");
}
