//! Disks: the devices by which a guest sees volumes.

use super::super::{BlockSize, Bus, Cache, Disk, ErrorPolicy, Io, PciAddress, Target, Volume};
use super::volume::Volumes;
use super::{Check, text};
use crate::vmi;
use crate::wire::Path;
use std::collections::{BTreeMap, BTreeSet};

/// Block sizes that QEMU supports.
const BLOCKS: std::ops::RangeInclusive<u64> = 512..=2_097_152;

/// Boot orders and PCI addresses that disks and interfaces use; each may be used once.
#[derive(Default)]
pub(super) struct UniqueFields {
    boot_orders: BTreeSet<u32>,
    pci_addresses: BTreeSet<PciAddress>,
}

impl UniqueFields {
    pub(super) fn boot_order(&mut self, order: Option<u32>, at: &Path, check: &mut Check<'_>) -> Option<u32> {
        let (order, order_at) = (order?, at.child("bootOrder"));
        if order == 0 {
            check.invalid(order_at, format!("{at} must have a boot order > 0, if supplied"));
        } else if !self.boot_orders.insert(order) {
            check
                .invalid(&order_at, format!("Boot order for {order_at} already set for a different device."));
        }
        Some(order)
    }

    pub(super) fn pci_address(
        &mut self,
        written: &str,
        device: &str,
        at: &Path,
        check: &mut Check<'_>,
    ) -> Option<PciAddress> {
        let Some(address) = PciAddress::parse(written) else {
            check.invalid(at, format!("{device} has malformed PCI address ({written})."));
            return None;
        };
        if !self.pci_addresses.insert(address) {
            check.duplicate(at, format!("PCI address {written} is already used by a different device"));
        }
        Some(address)
    }
}

pub(super) fn disks(
    disks: &[vmi::Disk],
    volumes: &Volumes<'_>,
    taken: &mut UniqueFields,
    devices: &Path,
    check: &mut Check<'_>,
) -> Vec<Disk> {
    let list = devices.child("disks");
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    let mut result = Vec::new();
    for (i, disk) in disks.iter().enumerate() {
        let at = list.index(i);
        if let Some(&other) = first.get(disk.name.as_str()) {
            let other = list.index(other);
            check.invalid(at.child("name"), format!("{at} and {other} must not have the same Name."));
        } else {
            first.insert(&disk.name, i);
        }
        result.extend(disk_of(disk, volumes, taken, &DiskPath { list: &list, i, at }, check));
    }
    result
}

/// Path of a disk in the spec.
struct DiskPath<'a> {
    list: &'a Path,
    i: usize,
    at: Path,
}

impl DiskPath<'_> {
    /// The disk in upstream's message about its PCI address, which names the list twice.
    fn with_pci_address(&self) -> String {
        format!("disk {}.domain.devices.disks.disk[{}].name", self.list, self.i)
    }
}

