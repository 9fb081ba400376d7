//! Claims of the block devices that a guest writes to. While one is held, the kernel refuses a mount of the device, a
//! conversion to it, and the claim of its disk or of a partition of it. QEMU itself opens the device without a claim.
//!
//! ```text
//!  start      launcher: open(O_EXCL) ──getfd, by the monitor──► QEMU, whose guest has not begun      (`Claims`)
//!  take-over  has QEMU the claim? ─ no ─► the same, each tick until it has it or is gone           (`complete`)
//! ```
//!
//! **A claim ends with the process of QEMU,** neither earlier nor later: it lasts as long as one descriptor of its open file,
//! and QEMU, which never uses the one it was given, closes it by its end alone. It closes none when a launcher leaves its monitor.
//! Before QEMU has it, the claim ends with the launcher; then no vCPU runs. In a pod the end of the launcher is that of QEMU
//! too (`bin/virt-launcher/init.rs`), but a QEMU that waits for its storage ends later. Elsewhere QEMU outlives a launcher that
//! was killed.
//!
//! A running QEMU is without its claim if its launcher was killed before it gave the claim away, if it has arrived from another
//! launcher, or if an earlier version started it, whose claims ended with the launcher.

use crate::error::{Error, ErrorKind};
use crate::hypervisor::{self, Hypervisor};
use api::launcher::{Resolved, Source};
use api::machine::{Disk, Machine, Volume};
use rustix::fs::{OFlags, fcntl_setfl};
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use storage::{Access, Claim, claim_device, is_only_mapped};

/// Most processes that are named.
const NAMED: usize = 3;

/// A block device that the guest writes to, and no other guest may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenDevice {
    /// Name of the disk.
    pub disk: String,
    pub path: PathBuf,
}

impl WrittenDevice {
    fn shown(&self) -> String {
        format!("the disk '{}' ({})", self.disk, self.path.display())
    }
}

/// The block devices that the guest of this VM writes to, but for those of shared disks: of several guests only one could have
/// the claim. `prepare` looks for other users of those.
pub fn written_devices(machine: &Machine, resolved: &Resolved) -> Vec<WrittenDevice> {
    let is_device = |path: &Path| fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    let path_of = |disk: &Disk| match (&disk.volume, resolved.volumes.get(&disk.name)) {
        (
            Volume::Claim { .. } | Volume::DataVolume { .. } | Volume::Host { .. },
            Some(Source::Block { path }),
        ) => Some(path.clone()),
        (Volume::Host { path, .. }, None) => Some(PathBuf::from(path)).filter(|path| is_device(path)),
        _ => None,
    };
    let disks = machine.disks.iter().filter(|disk| !disk.readonly && !is_shared(disk));
    disks.filter_map(|disk| Some(WrittenDevice { disk: disk.name.clone(), path: path_of(disk)? })).collect()
}

/// True if other VMs may write to the disk at the same time.
pub(super) fn is_shared(disk: &Disk) -> bool {
    disk.shareable || matches!(disk.volume, Volume::Host { shared: true, .. })
}

/// The claims for the start of a VM, until QEMU has them. They end with the value, as far as QEMU has not got them.
#[derive(Debug, Default)]
pub struct Claims(Vec<(WrittenDevice, File)>);

impl Claims {
    /// Claims devices, whose users were looked for before.
    pub(super) fn take(devices: Vec<WrittenDevice>, faults: &mut Vec<Error>) -> Claims {
        let mut claims = Claims::default();
        for device in devices {
            let shown = device.shown();
            match claim_device(&device.path, Access::Reads) {
                Ok(Claim::Taken(file)) => claims.0.push((device, file)),
                // Maps and arrays of the guest's own write nothing.
                Ok(Claim::InUse(by)) if is_only_mapped(&device.path).unwrap_or(false) => {
                    tracing::warn!("{shown} cannot be kept from other programs of this host: {by}");
                }
                Ok(Claim::InUse(by)) => {
                    let by = with_openers(by, &device.path, None);
                    let what = format!("{shown} is in use: {by}; end that first");
                    faults.push(Error::new(ErrorKind::Busy, what));
                }
                Err(e) => faults.push(Error::io(format!("cannot claim {shown}"), e)),
            }
        }
        claims
    }

    /// Gives the claims to the VM's QEMU, before its guest begins.
    pub fn give(&self, hypervisor: &dyn Hypervisor, vm: &str) -> hypervisor::Result<()> {
        self.0.iter().try_for_each(|(device, file)| give(hypervisor, vm, device, file))
    }
}

