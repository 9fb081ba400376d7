//! Finds the parts of a VM on this host, and creates missing ones: the input of the domain.
//!
//! ```text
//!  Source::Image    ─► an overlay over it                  Empty      ─► an empty disk
//!  File, Block      ─► itself, if nothing else uses it     Host       ─► the file, created if the spec allows it
//!  Folder, Absent   ─► a small ISO image (seed)            a CD-ROM   ─► its media, or none
//!  Absent of Host   ─► a new file: one that is there by now has a format that is not known
//!  a file system    ─► the socket of its virtiofsd, which a container beside the launcher starts at the same time
//!  EFI variables, TPM ─► see `state`
//! ```
//!
//! A block device that the guest writes to is claimed (`claims`), for QEMU.
//!
//! A launcher that takes a running VM over only finds them: nothing is created under a running guest.

use super::claims::{Claims, is_shared, written_devices};
use super::{firmware, host_devices, metrics, new_file, overlay, pinning, state};
use crate::domain::host::{Blocks, DiskLocation, Efi, Host, Layer, Layers, Medium, Pinning};
use crate::domain::host_device::HostAddress;
use crate::error::{Error, ErrorKind, Result};
use crate::hooks::Hooks;
use crate::hypervisor::embed;
use crate::redirection;
use crate::root::{Root, socket_path};
use crate::seed::cloud_init::Identity;
use api::launcher::{Format, Link, Resolved, Source};
use api::machine::{Boot, Disk, Filesystem, Machine, Target, Volume};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use storage::{Access, Storage};

/// Folder in which the kernel lists the devices of the node.
const SYSFS: &str = "/sys";
/// Time for the containers of file systems to start, after the launcher.
const SERVED: Duration = Duration::from_secs(60);

/// Treatment of files that the launcher creates.
#[derive(Clone, Copy, Debug)]
pub enum PrepareMode<'a> {
    /// Create them again: the VM starts, with these hooks.
    Start(&'a Hooks),
    /// Create them: the VM runs under another launcher, and comes here.
    Receive(&'a Hooks),
    /// Leave them: the VM runs.
    TakeOver,
}

impl PrepareMode<'_> {
    /// True if the VM starts.
    pub fn is_start(self) -> bool {
        matches!(self, PrepareMode::Start(_))
    }

    /// True if files are created, since no QEMU has them open.
    pub fn creates(self) -> bool {
        !matches!(self, PrepareMode::TakeOver)
    }
}

/// Prepares the parts of a VM on this host, and claims its devices if it starts.
pub fn prepare(
    machine: &Machine,
    resolved: &Resolved,
    root: &Root,
    how: PrepareMode<'_>,
) -> Result<(Host, Claims)> {
    let mut preparing =
        Preparing { machine, resolved, root, how, host_devices: Vec::new(), faults: Vec::new() };
    preparing.host_devices();
    let disks = preparing.disks();
    let mut written = written_devices(machine, resolved);
    // A fault of a disk that has no location was reported. The QEMU that runs has claims of its own.
    written.retain(|device| how.is_start() && disks.contains_key(&device.disk));
    let claims = Claims::take(written, &mut preparing.faults);
    let host = Host {
        accelerator: resolved.accelerator,
        sizes: sizes(machine, &disks),
        disks,
        filesystems: preparing.filesystems(),
        usb_redirection: match machine.usb_redirection {
            true => redirection::sockets(root),
            false => Vec::new(),
        },
        links: resolved.interfaces.clone(),
        kernel: resolved.kernel.clone(),
        efi: preparing.efi(),
        pinning: preparing.pinning(),
        serial_log: root.serial_log(),
        vnc: root.socket("vnc"),
        agent: root.socket("agent"),
        vsock: resolved.vsock,
        host_devices: preparing.host_devices.clone(),
        metrics: machine.downward_metrics.then(|| root.socket(metrics::CHANNEL)),
        iothread_mapping: false,
        hardware: resolved.hardware.clone(),
    };
    preparing.links();
    preparing.memory();
    preparing.kernel();
    preparing.tpm();
    let sockets = ["serial", "vnc", "agent"].map(|name| root.socket(name));
    for path in sockets.into_iter().chain(host.usb_redirection.clone()).chain(host.metrics.clone()) {
        if let Err(e) = socket_path(&path) {
            preparing.faults.push(Error::refused(e.to_string()));
        }
    }
    match preparing.faults.len() {
        0 => Ok((host, claims)),
        1 => Err(preparing.faults.remove(0)),
        _ => {
            let kind = preparing.faults.first().map_or(ErrorKind::Failed, Error::kind);
            let all: Vec<String> = preparing.faults.iter().map(|e| e.chain()).collect();
            Err(Error::new(kind, all.join("; ")))
        }
    }
}

