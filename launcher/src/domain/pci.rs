//! The PCI address of each device. All addresses are in the XML, so that libvirt chooses none: a guest names
//! its devices by them, and they must be the same after every start.
//!
//! ```text
//!  slot   q35 (bus pcie.0)                     i440fx (bus pci.0)
//!  00     host bridge                          host bridge
//!  01     screen                               chipset
//!  02     root ports 1-8   ─► bus 1: 1st nic   screen
//!  03-05  root ports 9-32  ─► bus 9: 1st       03-0a  interfaces, one a slot
//!         device of the node
//!  06-0b  usb scsi serial balloon rng watchdog 0b-10  the same
//!  0c     inputs, 8                            11     inputs, 8
//!  0d     file systems, 8                      12     sata controllers 1-8
//!  0e     panic                                13     panic
//!  0f     sound                                14-17  virtio disks, 8 a slot
//!  10-17  virtio disks, 8 a slot               18-1c  devices of the node, one a slot; free
//!  18-1d  free                                        without them, and for hotplugged devices
//!  1e     vsock; free without one              1d     vsock; free without one
//!                                              1e     file systems, 8
//!  1f     chipset, sata controllers 1-5        1f     sound
//! ```
//!
//! - Each kind of device has its own range. Its devices stand there by their position among those of the kind
//!   without an address in the spec. So an appended device moves no other.
//! - On q35 interfaces stand behind root ports: they can be unplugged while the guest runs, and the first is
//!   `enp1s0`, the second `enp2s0`, as existing manifests expect. Root ports stand in order and at the end of
//!   no other range, so a further one changes no bus number. Some are always spare for hotplug, unless the VM
//!   forbids it. All other devices are part of the root complex, where the firmware cannot move them.
//! - An address of the spec is used if it exists and is free.

use super::error::DomainError;
use super::host_device::HostAddress;
use super::pci_devices::{self, PciDevice, PciRequest};
use super::xml::Element;
use api::machine::{Chipset, Machine, PciAddress};
use std::collections::BTreeMap;

/// Most root ports of machine type q35.
pub(super) const PORTS: usize = 32;
/// Root ports of every VM, before those of host devices; also the number of spare ones for hotplug.
const USUAL: usize = 8;
const SPARE: usize = 4;

/// The PCI address of each device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Places {
    chipset: Chipset,
    devices: BTreeMap<PciDevice, PciAddress>,
    taken: BTreeMap<PciAddress, String>,
}

impl Places {
    /// The addresses of a VM's devices. `host_devices`: those of the host.
    pub(super) fn of(machine: &Machine, host_devices: &[Vec<HostAddress>]) -> Result<Places, DomainError> {
        let chipset = machine.chipset;
        let mut places = Places { chipset, devices: BTreeMap::new(), taken: BTreeMap::new() };
        for (slot, functions) in built_in(chipset) {
            for function in 0..functions {
                places.taken.insert(on_root(slot, function), "the chipset".into());
            }
        }
        for port in 0..ports(machine)? {
            places.take(
                PciDevice::Port(port),
                home(chipset, PciDevice::Port(port))?,
                format!("root port {}", port + 1),
            )?;
        }
        let (own, given): (Vec<PciRequest>, Vec<PciRequest>) = pci_devices::requests(machine, host_devices)
            .into_iter()
            .partition(|request| request.own.is_some());
        for request in given {
            places.take(request.device, home(chipset, request.position)?, request.who)?;
        }
        let mut fields = Vec::new();
        for PciRequest { device, own, who, field, .. } in own {
            let Some(address) = own else { continue };
            exists(chipset, address).map_err(|why| DomainError::refused(&field, why))?;
            places.take(device, address, who)?;
            fields.push((field, address));
        }
        for (field, address) in fields {
            if !places.taken.contains_key(&PciAddress { function: 0, ..address }) {
                let why = format!(
                    "function 0 of that slot is empty, so no guest would find {}; give function 0 to a device too",
                    address
                );
                return Err(DomainError::refused(field, why));
            }
        }
        Ok(places)
    }

    /// The address of a device; `None` where the VM has no such device.
    pub(super) fn get(&self, device: PciDevice) -> Option<PciAddress> {
        self.devices.get(&device).copied()
    }