/// Devices that a running QEMU has no claim of, and the reasons.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unclaimed {
    pub devices: Vec<WrittenDevice>,
    /// A sentence for each device.
    pub reasons: Vec<String>,
}

/// Gives a running QEMU the claims that it is without. `qemu`: its process ID. Blocks.
pub fn complete(
    hypervisor: &dyn Hypervisor,
    vm: &str,
    qemu: Option<u32>,
    devices: Vec<WrittenDevice>,
) -> Unclaimed {
    let mut left = Unclaimed::default();
    for device in devices {
        if let Some(reason) = claim_again(hypervisor, vm, qemu, &device) {
            left.reasons.push(format!("{} is not kept from other programs: {reason}", device.shown()));
            left.devices.push(device);
        }
    }
    left
}

/// Returns why QEMU has no claim of the device. `None`: it has one, or what is in the way writes nothing.
fn claim_again(
    hypervisor: &dyn Hypervisor,
    vm: &str,
    qemu: Option<u32>,
    device: &WrittenDevice,
) -> Option<String> {
    let has_claim = || qemu.and_then(|qemu| has_claim(qemu, &device.path));
    if has_claim() == Some(true) {
        return None;
    }
    match claim_device(&device.path, Access::Reads) {
        Ok(Claim::Taken(file)) => give(hypervisor, vm, device, &file).err().map(|e| e.to_string()),
        Ok(Claim::InUse(by)) if is_only_mapped(&device.path).unwrap_or(false) => {
            tracing::warn!("{} cannot be kept from other programs of this host: {by}", device.shown());
            None
        }
        // The QEMU of a daemon, which may have the claim.
        Ok(Claim::InUse(_)) if has_claim().is_none() => None,
        Ok(Claim::InUse(by)) => Some(with_openers(by, &device.path, qemu)),
        Err(e) => Some(e.to_string()),
    }
}

/// Gives QEMU a claim.
fn give(
    hypervisor: &dyn Hypervisor,
    vm: &str,
    device: &WrittenDevice,
    file: &File,
) -> hypervisor::Result<()> {
    // The mark by which `has_claim` finds it. It changes nothing for a file that is never written.
    fcntl_setfl(file, OFlags::APPEND).map_err(|e| {
        let why = std::io::Error::from(e).to_string();
        hypervisor::Error::new(
            hypervisor::ErrorKind::Failed,
            format!("mark the claim of {}", device.shown()),
            why,
        )
    })?;
    hypervisor.keep_file(vm, &format!("claim-{}", device.disk), file.as_fd())
}

/// True if a process has the claim of a device that a launcher has given it. `None` if its files cannot be looked at.
fn has_claim(process: u32, path: &Path) -> Option<bool> {
    let rdev = fs::metadata(path).ok()?.rdev();
    let process = Path::new("/proc").join(process.to_string());
    for file in fs::read_dir(process.join("fd")).ok()?.flatten() {
        let info = || fs::read_to_string(process.join("fdinfo").join(file.file_name())).unwrap_or_default();
        if is_device(&file.path(), rdev) && is_marked(&info()) {
            return Some(true);
        }
    }
    Some(false)
}

fn is_device(file: &Path, rdev: u64) -> bool {
    fs::metadata(file).is_ok_and(|found| found.file_type().is_block_device() && found.rdev() == rdev)
}

/// True for the flags of a claim that was given away. QEMU opens no disk for appending. `info`: the text about the open file
/// in /proc.
fn is_marked(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| {
        let flags = OFlags::from_bits_retain(flags);
        flags.contains(OFlags::APPEND) && !flags.intersects(OFlags::WRONLY | OFlags::RDWR)
    })
}