/// A preparation. It goes on after a fault, so that all faults are reported at once.
struct Preparing<'a> {
    machine: &'a Machine,
    resolved: &'a Resolved,
    root: &'a Root,
    how: PrepareMode<'a>,
    host_devices: Vec<Vec<HostAddress>>,
    faults: Vec<Error>,
}

impl Preparing<'_> {
    /// Host devices that device plugins and DRA drivers have given to the pod.
    fn host_devices(&mut self) {
        let value = |name: &str| std::env::var(name).ok();
        match host_devices::host_devices(self.machine, value, &host_devices::DeviceFiles::here()) {
            Ok(found) => self.host_devices = found,
            Err(e) => self.faults.push(e),
        }
    }

    /// Dedicated CPUs of the vCPUs. A running VM has them already.
    fn pinning(&mut self) -> Option<Pinning> {
        if !self.how.creates() {
            return None;
        }
        if !self.machine.cpu.realtime.is_empty() && !pinning::may_be_realtime() {
            self.faults.push(Error::refused(
                "spec.domain.cpu.realtime: this launcher may not give its threads real-time priority (RLIMIT_RTPRIO is 0). \
                 virt-handler raises that limit in a cluster; on your own computer, an administrator does in \
                 /etc/security/limits.conf (rtprio)",
            ));
        }
        pinning::pinning(self.machine).unwrap_or_else(|e| {
            self.faults.push(e);
            None
        })
    }

    /// Checks that hugetlbfs is mounted: huge pages are files.
    fn memory(&mut self) {
        if self.machine.memory.hugepage.is_some() && self.how.creates() && embed::hugetlbfs().is_empty() {
            self.faults.push(Error::refused(
                "spec.domain.memory.hugepages: no hugetlbfs is mounted that this user may write to. A launcher pod has one at \
                 /dev/hugepages; on your own computer, as root: mount -t hugetlbfs -o uid=USER none DIR, with pages \
                 set aside (vm.nr_hugepages)",
            ));
        }
    }

    fn disks(&mut self) -> BTreeMap<String, DiskLocation> {
        let mut disks = BTreeMap::new();
        let machine = self.machine;
        for disk in &machine.disks {
            match self.disk(disk) {
                Ok(place) => drop(disks.insert(disk.name.clone(), place)),
                Err(e) => self.faults.push(e),
            }
        }
        disks
    }

    fn disk(&self, disk: &Disk) -> Result<DiskLocation> {
        let source = self.resolved.volumes.get(&disk.name);
        let nobody = || Error::refused(format!("the volume '{}' has no location on this host", disk.name));
        match &disk.volume {
            Volume::ContainerDisk { .. } | Volume::Ephemeral { .. } => {
                self.overlay_disk(disk, source.ok_or_else(nobody)?)
            }
            Volume::Claim { .. } | Volume::DataVolume { .. } => {
                self.writable_disk(disk, source.ok_or_else(nobody)?)
            }
            Volume::NoDisc => Ok(DiskLocation::Nothing),
            Volume::DownwardMetrics => {
                let path = self.root.seed(&disk.name);
                if self.how.creates() {
                    let cannot = || format!("cannot make the disk of metrics {}", path.display());
                    metrics::make(&path).map_err(|e| Error::io(cannot(), e))?;
                }
                Ok(DiskLocation::Layers(file(path, Format::Raw)))
            }
            Volume::ContainerPath { .. } => Err(wrong_source(disk, "a file system, which the guest mounts")),
            Volume::Empty { capacity } => {
                let path = self.root.disk(&disk.name);
                if self.how.creates() {
                    overlay::blank(*capacity, &path)?;
                }
                Ok(DiskLocation::Layers(file(path, Format::Qcow2)))
            }
            Volume::Host { path, create, .. } => match source {
                Some(Source::Absent) => self.host_disk(disk, Path::new(path), *create, self.how.is_start()),
                Some(source) => self.writable_disk(disk, source),
                None => self.host_disk(disk, Path::new(path), *create, false),
            },
            Volume::NoCloud(_)
            | Volume::ConfigDrive(_)
            | Volume::ConfigMap { .. }
            | Volume::Secret { .. }
            | Volume::DownwardApi { .. }
            | Volume::ServiceAccount { .. }
            | Volume::Sysprep { .. } => self.seed(disk),
        }
    }

    /// A read-only disk, under an overlay.
    fn overlay_disk(&self, disk: &Disk, source: &Source) -> Result<DiskLocation> {
        let base = match source {
            Source::Image { path, format } | Source::File { path, format, .. } => Layer::file(path, *format),
            Source::Block { path } => Layer::device(path),
            Source::Folder { .. } | Source::Absent => return Err(wrong_source(disk, "a disk image")),
        };
        self.check_unused(disk, &base.path, Access::Reads)?;
        // A CD-ROM is read-only, so it needs no overlay; references of its image are checked all the same.
        if matches!(disk.target, Target::CdRom { .. }) {
            return match base.medium {
                Medium::File => media(&base.path, base.format),
                Medium::Device => device(&base.path).map(DiskLocation::Layers),
            };
        }
        let path = self.root.disk(&disk.name);
        if self.how.creates() {
            overlay::create_overlay(&base.path, base.format, &path)?;
        }
        let mut layers = file(path, Format::Qcow2);
        // One policy for the chain: the base is opened like the overlay.
        layers.direct = layers.direct && opens_direct(&base.path);
        layers.below.push(base);
        Ok(DiskLocation::Layers(layers))
    }

    /// A disk that the guest writes to directly.
    fn writable_disk(&self, disk: &Disk, source: &Source) -> Result<DiskLocation> {
        match source {
            Source::Image { .. } => self.overlay_disk(disk, source),
            Source::File { path, format, preallocated } => {
                self.check_unused(disk, path, access_of(disk))?;
                if self.how.is_start() && !disk.readonly {
                    check_finished(disk, path)?;
                }
                // A qcow2 image with a backing file that was added later would let its guest read any file of
                // the launcher.
                overlay::virtual_size(path, *format)?;
                let layers = Layers { preallocated: *preallocated, ..file(path.clone(), *format) };
                Ok(DiskLocation::Layers(layers))
            }
            Source::Block { path } => {
                self.check_unused(disk, path, access_of(disk))?;
                device(path).map(DiskLocation::Layers)
            }
            Source::Absent if matches!(disk.target, Target::CdRom { .. }) => Ok(DiskLocation::Nothing),
            Source::Folder { .. } | Source::Absent => Err(wrong_source(disk, "a file or a block device")),
        }
    }

    /// A file of the host, created if the spec allows it. With `is_new` a file that is there is refused.
    fn host_disk(&self, disk: &Disk, path: &Path, create: Option<u64>, is_new: bool) -> Result<DiskLocation> {
        match (fs::metadata(path), create) {
            (Ok(_), _) if is_new => {
                return Err(Error::refused(format!(
                    "{} of the disk '{}' was to be made, and was made by another program meanwhile: run the VM again to use \
                     what is there",
                    path.display(),
                    disk.name
                )));
            }
            (Ok(found), _) if found.file_type().is_block_device() => {
                return self.writable_disk(disk, &Source::Block { path: path.to_owned() });
            }
            (Ok(found), _) if !found.is_file() => {
                return Err(Error::refused(format!(
                    "{} of the disk '{}' is not a file",
                    path.display(),
                    disk.name
                )));
            }
            (Ok(_), _) => {}
            (Err(e), Some(size)) if e.kind() == std::io::ErrorKind::NotFound && self.how.creates() => {
                let cannot = || format!("cannot make {} of the disk '{}'", path.display(), disk.name);
                new_file::create(path, overlay::whole_blocks(size))
                    .map_err(|e| Error::new(e.kind(), cannot()).because(e))?;
            }
            (Err(e), _) => {
                return Err(Error::io(
                    format!("cannot use {} of the disk '{}'", path.display(), disk.name),
                    e,
                ));
            }
        }
        self.writable_disk(
            disk,
            &Source::File { path: path.to_owned(), format: Format::Raw, preallocated: false },
        )
    }

    /// ISO image with the files of a volume, for example cloud-init data or a Secret. It is created when the
    /// VM starts.
    fn seed(&self, disk: &Disk) -> Result<DiskLocation> {
        let path = self.root.seed(&disk.name);
        if let PrepareMode::Start(hooks) | PrepareMode::Receive(hooks) = self.how {
            let seconds = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
            let change = |format, identity: &Identity<'_>, given| {
                hooks.cloud_init(&disk.name, format, identity, given)
            };
            crate::seed::make(
                self.machine,
                disk,
                self.resolved,
                &self.host_devices,
                &change,
                &path,
                seconds,
            )?;
        }
        Ok(DiskLocation::Layers(file(path, Format::Raw)))
    }

    fn check_unused(&self, disk: &Disk, path: &Path, access: Access) -> Result<()> {
        check_unused(self.machine, disk, path, access, self.how.is_start())
    }

    fn efi(&mut self) -> Option<Efi> {
        let Boot::Efi { secure, .. } = self.machine.firmware.boot else { return None };
        let folder = self.resolved.hardware.ovmf_path.as_deref();
        let Some(found) = firmware::find(secure, folder) else {
            let what = if secure { " with secure boot" } else { "" };
            let why = match folder {
                None => "is installed; as root: apt-get install ovmf".to_owned(),
                Some(folder) => format!(
                    "is in {} of the launcher's image, which ovmfPath of the KubeVirt object names; without ovmfPath the \
                     firmware of the image is found",
                    folder.display()
                ),
            };
            let what = format!("EFI OVMF rom missing: no firmware{what} {why}");
            self.faults.push(Error::new(ErrorKind::NotFound, what));
            return None;
        };
        match state::variables(self.machine, self.resolved, self.root, &found, self.how) {
            Ok(vars) => Some(Efi { code: found.code, template: found.vars, vars }),
            Err(e) => {
                self.faults.push(e);
                None
            }
        }
    }

    fn tpm(&mut self) {
        let made = state::tpm(self.machine, self.resolved, self.root, self.how);
        self.faults.extend(made.err());
    }

    fn filesystems(&mut self) -> BTreeMap<String, PathBuf> {
        let until = Instant::now() + SERVED;
        let mut sockets = BTreeMap::new();
        for Filesystem { name, .. } in &self.machine.filesystems {
            let Some(socket) = self.resolved.filesystems.get(name) else {
                let what = format!("no virtiofsd serves the file system '{name}' on this host");
                self.faults.push(Error::refused(what));
                continue;
            };
            if self.how.creates() && !is_served(socket, until) {
                let what = format!(
                    "virtiofsd of the file system '{name}' does not listen on {} after {} s; see the log of its container",
                    socket.display(),
                    SERVED.as_secs()
                );
                self.faults.push(Error::new(ErrorKind::Failed, what));
            }
            sockets.insert(name.clone(), socket.clone());
        }
        sockets
    }

    fn links(&mut self) {
        for interface in &self.machine.interfaces {
            let name = &interface.name;
            match self.resolved.interfaces.get(name) {
                Some(Link::Device { address, .. }) => {
                    let given = host_devices::check_assigned(name, address, |name| std::env::var(name).ok());
                    let given = given
                        .and_then(|()| host_devices::check_network_device(name, address, Path::new(SYSFS)));
                    self.faults.extend(given.err());
                }
                Some(_) => {}
                None => {
                    let what = format!("the interface '{name}' has no link on this host");
                    self.faults.push(Error::refused(what));
                }
            }
        }
    }

    fn kernel(&mut self) {
        let Some(kernel) = &self.resolved.kernel else {
            if self.machine.firmware.kernel.as_ref().is_some_and(|kernel| kernel.image.is_some()) {
                self.faults.push(Error::refused("the kernel of kernelBoot has no location on this host"));
            }
            return;
        };
        for path in [Some(&kernel.kernel), kernel.initrd.as_ref()].into_iter().flatten() {
            if let Err(e) = fs::File::open(path) {
                self.faults.push(Error::io(format!("cannot read the kernel's file {}", path.display()), e));
            }
        }
    }
}