fn disk_of(
    disk: &vmi::Disk,
    volumes: &Volumes<'_>,
    taken: &mut UniqueFields,
    place: &DiskPath<'_>,
    check: &mut Check<'_>,
) -> Option<Disk> {
    let at = &place.at;
    let vmi::Disk {
        name,
        disk: hard_disk,
        lun,
        cdrom,
        boot_order,
        serial,
        dedicated_io_thread,
        cache,
        io,
        tag,
        block_size,
        shareable,
        error_policy,
        changed_block_tracking,
        other: _,
    } = disk;
    check.not_yet_on(*changed_block_tracking, at.child("changedBlockTracking"));
    let volume = match volumes.get(name.as_str()) {
        Some(volume) => volume.clone(),
        None => no_volume(name, cdrom.is_some(), at, check),
    };
    if [hard_disk.is_some(), lun.is_some(), cdrom.is_some()].iter().filter(|&&there| there).count() > 1 {
        check.invalid(at, format!("{at} can only have a single target type defined"));
        return None;
    }
    let seen = if let Some(target) = lun {
        as_lun(target, volume.as_ref(), at, check)
    } else if let Some(target) = cdrom {
        as_cdrom(target, at, check)
    } else {
        as_disk(hard_disk.as_ref(), taken, place, check)
    };
    if *dedicated_io_thread == Some(true) && seen.bus != Bus::Virtio {
        let said = [
            hard_disk.as_ref().and_then(|target| target.bus.as_ref()),
            lun.as_ref().and_then(|target| target.bus.as_ref()),
            cdrom.as_ref().and_then(|target| target.bus.as_ref()),
        ];
        let bus = said.into_iter().flatten().next().unwrap_or(&vmi::Bus::Sata).as_str();
        check.not_supported(at, format!("IOThreads are not supported for disks on a {bus} bus"));
    }
    if matches!(volume, Some(Volume::ContainerPath { .. })) {
        check
            .invalid(at, format!("ContainerPath volume '{name}' must be mapped to a filesystem, not a disk"));
    }
    // The guest must not write to the metrics. A SATA disk cannot be read-only.
    let only_read = volume == Some(Volume::DownwardMetrics) && seen.bus != Bus::Sata;
    let cache = cache_of(cache.as_ref(), at, check);
    let result = Disk {
        name: name.clone(),
        // A disk without a volume has a fault, so this value is never seen.
        volume: volume.unwrap_or(Volume::Empty { capacity: 512 }),
        target: seen.target,
        bus: seen.bus,
        readonly: seen.readonly || only_read,
        boot_order: taken.boot_order(*boot_order, at, check),
        serial: serial_of(serial, at, check),
        tag: text::tag(tag, at, check),
        dedicated_io_thread: dedicated_io_thread.unwrap_or(false),
        cache,
        io: io_of(io.as_ref(), cache, place, check),
        error_policy: errors(error_policy.as_ref(), at, check),
        block_size: block_size
            .as_ref()
            .and_then(|size| blocks(size, seen.bus, &at.child("blockSize"), check)),
        shareable: shareable.unwrap_or(false),
        pci_address: seen.pci_address,
    };
    Some(result)
}

/// Media of a disk without a volume: a CD-ROM drive may be empty, if its name could be that of a volume.
fn no_volume(name: &str, cdrom: bool, at: &Path, check: &mut Check<'_>) -> Option<Volume> {
    let name_at = at.child("name");
    if !cdrom {
        check.invalid(name_at, format!("{at}.Name '{name}' not found."));
    } else if !check.settings.gate("DeclarativeHotplugVolumes") {
        let message =
            "DeclarativeHotplugVolumes feature gate not enabled, cannot define an empty CD-ROM disk";
        check.invalid(name_at, message);
    } else if let Some(why) = text::not_a_label(name) {
        let message = format!("{name_at} does not conform to the kubernetes DNS_LABEL rules : {why}");
        check.invalid(name_at, message);
    }
    cdrom.then_some(Volume::NoDisc)
}

/// Attachment of a disk to the guest.
struct DiskAttachment {
    target: Target,
    bus: Bus,
    readonly: bool,
    pci_address: Option<PciAddress>,
}

fn as_disk(
    target: Option<&vmi::DiskTarget>,
    taken: &mut UniqueFields,
    place: &DiskPath<'_>,
    check: &mut Check<'_>,
) -> DiskAttachment {
    let here = place.at.child("disk");
    let empty = vmi::DiskTarget::default();
    let vmi::DiskTarget { bus, readonly, pci_address, other: _ } = target.unwrap_or(&empty);
    let bus = bus_of(bus.as_ref(), &place.at, "disk", check);
    let readonly = readonly.unwrap_or(false);
    if readonly && bus == Bus::Sata {
        check.invalid(here.child("bus"), "sata hard-disks do not support read-only.");
    }
    let pci_address = text::non_empty(pci_address).and_then(|written| {
        let pci_at = here.child("pciAddress");
        let disk = place.with_pci_address();
        if bus != Bus::Virtio {
            let message = format!("{disk} - setting a PCI address is only possible with bus type virtio.");
            check.invalid(&pci_at, message);
        }
        taken.pci_address(written, &disk, &pci_at, check)
    });
    DiskAttachment { target: Target::Disk, bus, readonly, pci_address }
}