/// Adds the processes that have the device open, as far as this user sees them, to a sentence about its user.
fn with_openers(by: String, path: &Path, qemu: Option<u32>) -> String {
    let Ok(rdev) = fs::metadata(path).map(|found| found.rdev()) else { return by };
    let has_it = |process: &Path| {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        files.map(|file| file.path()).any(|file| is_device(&file, rdev))
    };
    let mut named = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let process = entry.path();
        if pid != std::process::id() && Some(pid) != qemu && named.len() < NAMED && has_it(&process) {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
            named.push(format!("{} (process {pid})", name.trim_end().escape_debug()));
        }
    }
    match named.is_empty() {
        true => by,
        false => format!("{by}; open in {}", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hypervisor::fake::Fake;
    use crate::hypervisor::{End, ErrorKind as Cause, Event};
    use ::tests::loop_device::Loop;
    use std::os::unix::fs::OpenOptionsExt as _;

    const VM: &str = "default_vm";

    /// A loop device, and a VM whose QEMU is this process.
    struct Scene {
        device: WrittenDevice,
        fake: Fake,
        _loop: Loop,
        _folder: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Option<Scene> {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("back");
            File::create(&file).unwrap().set_len(1 << 20).unwrap();
            let device = Loop::over(&file, &[])?;
            let fake = Fake::default();
            fake.define("<name>default_vm</name>").unwrap();
            fake.start(VM).unwrap();
            let written = WrittenDevice { disk: "data".into(), path: device.0.clone() };
            Some(Scene { device: written, fake, _loop: device, _folder: folder })
        }

        /// True while another open file has the claim.
        fn is_held(&self) -> bool {
            let exclusive = OFlags::EXCL.bits().cast_signed();
            match File::options().read(true).custom_flags(exclusive).open(&self.device.path) {
                Ok(_) => false,
                Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => true,
                Err(e) => panic!("{e}"),
            }
        }

        /// A child that another test starts has all files of this process, for a moment.
        fn is_free(&self) -> bool {
            matches!(claim_device(&self.device.path, Access::Reads), Ok(Claim::Taken(_)))
        }

        fn complete(&self) -> Unclaimed {
            complete(&self.fake, VM, Some(std::process::id()), vec![self.device.clone()])
        }

        fn given(&self) -> usize {
            self.fake.conversation().iter().filter(|said| said.starts_with("keep_file")).count()
        }
    }

    #[test]
    fn a_claim_that_qemu_has_lasts_as_long_as_qemu() {
        let Some(scene) = Scene::new() else { return };
        let mut faults = Vec::new();
        let claims = Claims::take(vec![scene.device.clone()], &mut faults);
        assert!(faults.is_empty() && scene.is_held());
        claims.give(&scene.fake, VM).unwrap();
        // The launcher ends.
        drop(claims);
        assert!(scene.is_held());
        // The next one finds the claim with QEMU.
        assert_eq!(scene.complete(), Unclaimed::default());
        assert_eq!(scene.given(), 1);
        scene.fake.happen(VM, &Event::Ended(End::Crashed));
        assert!(scene.is_free());
    }

    #[test]
    fn a_claim_that_qemu_has_not_got_ends_with_the_launcher() {
        let Some(scene) = Scene::new() else { return };
        let claims = Claims::take(vec![scene.device.clone()], &mut Vec::new());
        scene.fake.fail_next("keep_file", Cause::Failed, "no");
        claims.give(&scene.fake, VM).unwrap_err();
        drop(claims);
        assert!(scene.is_free());
    }

    #[test]
    fn a_running_qemu_gets_the_claim_that_it_is_without_once_the_device_is_free() {
        let Some(scene) = Scene::new() else { return };
        let other = Claims::take(vec![scene.device.clone()], &mut Vec::new());
        // As a launcher of an earlier version, and a QEMU, have it.
        let mut opener = std::process::Command::new("sleep")
            .arg("60")
            .stdin(File::open(&scene.device.path).unwrap())
            .spawn()
            .unwrap();
        let left = scene.complete();
        let named = format!("(process {})", opener.id());
        opener.kill().unwrap();
        opener.wait().unwrap();
        assert_eq!(left.devices, std::slice::from_ref(&scene.device));
        let reason = &left.reasons[0];
        for part in ["'data'", "is not kept from other programs: another process has it open", &named] {
            assert!(reason.contains(part), "{reason}: not {part}");
        }
        assert_eq!(scene.given(), 0);
        drop(other);
        // QEMU does not take it at the first time.
        scene.fake.fail_next("keep_file", Cause::Failed, "the monitor is busy");
        let left = scene.complete();
        assert!(left.reasons[0].contains("the monitor is busy"), "{left:?}");
        assert!(scene.is_free());
        assert_eq!(scene.complete(), Unclaimed::default());
        assert!(scene.is_held());
        assert_eq!(scene.given(), 2);
        assert_eq!(scene.complete(), Unclaimed::default());
        assert_eq!(scene.given(), 2);
    }

    #[test]
    fn a_claim_is_known_by_its_flags() {
        assert!(is_marked("pos:\t0\nflags:\t02102000\nmnt_id:\t5\n"));
        for info in ["flags:\t02100000", "flags:\t02102002", "flags:\t02102001", "flags:\tx", ""] {
            assert!(!is_marked(info), "{info}");
        }
    }
}