/// Sizes of the disks that the guest writes to without an overlay. A disk that cannot be read is reported where it is opened.
fn sizes(machine: &Machine, disks: &BTreeMap<String, DiskLocation>) -> BTreeMap<String, u64> {
    let is_own = |disk: &&Disk| {
        matches!(disk.volume, Volume::Claim { .. } | Volume::DataVolume { .. } | Volume::Host { .. })
    };
    let size = |disk: &Disk| match disks.get(&disk.name) {
        Some(DiskLocation::Layers(layers)) if layers.below.is_empty() => {
            let size = overlay::virtual_size(&layers.top.path, layers.top.format).ok()?;
            Some((disk.name.clone(), size))
        }
        _ => None,
    };
    machine.disks.iter().filter(is_own).filter_map(size).collect()
}

/// Location of media that are to be read.
pub fn media(path: &Path, format: Format) -> Result<DiskLocation> {
    overlay::virtual_size(path, format)?;
    Ok(DiskLocation::Layers(file(path.to_owned(), format)))
}

/// Location of media that are inserted while the VM runs, if nothing writes to them.
pub fn inserted_media(machine: &Machine, disk: &str, path: &Path, format: Format) -> Result<DiskLocation> {
    if let Some(disk) = machine.disks.iter().find(|one| one.name == disk) {
        check_unused(machine, disk, path, Access::Reads, true)?;
    }
    media(path, format)
}

