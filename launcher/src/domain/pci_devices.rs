//! The devices of a VM that stand on the PCI bus.

use super::host_device::{self, HostAddress};
use api::machine::{Bus, Chipset, Machine, Panic, PciAddress, Video};

/// A device on the PCI bus. Numbers begin at 0; those of disks and interfaces are positions in the VM's own
/// lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PciDevice {
    Video,
    Port(usize),
    Interface(usize),
    Usb,
    Scsi,
    Serial,
    Balloon,
    Rng,
    Watchdog,
    Input(usize),
    Sata(usize),
    Panic,
    Filesystem(usize),
    Sound,
    Vsock,
    HostDevice(usize),
    Disk(usize),
}

/// A device that needs an address.
#[derive(Clone, Debug)]
pub(super) struct PciRequest {
    pub device: PciDevice,
    /// The device with its position among the devices of the kind without an address in the spec.
    pub position: PciDevice,
    /// Address in the spec.
    pub own: Option<PciAddress>,
    /// Name of the device in error messages.
    pub who: String,
    /// Path of the address field.
    pub field: String,
}

pub(super) const SATA_DRIVES: usize = 6;

impl PciDevice {
    /// Number of the device, for kinds that have more than one.
    pub(super) fn number(self) -> usize {
        match self {
            PciDevice::Port(n)
            | PciDevice::Interface(n)
            | PciDevice::Input(n)
            | PciDevice::Sata(n)
            | PciDevice::Filesystem(n)
            | PciDevice::HostDevice(n)
            | PciDevice::Disk(n) => n,
            PciDevice::Video | PciDevice::Usb | PciDevice::Scsi | PciDevice::Serial => 0,
            PciDevice::Balloon | PciDevice::Rng | PciDevice::Watchdog | PciDevice::Panic => 0,
            PciDevice::Sound | PciDevice::Vsock => 0,
        }
    }

    /// True if the kind shares slots. Its slots are marked as shared from the start, so that a further device
    /// does not change the first.
    pub(super) fn in_range(self) -> bool {
        match self {
            PciDevice::Port(_) | PciDevice::Input(_) | PciDevice::Sata(_) => true,
            PciDevice::Filesystem(_) | PciDevice::Disk(_) => true,
            PciDevice::Video | PciDevice::Interface(_) | PciDevice::Usb | PciDevice::Scsi => false,
            PciDevice::Serial | PciDevice::Balloon | PciDevice::Rng | PciDevice::Watchdog => false,
            PciDevice::Panic | PciDevice::Sound | PciDevice::Vsock | PciDevice::HostDevice(_) => false,
        }
    }

    /// Name of the kind in errors.
    pub(super) fn plural(self) -> &'static str {
        match self {
            PciDevice::Interface(_) => "interfaces",
            PciDevice::Input(_) => "virtio input devices",
            PciDevice::Sata(_) => "SATA disks",
            PciDevice::Disk(_) => "virtio disks",
            PciDevice::Filesystem(_) => "file systems",
            PciDevice::HostDevice(_) => "devices of the node (gpus and hostDevices)",
            PciDevice::Port(_) => "root ports",
            PciDevice::Video | PciDevice::Usb | PciDevice::Scsi | PciDevice::Serial => "controllers",
            PciDevice::Balloon | PciDevice::Rng | PciDevice::Watchdog | PciDevice::Panic => "devices",
            PciDevice::Sound | PciDevice::Vsock => "devices",
        }
    }
}

/// The devices of a VM, without its root ports. `host_devices`: those of the host.
pub(super) fn requests(machine: &Machine, host_devices: &[Vec<HostAddress>]) -> Vec<PciRequest> {
    let mut requests = Vec::new();
    let mut plain = |there: bool, device: PciDevice, who: &str| {
        if there {
            requests.push(PciRequest {
                device,
                position: device,
                own: None,
                who: who.into(),
                field: String::new(),
            });
        }
    };
    plain(has_pci_screen(machine), PciDevice::Video, "the screen");
    let usb = has_usb(machine) || host_device::has_usb(host_devices);
    plain(usb, PciDevice::Usb, "the USB controller");
    plain(has_scsi(machine), PciDevice::Scsi, "the SCSI controller");
    plain(true, PciDevice::Serial, "the controller of the guest agent's channel");
    plain(machine.balloon, PciDevice::Balloon, "the balloon");
    plain(machine.rng, PciDevice::Rng, "the source of randomness");
    plain(machine.watchdog.is_some(), PciDevice::Watchdog, "the watchdog");
    plain(machine.panics.contains(&Panic::Pvpanic), PciDevice::Panic, "the panic device");
    plain(machine.sound.is_some(), PciDevice::Sound, "the sound card");
    plain(machine.vsock, PciDevice::Vsock, "the VSOCK device");
    // A request even for an entry that turns out to be on USB: so the others keep their addresses when it
    // goes.
    for n in 0..machine.host_devices.len() {
        plain(true, PciDevice::HostDevice(n), "a device of the node");
    }
    for n in 0..machine.filesystems.len() {
        plain(true, PciDevice::Filesystem(n), "a file system");
    }
    for n in 0..machine.inputs.iter().filter(|input| input.virtio).count() {
        plain(true, PciDevice::Input(n), "an input device");
    }
    for n in 0..sata_controllers(machine) {
        plain(true, PciDevice::Sata(n), "a SATA controller");
    }
    let mut nth = 0;
    for (n, nic) in machine.interfaces.iter().enumerate() {
        requests.push(PciRequest {
            device: PciDevice::Interface(n),
            position: PciDevice::Interface(nth),
            own: nic.pci_address,
            who: format!("interface `{}`", nic.name),
            field: format!("spec.domain.devices.interfaces[{n}].pciAddress"),
        });
        nth += usize::from(nic.pci_address.is_none());
    }
    let mut nth = 0;
    for (n, disk) in machine.disks.iter().enumerate().filter(|(_, disk)| disk.bus == Bus::Virtio) {
        requests.push(PciRequest {
            device: PciDevice::Disk(n),
            position: PciDevice::Disk(nth),
            own: disk.pci_address,
            who: format!("disk `{}`", disk.name),
            field: format!("spec.domain.devices.disks[{n}].disk.pciAddress"),
        });
        nth += usize::from(disk.pci_address.is_none());
    }
    requests
}

/// SATA controllers that stand on the bus as own devices. The first one of machine type q35 is part of its
/// chipset.
pub(super) fn sata_controllers(machine: &Machine) -> usize {
    let drives = machine.disks.iter().filter(|disk| disk.bus == Bus::Sata).count();
    let all = drives.div_ceil(SATA_DRIVES);
    match machine.chipset {
        Chipset::Q35 => all.saturating_sub(1),
        Chipset::I440fx => all,
    }
}

/// True if the spec has a device for a USB controller.
fn has_usb(machine: &Machine) -> bool {
    machine.usb_redirection
        || machine.disks.iter().any(|disk| disk.bus == Bus::Usb)
        || machine.inputs.iter().any(|input| !input.virtio)
}

/// True if there is a SCSI controller: for SCSI disks, and for hotplug.
pub(super) fn has_scsi(machine: &Machine) -> bool {
    !machine.no_hotplug || machine.disks.iter().any(|disk| disk.bus == Bus::Scsi)
}

fn has_pci_screen(machine: &Machine) -> bool {
    match &machine.video {
        None => false,
        Some(Video::Default) => true,
        // A ramfb lives in the guest's memory.
        Some(Video::Model(model)) => model != "ramfb" && model != "none",
    }
}
