//! Disks: the kind of device, its name, and its address.
//!
//! ```text
//!  disk ─┬─ driver   cache, io, discard, errors, threads, queues      (driver.rs)
//!        ├─ source   file or device, and the files below it           (source.rs)
//!        ├─ target   vda …, or sda … for all that speak SCSI
//!        └─ address  by position among those of the bus
//! ```

mod driver;
mod source;

use super::error::DomainError;
use super::host::{Blocks, DiskLocation, Medium};
use super::input::usb_address;
use super::pci_devices::{PciDevice, SATA_DRIVES};
use super::qemu_arguments::QemuArguments;
use super::xml::Element;
use super::{Domain, alias};
use api::machine::{BlockSize, Bus, Disk, Machine, Target};
use std::collections::BTreeMap;

impl Domain<'_> {
    /// A disk, by its position.
    pub(super) fn disk(
        &self,
        position: usize,
        qemu_arguments: &mut QemuArguments,
    ) -> Result<Element, DomainError> {
        let disk = self.machine.disks.get(position).ok_or_else(|| DomainError::unplaced("a disk"))?;
        let place = self.host.disks.get(&disk.name);
        let place = place.ok_or_else(|| DomainError::unplaced(format!("disk `{}`", disk.name)))?;
        check(disk, place, position)?;
        let (kind, source) = source::type_and_source(disk, place, position)?;
        let tray = matches!(disk.target, Target::CdRom { open: true }).then_some("open");
        let target = Element::new("target")
            .at("dev", self.target(position))
            .at("bus", bus(disk.bus))
            .maybe_at("tray", tray);
        Ok(Element::new("disk")
            .at("type", kind)
            .at("device", device(disk.target))
            .maybe_at("model", (disk.bus == Bus::Virtio).then(|| self.virtio()))
            .and(self.driver(position, disk, place)?)
            .with(source)
            .and(target)
            .with(disk.serial.as_ref().map(|serial| Element::of("serial", serial)))
            .with(self.boot_order(position).map(|order| Element::new("boot").at("order", order)))
            .with(blocks(disk, place, qemu_arguments))
            .with(is_readonly(disk).then(|| Element::new("readonly")))
            .with(disk.shareable.then(|| Element::new("shareable")))
            .and(alias(&disk.name))
            .with(self.disk_address(position, disk.bus)))
    }

    fn target(&self, position: usize) -> String {
        name(&self.machine.disks, position)
    }

    fn disk_address(&self, position: usize, on: Bus) -> Option<Element> {
        let before = self.machine.disks.iter().take(position).filter(|disk| disk.bus == on).count();
        let drive = |controller: usize, unit: usize| {
            let address = Element::new("address").at("type", "drive").at("controller", controller);
            Some(address.at("bus", 0).at("target", 0).at("unit", unit))
        };
        match on {
            Bus::Virtio => self.places.element(PciDevice::Disk(position)),
            Bus::Sata => drive(before / SATA_DRIVES, before % SATA_DRIVES),
            Bus::Scsi => drive(0, before),
            Bus::Usb => Some(usb_address(before + 1)),
        }
    }
}

/// The libvirt target of each disk, by the disk's name.
pub(super) fn targets(machine: &Machine) -> BTreeMap<String, String> {
    let disks = machine.disks.iter().enumerate();
    disks.map(|(position, disk)| (disk.name.clone(), name(&machine.disks, position))).collect()
}

fn name(disks: &[Disk], position: usize) -> String {
    let is_virtio = |disk: &Disk| disk.bus == Bus::Virtio;
    let virtio = disks.get(position).is_some_and(is_virtio);
    let before = disks.iter().take(position).filter(|disk| is_virtio(disk) == virtio).count();
    format!("{}{}", if virtio { "vd" } else { "sd" }, letters(before))
}

/// Letters of the target name of the `n`th disk: a, b, … z, aa, ab, …
fn letters(mut n: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'a' + (n % 26) as u8));
        if n < 26 {
            return letters.into_iter().rev().collect();
        }
        n = n / 26 - 1;
    }
}