/// Refuses the unfinished target of a conversion, which goes on behind the journal's last mark and would keep what the guest
/// wrote in front.
fn check_finished(disk: &Disk, path: &Path) -> Result<()> {
    // A link may have any name. A disk that is missing is reported where it is opened.
    let Ok(path) = fs::canonicalize(path) else { return Ok(()) };
    let mut journal = path.clone().into_os_string();
    journal.push(".journal");
    let journal = PathBuf::from(journal);
    if path.extension() != Some("partial".as_ref()) || fs::symlink_metadata(&journal).is_err() {
        return Ok(());
    }
    Err(Error::refused(format!(
        "the disk '{}' ({}) is the unfinished target of a conversion: give the command of that conversion again, which \
         finishes the disk, or rename {}, which gives that conversion up",
        disk.name,
        path.display(),
        path.display()
    )))
}

/// Checks that no other VM uses the bytes of the disk, by whichever name, and if it is new to the VM, that nothing else does.
fn check_unused(machine: &Machine, disk: &Disk, path: &Path, access: Access, is_new: bool) -> Result<()> {
    let access = match (is_shared(disk), access) {
        // It may read while others write.
        (true, Access::Reads) => return Ok(()),
        (true, _) => Access::SharedGuestWrites,
        (false, access) => access,
    };
    // A disk that is missing is reported where it is opened.
    let Ok(storage) = Storage::of_path(path) else { return Ok(()) };
    let busy = |how: &str| {
        let what = format!("the disk '{}' ({}) is {how}", disk.name, path.display());
        Err(Error::new(ErrorKind::Busy, what))
    };
    if let Some(guest) = storage.guest(access, &machine.domain_name()) {
        return busy(&format!("used by {guest}; stop it first"));
    }
    // The locks of a VM that runs are its own.
    match is_new.then(|| storage.user(access)).flatten() {
        Some(user) => busy(&format!("in use: {user}; end that first")),
        None => Ok(()),
    }
}