fn as_lun(
    target: &vmi::LunTarget,
    volume: Option<&Volume>,
    disk: &Path,
    check: &mut Check<'_>,
) -> DiskAttachment {
    let at = disk.child("lun");
    let vmi::LunTarget { bus, readonly, reservation, other: _ } = target;
    check.not_yet_on(*reservation, at.child("reservation"));
    if !matches!(volume, None | Some(Volume::Claim { .. } | Volume::DataVolume { .. })) {
        let message = format!("{at} can only be mapped to a DataVolume or PersistentVolumeClaim volume.");
        check.invalid(&at, message);
    }
    let bus = bus_of(bus.as_ref(), disk, "lun", check);
    if bus != Bus::Scsi {
        let at = at.child("bus");
        check.invalid(
            &at,
            format!("{at} must be scsi: only there a device is passed through command by command"),
        );
    }
    DiskAttachment { target: Target::Lun, bus, readonly: readonly.unwrap_or(false), pci_address: None }
}

fn as_cdrom(target: &vmi::CdRomTarget, disk: &Path, check: &mut Check<'_>) -> DiskAttachment {
    let at = disk.child("cdrom");
    // A CD-ROM drive is read-only, whatever `readonly` is.
    let vmi::CdRomTarget { bus, readonly: _, tray, other: _ } = target;
    let bus = bus_of(bus.as_ref(), disk, "cdrom", check);
    if bus == Bus::Virtio {
        check.invalid(at.child("bus"), "Bus type virtio is invalid for CD-ROM device");
    }
    let open = match tray {
        None | Some(vmi::Tray::Closed) => false,
        Some(vmi::Tray::Open) => true,
        Some(vmi::Tray::Other(word)) => {
            let at = at.child("tray");
            check.invalid(&at, format!("{at} has invalid value {word}, allowed are open and closed"));
            false
        }
    };
    DiskAttachment { target: Target::CdRom { open }, bus, readonly: true, pci_address: None }
}

fn bus_of(bus: Option<&vmi::Bus>, disk: &Path, target: &str, check: &mut Check<'_>) -> Bus {
    match bus {
        None | Some(vmi::Bus::Sata) => Bus::Sata,
        Some(vmi::Bus::Virtio) => Bus::Virtio,
        Some(vmi::Bus::Scsi) => Bus::Scsi,
        Some(vmi::Bus::Usb) => Bus::Usb,
        Some(vmi::Bus::Other(word)) => {
            let message = if word == "ide" {
                "IDE bus is not supported".to_owned()
            } else {
                format!(
                    "{disk} is set with an unrecognized bus {word}, must be one of: [virtio scsi sata usb]"
                )
            };
            check.invalid(disk.child(target).child("bus"), message);
            Bus::Scsi
        }
    }
}

fn serial_of(serial: &Option<String>, at: &Path, check: &mut Check<'_>) -> Option<String> {
    let serial = text::non_empty(serial)?;
    let serial_at = at.child("serial");
    if !serial.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '+' | '-')) {
        let message =
            format!("{at} must be made up of the following characters [A-Za-z0-9_.+-], if specified");
        check.invalid(&serial_at, message);
    }
    if serial.chars().count() > 256 {
        check.invalid(serial_at, format!("{at} must be less than or equal to 256 in length, if specified"));
    }
    Some(serial.to_owned())
}

fn cache_of(cache: Option<&vmi::Cache>, at: &Path, check: &mut Check<'_>) -> Option<Cache> {
    match cache? {
        vmi::Cache::None => Some(Cache::None),
        vmi::Cache::WriteThrough => Some(Cache::WriteThrough),
        vmi::Cache::WriteBack => Some(Cache::WriteBack),
        vmi::Cache::Other(word) => {
            let at = at.child("cache");
            check.invalid(&at, format!("{at} has invalid value {word}"));
            None
        }
    }
}

