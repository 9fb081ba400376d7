//! Which devices of a machine stand on the PCI bus.

use api::machine::{Bus, Chipset, Machine, Panic, PciAddress, Video};

/// A device on the PCI bus. Numbers begin at 0; those of disks and interfaces are of the machine's own lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seat {
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
    Disk(usize),
}

/// A device that wants a place.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// The device.
    pub seat: Seat,
    /// The same with its position among those of the kind that ask for no address.
    pub position: Seat,
    /// The address it asks for.
    pub own: Option<PciAddress>,
    /// What it is called in an error.
    pub who: String,
    /// The field that asks for the address.
    pub field: String,
}

/// Sata drives that one controller takes.
pub(super) const SATA_DRIVES: usize = 6;

impl Seat {
    /// Its number, for kinds that have more than one.
    pub(super) fn number(self) -> usize {
        match self {
            Seat::Port(n) | Seat::Interface(n) | Seat::Input(n) | Seat::Sata(n) | Seat::Disk(n) => n,
            Seat::Video | Seat::Usb | Seat::Scsi | Seat::Serial => 0,
            Seat::Balloon | Seat::Rng | Seat::Watchdog | Seat::Panic => 0,
        }
    }

    /// Its kind shares slots, so each slot says so from the beginning: a further device changes nothing of the first.
    pub(super) fn in_range(self) -> bool {
        matches!(self, Seat::Port(_) | Seat::Input(_) | Seat::Sata(_) | Seat::Disk(_))
    }

    /// The kind in an error.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Seat::Interface(_) => "interfaces",
            Seat::Input(_) => "virtio input devices",
            Seat::Sata(_) => "sata disks",
            Seat::Disk(_) => "virtio disks",
            Seat::Port(_) => "root ports",
            Seat::Video | Seat::Usb | Seat::Scsi | Seat::Serial => "controllers",
            Seat::Balloon | Seat::Rng | Seat::Watchdog | Seat::Panic => "devices",
        }
    }
}

/// The devices of a machine, without its root ports.
pub(super) fn wishes(machine: &Machine) -> Vec<Wish> {
    let mut wishes = Vec::new();
    let mut plain = |there: bool, seat: Seat, who: &str| {
        if there {
            wishes.push(Wish { seat, position: seat, own: None, who: who.into(), field: String::new() });
        }
    };
    plain(has_pci_screen(machine), Seat::Video, "the screen");
    plain(has_usb(machine), Seat::Usb, "the usb controller");
    plain(has_scsi(machine), Seat::Scsi, "the scsi controller");
    plain(true, Seat::Serial, "the controller of the agent's channel");
    plain(machine.balloon, Seat::Balloon, "the balloon");
    plain(machine.rng, Seat::Rng, "the source of randomness");
    plain(machine.watchdog.is_some(), Seat::Watchdog, "the watchdog");
    plain(machine.panics.contains(&Panic::Pvpanic), Seat::Panic, "the panic device");
    for n in 0..machine.inputs.iter().filter(|input| input.virtio).count() {
        plain(true, Seat::Input(n), "an input device");
    }
    for n in 0..sata_controllers(machine) {
        plain(true, Seat::Sata(n), "a sata controller");
    }
    let mut nth = 0;
    for (n, nic) in machine.interfaces.iter().enumerate() {
        wishes.push(Wish {
            seat: Seat::Interface(n),
            position: Seat::Interface(nth),
            own: nic.pci_address,
            who: format!("interface `{}`", nic.name),
            field: format!("spec.domain.devices.interfaces[{n}].pciAddress"),
        });
        nth += usize::from(nic.pci_address.is_none());
    }
    let mut nth = 0;
    for (n, disk) in machine.disks.iter().enumerate().filter(|(_, disk)| disk.bus == Bus::Virtio) {
        wishes.push(Wish {
            seat: Seat::Disk(n),
            position: Seat::Disk(nth),
            own: disk.pci_address,
            who: format!("disk `{}`", disk.name),
            field: format!("spec.domain.devices.disks[{n}].disk.pciAddress"),
        });
        nth += usize::from(disk.pci_address.is_none());
    }
    wishes
}

/// Sata controllers that stand on the bus as devices of their own. The first of a q35 board is part of its chipset.
pub(super) fn sata_controllers(machine: &Machine) -> usize {
    let drives = machine.disks.iter().filter(|disk| disk.bus == Bus::Sata).count();
    let all = drives.div_ceil(SATA_DRIVES);
    match machine.chipset {
        Chipset::Q35 => all.saturating_sub(1),
        Chipset::I440fx => all,
    }
}

/// Whether there is something for a usb controller to control.
pub(super) fn has_usb(machine: &Machine) -> bool {
    machine.disks.iter().any(|disk| disk.bus == Bus::Usb) || machine.inputs.iter().any(|input| !input.virtio)
}

/// Whether there is a scsi controller: for disks that are there, and for those that come later.
pub(super) fn has_scsi(machine: &Machine) -> bool {
    !machine.no_hotplug || machine.disks.iter().any(|disk| disk.bus == Bus::Scsi)
}

fn has_pci_screen(machine: &Machine) -> bool {
    match &machine.video {
        None => false,
        Some(Video::Default) => true,
        // It lives in the guest's memory.
        Some(Video::Model(model)) => model != "ramfb" && model != "none",
    }
}