/// Checks the disks of a VM whose QEMU has them open, and whose guest has not begun: of two VMs that start at once each was
/// prepared before the other had its QEMU, and one at least sees the other now.
pub fn check_alone(machine: &Machine, host: &Host) -> Result<()> {
    for disk in &machine.disks {
        let Some(DiskLocation::Layers(layers)) = host.disks.get(&disk.name) else { continue };
        // An overlay is the VM's own.
        let (given, access) = match layers.below.first() {
            Some(base) => (base, Access::Reads),
            None => (&layers.top, access_of(disk)),
        };
        check_unused(machine, disk, &given.path, access, false)?;
    }
    Ok(())
}

fn access_of(disk: &Disk) -> Access {
    if disk.readonly { Access::Reads } else { Access::GuestWrites }
}

fn wrong_source(disk: &Disk, wanted: &str) -> Error {
    Error::refused(format!("the volume '{}' must be {wanted} on this host", disk.name))
}

fn file(path: PathBuf, format: Format) -> Layers {
    let found = fs::metadata(&path).ok();
    let blocks =
        found.and_then(|found| u32::try_from(found.blksize()).ok()).map(|size| size.clamp(512, 4096));
    // With O_DIRECT QEMU cannot write to a raw file that ends within a block.
    let whole = fs::metadata(&path).is_ok_and(|found| found.len() == overlay::whole_blocks(found.len()));
    let direct = (format == Format::Qcow2 || whole) && opens_direct(&path);
    Layers {
        top: Layer::file(path, format),
        below: Vec::new(),
        direct,
        preallocated: false,
        blocks: blocks.map(|size| Blocks { logical: size, physical: size, discard: Some(size) }),
    }
}