    /// The number of root ports.
    pub(super) fn ports(&self) -> usize {
        self.devices.keys().filter(|device| matches!(device, PciDevice::Port(_))).count()
    }

    /// True if the slot of the device may hold other devices too (`multifunction`).
    pub(super) fn shares_slot(&self, device: PciDevice) -> bool {
        let Some(address) = self.get(device) else { return false };
        let others = PciAddress { function: 1, ..address }..=PciAddress { function: 7, ..address };
        address.function == 0 && (device.in_range() || self.taken.range(others).next().is_some())
    }

    /// The `<address>` of a device, if the VM has it.
    pub(super) fn element(&self, device: PciDevice) -> Option<Element> {
        let element = element(self.get(device)?);
        Some(if self.shares_slot(device) { element.at("multifunction", "on") } else { element })
    }

    fn take(&mut self, device: PciDevice, address: PciAddress, who: String) -> Result<(), DomainError> {
        if let Some(first) = self.taken.get(&address) {
            return Err(DomainError::Taken {
                address,
                first: first.clone(),
                second: who,
                free: self.free_slots(),
            });
        }
        self.taken.insert(address, who);
        self.devices.insert(device, address);
        Ok(())
    }

    /// The slots without a kind of device, for a message.
    fn free_slots(&self) -> String {
        let has_vsock = self.get(PciDevice::Vsock).is_some();
        let host_devices = match self.chipset {
            Chipset::Q35 => 0,
            Chipset::I440fx => (0..5).filter(|n| self.get(PciDevice::HostDevice(*n)).is_some()).count(),
        };
        let last = match (self.chipset, has_vsock) {
            (Chipset::Q35, false) => 0x1e,
            (Chipset::Q35, true) | (Chipset::I440fx, false) => 0x1d,
            (Chipset::I440fx, true) => 0x1c,
        };
        match 0x18 + host_devices {
            first if first < last => {
                format!("0000:00:{first:02x}.0 to 0000:00:{last:02x}.0 are free for such requests")
            }
            first if first == last => format!("0000:00:{last:02x}.0 is free for such requests"),
            _ => "none is free for such requests".to_owned(),
        }
    }
}

/// The `<address>` element of a PCI address.
pub(super) fn element(PciAddress { domain, bus, slot, function }: PciAddress) -> Element {
    Element::new("address")
        .at("type", "pci")
        .at("domain", format!("0x{domain:04x}"))
        .at("bus", format!("0x{bus:02x}"))
        .at("slot", format!("0x{slot:02x}"))
        .at("function", format!("0x{function:x}"))
}

/// An address on the root bus.
pub(super) fn on_root(slot: u8, function: u8) -> PciAddress {
    PciAddress { domain: 0, bus: 0, slot, function }
}

/// Slots of the chipset, with the number of functions of each.
fn built_in(chipset: Chipset) -> [(u8, u8); 2] {
    match chipset {
        // The remaining functions of the last slot are for more SATA controllers.
        Chipset::Q35 => [(0, 8), (0x1f, 4)],
        Chipset::I440fx => [(0, 8), (1, 8)],
    }
}

/// The number of root ports of a VM.
fn ports(machine: &Machine) -> Result<usize, DomainError> {
    if machine.chipset != Chipset::Q35 {
        return Ok(0);
    }
    let nics = machine.interfaces.iter().filter(|nic| nic.pci_address.is_none()).count();
    if nics > PORTS {
        return Err(DomainError::NoRoom {
            what: "interfaces",
            limit: PORTS,
            on: machine_type(machine.chipset),
        });
    }
    let disks = machine.disks.iter().filter_map(|disk| disk.pci_address);
    let own = disks.chain(machine.interfaces.iter().filter_map(|nic| nic.pci_address));
    // A bus that does not exist is refused later, with its field.
    let buses = own.map(|address| usize::from(address.bus)).filter(|bus| *bus <= PORTS).max().unwrap_or(0);
    let devices = machine.host_devices.len();
    if devices > 0 {
        if nics > USUAL {
            return Err(DomainError::NoRoom {
                what: "interfaces beside devices of the node",
                limit: USUAL,
                on: machine_type(machine.chipset),
            });
        }
        // Ports without an interface are the spare ones.
        return Ok(USUAL.saturating_add(devices).max(buses).min(PORTS));
    }
    let needed = nics.max(buses);
    Ok(if machine.no_hotplug { needed } else { (needed + SPARE).clamp(USUAL, PORTS) })
}

