//! Imports to block devices, where this host permits loop devices.

use super::{Pod, job};
use api::job::{Import, Source, Target};
use std::path::PathBuf;
use std::process::Command;
use tests::http::{Behaviour, Server, pattern};

const SIZE: usize = 16 << 20;

/// A device on which somebody else's bytes are.
struct Device {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Device {
    /// `None` where there are none.
    fn used() -> Option<Device> {
        let folder = tempfile::tempdir().expect("it can be made");
        let file = folder.path().join("backing");
        std::fs::write(&file, vec![0xaa; SIZE]).expect("it can be made");
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().ok();
        let made = made.filter(|made| made.status.success())?;
        let path = String::from_utf8(made.stdout).expect("a path").trim().into();
        Some(Device { path, _folder: folder })
    }

    fn bytes(&self) -> Vec<u8> {
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