fn device(path: &Path) -> Result<Layers> {
    let cannot = || format!("cannot open the block device {}", path.display());
    let opened = fs::File::open(path).map_err(|e| Error::io(cannot(), e))?;
    let is_block = opened.metadata().is_ok_and(|found| found.file_type().is_block_device());
    if !is_block {
        return Err(Error::refused(format!("{} is not a block device", path.display())));
    }
    let logical = rustix::fs::ioctl_blksszget(&opened).map_err(|e| Error::io(cannot(), e))?;
    let physical = rustix::fs::ioctl_blkpbszget(&opened).map_err(|e| Error::io(cannot(), e))?;
    let blocks = Blocks { logical, physical: physical.max(logical), discard: discarded(&opened, logical) };
    Ok(Layers {
        top: Layer::device(path),
        below: Vec::new(),
        direct: opens_direct(path),
        preallocated: false,
        blocks: Some(blocks),
    })
}

/// Unit of discards of a device, from the kernel; `None` if it discards nothing, or QEMU would refuse the
/// size.
fn discarded(device: &fs::File, logical: u32) -> Option<u32> {
    let number = device.metadata().ok()?.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    // A partition has no queue of its own.
    let text = ["queue", "../queue"].iter().find_map(|queue| {
        fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{queue}/discard_granularity")).ok()
    })?;
    let size: u32 = text.trim().parse().ok()?;
    (size != 0 && size.is_multiple_of(logical.max(1))).then_some(size)
}

/// Waits for a socket to exist; false at the time limit. It does not connect, since virtiofsd ends with its first client.
fn is_served(socket: &Path, until: Instant) -> bool {
    loop {
        if fs::metadata(socket).is_ok_and(|found| found.file_type().is_socket()) {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// True if the file can be opened with O_DIRECT (tmpfs cannot).
fn opens_direct(path: &Path) -> bool {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty()).is_ok()
}

#[cfg(test)]
mod tests;