fn io_of(
    io: Option<&vmi::Io>,
    cache: Option<Cache>,
    place: &DiskPath<'_>,
    check: &mut Check<'_>,
) -> Option<Io> {
    let DiskPath { list, at, i: _ } = place;
    let io_at = at.child("io");
    match io? {
        vmi::Io::Threads => Some(Io::Threads),
        vmi::Io::Native => {
            if cache.is_some_and(|cache| cache != Cache::None) {
                let message =
                    format!("{io_at} native needs {at}.cache none: QEMU cannot have it with a cache");
                check.invalid(&io_at, message);
            }
            Some(Io::Native)
        }
        vmi::Io::Other(_) => {
            let message =
                format!("Disk IO mode for {list} is not supported. Supported modes are: native, threads.");
            check.not_supported(io_at, message);
            None
        }
    }
}

fn errors(policy: Option<&vmi::ErrorPolicy>, at: &Path, check: &mut Check<'_>) -> ErrorPolicy {
    match policy {
        None | Some(vmi::ErrorPolicy::Stop) => ErrorPolicy::Stop,
        Some(vmi::ErrorPolicy::Ignore) => ErrorPolicy::Ignore,
        Some(vmi::ErrorPolicy::Report) => ErrorPolicy::Report,
        Some(vmi::ErrorPolicy::EnoSpace) => ErrorPolicy::EnoSpace,
        Some(vmi::ErrorPolicy::Other(word)) => {
            let at = at.child("errorPolicy");
            check.invalid(&at, format!("{at} has invalid value \"{word}\""));
            ErrorPolicy::Stop
        }
    }
}

fn blocks(size: &vmi::BlockSize, bus: Bus, at: &Path, check: &mut Check<'_>) -> Option<BlockSize> {
    let vmi::BlockSize { custom, match_volume, other: _ } = size;
    let matches =
        match_volume.as_ref().is_some_and(|vmi::FeatureState { enabled, other: _ }| enabled.unwrap_or(true));
    let Some(vmi::CustomBlockSize { logical, physical, discard_granularity, other: _ }) = custom else {
        return matches.then_some(BlockSize::MatchVolume);
    };
    if matches {
        check.invalid(at, "Block size matching can't be enabled together with a custom value");
        return None;
    }
    let at = at.child("custom");
    let (logical, physical) = (logical.unwrap_or(0), physical.unwrap_or(0));
    if logical > physical {
        let message =
            format!("Logical size {logical} must be the same or less than the physical size of {physical}");
        check.invalid(at.child("logical"), message);
        return None;
    }
    if bus == Bus::Sata && logical != *BLOCKS.start() {
        let message = format!("Logical size {logical} must be {} for SATA devices", BLOCKS.start());
        check.invalid(at.child("logical"), message);
        return None;
    }
    if let Some(size) = discard_granularity.filter(|size| logical != 0 && size % logical != 0) {
        let message = format!("Discard granularity {size} must be multiples of logical size {logical}");
        check.invalid(at.child("discardGranularity"), message);
        return None;
    }
    let mut power = |size: u64, name: &str| {
        let problem = if size < *BLOCKS.start() {
            format!("less than the supported minimum size of {}", BLOCKS.start())
        } else if size > *BLOCKS.end() {
            format!("greater than the supported maximum size of {}", BLOCKS.end())
        } else if !size.is_power_of_two() {
            "not a power of 2".to_owned()
        } else {
            return u32::try_from(size).ok();
        };
        check.invalid(at.child(name), format!("Provided size of {size} is {problem}"));
        None
    };
    let (logical, physical) = (power(logical, "logical"), power(physical, "physical"));
    let discard_granularity = discard_granularity.and_then(|size| {
        let right = u32::try_from(size).ok();
        if right.is_none() {
            let message = format!("Discard granularity {size} is greater than {}", u32::MAX);
            check.invalid(at.child("discardGranularity"), message);
        }
        right
    });
    Some(BlockSize::Custom { logical: logical?, physical: physical?, discard_granularity })
}