fn machine_type(chipset: Chipset) -> &'static str {
    match chipset {
        Chipset::Q35 => "machine type q35",
        Chipset::I440fx => "machine type i440fx",
    }
}

/// The default address of a device, by its position.
fn home(chipset: Chipset, device: PciDevice) -> Result<PciAddress, DomainError> {
    let q35 = chipset == Chipset::Q35;
    let pick = |q35_slot: u8, i440fx_slot: u8| if q35 { q35_slot } else { i440fx_slot };
    let no_room = |limit| DomainError::NoRoom { what: device.plural(), limit, on: machine_type(chipset) };
    // First slot, limit of the kind, and number of its devices in one slot.
    let (slot, limit, in_slot) = match device {
        PciDevice::Video => (pick(0x01, 0x02), 1, 1),
        PciDevice::Port(_) => (0x02, PORTS, 8),
        // Behind a root port, or in its own slot: a guest names an interface by its slot.
        PciDevice::Interface(n) if q35 => {
            return Ok(PciAddress { domain: 0, bus: n as u8 + 1, slot: 0, function: 0 });
        }
        PciDevice::Interface(_) => (0x03, 8, 1),
        PciDevice::Usb => (pick(0x06, 0x0b), 1, 1),
        PciDevice::Scsi => (pick(0x07, 0x0c), 1, 1),
        PciDevice::Serial => (pick(0x08, 0x0d), 1, 1),
        PciDevice::Balloon => (pick(0x09, 0x0e), 1, 1),
        PciDevice::Rng => (pick(0x0a, 0x0f), 1, 1),
        PciDevice::Watchdog => (pick(0x0b, 0x10), 1, 1),
        PciDevice::Input(_) => (pick(0x0c, 0x11), 8, 8),
        // After those of the chipset, since a guest finds disks in the order of the bus.
        PciDevice::Sata(n) if q35 && n < 4 => return Ok(on_root(0x1f, 4 + n as u8)),
        PciDevice::Sata(_) if q35 => return Err(no_room(30)),
        PciDevice::Sata(n) if n >= 8 => return Err(no_room(48)),
        PciDevice::Sata(_) => (0x12, 8, 8),
        PciDevice::Panic => (pick(0x0e, 0x13), 1, 1),
        PciDevice::Filesystem(_) => (pick(0x0d, 0x1e), 8, 8),
        PciDevice::Sound => (pick(0x0f, 0x1f), 1, 1),
        PciDevice::Vsock => (pick(0x1e, 0x1d), 1, 1),
        PciDevice::HostDevice(n) if q35 && n >= PORTS - USUAL => return Err(no_room(PORTS - USUAL)),
        PciDevice::HostDevice(n) if q35 => {
            return Ok(PciAddress { domain: 0, bus: (USUAL + n) as u8 + 1, slot: 0, function: 0 });
        }
        PciDevice::HostDevice(_) => (0x18, 5, 1),
        PciDevice::Disk(_) => (pick(0x10, 0x14), if q35 { 64 } else { 32 }, 8),
    };
    let n = device.number();
    if n >= limit {
        return Err(no_room(limit));
    }
    Ok(on_root(slot + (n / in_slot) as u8, (n % in_slot) as u8))
}

/// Checks that the address exists on this machine type.
fn exists(chipset: Chipset, address: PciAddress) -> Result<(), String> {
    let PciAddress { domain, bus, slot, function } = address;
    let shown = address;
    if domain != 0 {
        return Err(format!("{shown} is in PCI domain {domain:04x}; there is only domain 0000"));
    }
    if slot > 0x1f || function > 7 {
        return Err(format!("{shown} is not a PCI address: slots end at 1f, functions at 7"));
    }
    match (chipset, bus) {
        (_, 0) => Ok(()),
        (Chipset::Q35, 1..=32) if slot == 0 => Ok(()),
        (Chipset::Q35, 1..=32) => {
            Err(format!("{shown}: bus {bus:02x} is a root port, which has slot 00 alone"))
        }
        (Chipset::Q35, _) => Err(format!("{shown}: machine type q35 has the buses 00 to 20")),
        (Chipset::I440fx, _) => Err(format!("{shown}: machine type i440fx has bus 00 alone")),
    }
}