fn device(target: Target) -> &'static str {
    match target {
        Target::Disk => "disk",
        Target::Lun => "lun",
        Target::CdRom { .. } => "cdrom",
    }
}

fn bus(bus: Bus) -> &'static str {
    match bus {
        Bus::Virtio => "virtio",
        Bus::Sata => "sata",
        Bus::Scsi => "scsi",
        Bus::Usb => "usb",
    }
}

fn is_readonly(disk: &Disk) -> bool {
    disk.readonly || matches!(disk.target, Target::CdRom { .. })
}

/// The path of a disk's field.
fn field(disk: &Disk, position: usize, name: &str) -> String {
    format!(
        "spec.domain.devices.disks[{position}].{}{name}",
        match disk.target {
            _ if !matches!(name, "bus" | "pciAddress" | "readonly") => "",
            Target::Disk => "disk.",
            Target::Lun => "lun.",
            Target::CdRom { .. } => "cdrom.",
        }
    )
}

/// Checks a disk for faults that show only on this host.
fn check(disk: &Disk, place: &DiskLocation, position: usize) -> Result<(), DomainError> {
    let refused = |name: &str, why: &str| Err(DomainError::refused(field(disk, position, name), why));
    match (disk.target, place) {
        (Target::Lun, place) if !is_passed_through(place) => {
            let path = format!("spec.domain.devices.disks[{position}].lun");
            Err(DomainError::refused(
                path,
                "commands are passed through to a block device, and this volume is a file",
            ))
        }
        (Target::Lun, _) if disk.bus != Bus::Scsi => {
            refused("bus", "commands are passed through on bus scsi alone")
        }
        (Target::CdRom { .. }, _) if disk.bus == Bus::Virtio => {
            refused("bus", "a CD-ROM needs bus sata, scsi or usb")
        }
        (Target::Disk, DiskLocation::Nothing) => Err(DomainError::unplaced(format!("disk `{}`", disk.name))),
        (Target::Disk, _) if disk.readonly && disk.bus == Bus::Sata => {
            refused("readonly", "a SATA disk cannot be read-only; virtio and scsi disks can")
        }
        (Target::Lun | Target::Disk | Target::CdRom { .. }, _) => Ok(()),
    }
}

/// True for a device without layers over it: it takes the guest's SCSI commands.
fn is_passed_through(place: &DiskLocation) -> bool {
    matches!(place, DiskLocation::Layers(layers) if layers.top.medium == Medium::Device)
}

fn blocks(disk: &Disk, place: &DiskLocation, qemu_arguments: &mut QemuArguments) -> Option<Element> {
    let Blocks { logical, physical, discard } = match disk.block_size? {
        BlockSize::Custom { logical, physical, discard_granularity } => {
            Blocks { logical, physical, discard: discard_granularity }
        }
        BlockSize::MatchVolume => match place {
            DiskLocation::Layers(layers) => layers.blocks?,
            DiskLocation::Nothing => return None,
        },
    };
    // QEMU's SATA disks support only sectors of 512 bytes.
    let matched = disk.block_size == Some(BlockSize::MatchVolume);
    let logical = if matched && disk.bus == Bus::Sata { 512 } else { logical };
    // libvirt has an element for it only since version 11.
    if let Some(size) = discard {
        qemu_arguments.property(format!("ua-{}", disk.name), "discard_granularity", u64::from(size));
    }
    Some(Element::new("blockio").at("logical_block_size", logical).at("physical_block_size", physical))
}

#[cfg(test)]
mod tests {
    use super::letters;

    #[test]
    fn the_letters_after_z_are_aa() {
        let some: Vec<_> = [0, 25, 26, 51, 52, 701, 702].into_iter().map(letters).collect();
        assert_eq!(some, ["a", "z", "aa", "az", "ba", "zz", "aaa"]);
    }
}
