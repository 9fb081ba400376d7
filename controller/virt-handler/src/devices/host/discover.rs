//! Discovery of the node's devices that VMIs may have, by the rules of the KubeVirt object.
//!
//! ```text
//!  bus/pci/devices   driver is vfio-pci ─┐
//!                    whole IOMMU group ──┼─► units by IOMMU group ─┐
//!  bus/mdev/devices  type ───────────────┘                         ├─► the first rule that selects one has it: offered once
//!  bus/usb/devices   no hub, not in use ─► one of each selector ───┘   (what a pod was given stays in its set: [`UsbAssignments`])
//! ```
//!
//! The kernel assigns an IOMMU group to one process. So a unit is a whole group, and its device is the first
//! one of the group that the rule selects. A group with a device that another driver uses is not offered:
//! QEMU could not open it.

use super::assignments::{BETWEEN, UsbAssignments};
use super::in_use::InUse;
use super::sysfs::{Sysfs, decimal, hexadecimal, text};
use crate::error::Result;
use api::machine::PciAddress;
use api::machine::host_device::{MEDIATED, PCI, USB};
use api::machine::permitted::{Ids, Permitted, Selector};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Most units of one resource on one node.
const UNITS: usize = 1024;
/// Most notes that are kept.
const NOTES: usize = 32;
/// Driver of devices that are free for VMIs.
const VFIO: [&str; 1] = ["vfio-pci"];
/// Name of a group that vfio-pci creates without an IOMMU; its device file has another name.
const UNSAFE: &str = "vfio-noiommu";
/// Drivers that other devices of a group may have.
const BESIDE: [&str; 3] = ["vfio-pci", "pci-stub", "pcieport"];

/// Devices that a container gets together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Device ID for the kubelet; unique on the node.
    pub(super) id: String,
    /// Prefix of the launcher's environment variable.
    pub(super) prefix: &'static str,
    /// Device addresses, as passed to the launcher.
    pub(super) addresses: Vec<String>,
    /// Device files below `/dev`.
    pub(super) nodes: Vec<String>,
    /// The NUMA node of the device.
    pub(super) numa: Option<u32>,
}

impl Unit {
    /// True if the unit is one of these mediated devices.
    pub(super) fn is_of(&self, uuids: &BTreeSet<String>) -> bool {
        self.prefix == MEDIATED && self.addresses.iter().any(|uuid| uuids.contains(uuid))
    }
}

/// Result of a discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Discovery {
    /// Devices that are offered, by the name of their extended resource.
    pub(super) units: BTreeMap<String, Vec<Unit>>,
    /// Reasons why devices that a rule selects are not offered.
    pub(super) notes: BTreeSet<String>,
}

/// Discovers devices below `sysfs`.
pub(super) fn discover(
    sysfs: &Path,
    permitted: &Permitted,
    in_use: &InUse,
    given: &UsbAssignments,
) -> Result<Discovery> {
    let sysfs = Sysfs::open(sysfs)?;
    let wants = |is: fn(&Selector) -> bool| permitted.offered().any(|rule| is(&rule.selector));
    let usb = match wants(|selector| matches!(selector, Selector::Usb(_))) {
        true => usb_devices(&sysfs)?,
        false => Vec::new(),
    };
    let (held, usb): (Vec<_>, Vec<_>) =
        usb.into_iter().partition(|device| given.find_set(&device.port, &device.address()).is_some());
    let mut nodes = Nodes {
        pci: match wants(|selector| matches!(selector, Selector::Pci(_))) {
            true => pci_devices(&sysfs)?,
            false => Vec::new(),
        },
        mediated: match wants(|selector| matches!(selector, Selector::Mediated(_))) {
            true => mediated_devices(&sysfs)?,
            false => Vec::new(),
        },
        usb,
        held,
        sysfs,
        groups: BTreeSet::new(),
        notes: BTreeSet::new(),
    };
    let mut units: BTreeMap<String, Vec<Unit>> = BTreeMap::new();
    for rule in permitted.offered() {
        let found = match &rule.selector {
            Selector::Pci(ids) => nodes.pci_of(*ids, &rule.resource),
            Selector::Mediated(name) => nodes.mediated_of(name),
            Selector::Usb(selectors) => nodes.usb_of(selectors, &rule.resource, in_use, given),
        };
        let all = units.entry(rule.resource.clone()).or_default();
        let room = UNITS.saturating_sub(all.len());
        all.extend(found.into_iter().take(room));
    }
    for device in std::mem::take(&mut nodes.held) {
        let set = given.find_set(&device.port, &device.address()).unwrap_or_default();
        nodes.note(|| {
            format!(
                "USB device {} is not offered: a pod was given it as part of {set}, which is incomplete now, or which no rule \
                 selects; plug it in again, or restart virt-handler on this node when no VMI has it",
                device.port
            )
        });
    }
    units.retain(|_, all| !all.is_empty());
    Ok(Discovery { units, notes: nodes.notes })
}

/// Devices of the node that no rule has taken yet.
struct Nodes {
    sysfs: Sysfs,
    pci: Vec<PciDevice>,
    mediated: Vec<Mediated>,
    usb: Vec<UsbDevice>,
    /// USB devices that pods were given.
    held: Vec<UsbDevice>,
    /// IOMMU groups that a resource has taken.
    groups: BTreeSet<u32>,
    notes: BTreeSet<String>,
}

struct PciDevice {
    address: PciAddress,
    ids: Ids,
}

struct Mediated {
    uuid: String,
    name: String,
    group: u32,
}

struct UsbDevice {
    port: String,
    ids: Ids,
    bus: u16,
    number: u16,
}

impl UsbDevice {
    fn address(&self) -> String {
        format!("{}:{}", self.bus, self.number)
    }
}

impl Nodes {
    fn pci_of(&mut self, ids: Ids, resource: &str) -> Vec<Unit> {
        let mut units = Vec::new();
        let (selected, others) =
            std::mem::take(&mut self.pci).into_iter().partition(|device| device.ids == ids);
        self.pci = others;
        let selected: Vec<PciDevice> = selected;
        for PciDevice { address, .. } in selected {
            match self.free_group(address) {
                Ok(group) if self.groups.insert(group) => units.push(Unit {
                    id: group.to_string(),
                    prefix: PCI,
                    addresses: vec![address.to_string()],
                    nodes: vfio(group),
                    numa: self.numa(address),
                }),
                Ok(group) => self.note(|| {
                    format!("{address} is not offered as {resource}: its IOMMU group {group} is offered with another device")
                }),
                Err(why) => self.note(|| format!("{address} is not offered as {resource}: {why}")),
            }
        }
        units
    }

    /// IOMMU group of a PCI device, if the device has the driver vfio-pci and the node uses no device of the
    /// group.
    fn free_group(&self, address: PciAddress) -> Result<u32, String> {
        let path = pci_path(&address.to_string());
        if !self.sysfs.is_driven(&path, &VFIO, false) {
            return Err("its driver is not vfio-pci".to_owned());
        }
        let Some(group) = self.sysfs.numbered(&path, "iommu_group", "kernel/iommu_groups") else {
            return Err(
                "it has no IOMMU group; switch the IOMMU on (intel_iommu=on, amd_iommu=on)".to_owned()
            );
        };
        let path = format!("kernel/iommu_groups/{group}");
        let is_made_up =
            self.sysfs.folder(&path).is_ok_and(|group| text(&group, "name").is_ok_and(|name| name == UNSAFE));
        if is_made_up {
            return Err("vfio-pci has it without an IOMMU (enable_unsafe_noiommu_mode)".to_owned());
        }
        let members = self.sysfs.names(&format!("{path}/devices"));
        let members = members.map_err(|e| e.chain())?;
        let in_the_way = members.iter().find(|name| {
            let Some(member) = PciAddress::parse(name) else { return true };
            member != address && !self.sysfs.is_driven(&pci_path(&member.to_string()), &BESIDE, true)
        });
        match in_the_way {
            None => Ok(group),
            Some(name) => {
                let name: String = name.chars().take(64).collect();
                Err(format!("{name:?} of the same IOMMU group {group} has a driver of the node"))
            }
        }
    }

    fn numa(&self, address: PciAddress) -> Option<u32> {
        let folder = self.sysfs.folder(&pci_path(&address.to_string())).ok()?;
        // -1 means none.
        decimal(&text(&folder, "numa_node").ok()?)
    }

    fn mediated_of(&mut self, name: &str) -> Vec<Unit> {
        let (selected, others): (Vec<Mediated>, Vec<Mediated>) =
            std::mem::take(&mut self.mediated).into_iter().partition(|device| device.name == name);
        self.mediated = others;
        let free = selected.into_iter().filter(|device| self.groups.insert(device.group));
        free.map(|Mediated { uuid, group, .. }| Unit {
            id: group.to_string(),
            prefix: MEDIATED,
            addresses: vec![uuid],
            nodes: vfio(group),
            numa: None,
        })
        .collect()
    }

    fn usb_of(
        &mut self,
        selectors: &[Ids],
        resource: &str,
        in_use: &InUse,
        given: &UsbAssignments,
    ) -> Vec<Unit> {
        let held =
            given.sets(resource).filter_map(|id| self.held_set(selectors, (resource, id), in_use, given));
        let mut units: Vec<Unit> = held.map(|devices| usb_unit(&devices)).collect();
        while units.len() < UNITS {
            let Some(devices) = self.usb_set(selectors, resource, in_use) else { break };
            units.push(usb_unit(&devices));
        }
        units.sort_by(|one, other| one.id.cmp(&other.id));
        units
    }

    /// Devices of a set that a pod was given, if all of them are present.
    fn held_set(
        &mut self,
        selectors: &[Ids],
        (resource, id): (&str, &str),
        in_use: &InUse,
        given: &UsbAssignments,
    ) -> Option<Vec<UsbDevice>> {
        let place = |held: &[UsbDevice], (ids, port): (&Ids, &str)| {
            held.iter().position(|device| {
                device.ids == *ids
                    && device.port == port
                    && given.contains(resource, id, port, &device.address())
            })
        };
        let is_there = |one| {
            let device = place(&self.held, one).and_then(|at| self.held.get(at));
            let folder = device.and_then(|device| self.sysfs.folder(&usb_path(&device.port)).ok());
            folder.is_some_and(|folder| in_use.reason(&folder).is_none())
        };
        let ports: Vec<&str> = id.split(BETWEEN).collect();
        let set = || selectors.iter().zip(ports.iter().copied());
        if selectors.len() != ports.len() || !set().all(is_there) {
            return None;
        }
        set().map(|one| Some(self.held.remove(place(&self.held, one)?))).collect()
    }

    /// One device for each selector; `None` if one is missing.
    fn usb_set(&mut self, selectors: &[Ids], resource: &str, in_use: &InUse) -> Option<Vec<UsbDevice>> {
        let mut set: Vec<UsbDevice> = Vec::new();
        for ids in selectors {
            let found = loop {
                let Some(at) = self.usb.iter().position(|device| device.ids == *ids) else { break None };
                let device = self.usb.remove(at);
                let folder = self.sysfs.folder(&usb_path(&device.port));
                match folder.map_or_else(|e| Some(e.chain()), |folder| in_use.reason(&folder)) {
                    None => break Some(device),
                    Some(why) => {
                        self.note(|| {
                            format!("USB device {} is not offered as {resource}: {why}", device.port)
                        });
                    }
                }
            };
            match found {
                Some(device) => set.push(device),
                None => {
                    // Devices that were taken for the other selectors are free for another rule.
                    self.usb.extend(set);
                    return None;
                }
            }
        }
        Some(set)
    }

    fn note(&mut self, note: impl FnOnce() -> String) {
        match self.notes.len() {
            NOTES => {
                self.notes.insert("further devices are not offered; their reasons are omitted".to_owned())
            }
            fewer if fewer < NOTES => self.notes.insert(note()),
            _ => false,
        };
    }
}

fn usb_unit(devices: &[UsbDevice]) -> Unit {
    Unit {
        id: devices.iter().map(|device| device.port.as_str()).collect::<Vec<_>>().join(BETWEEN),
        prefix: USB,
        addresses: devices.iter().map(UsbDevice::address).collect(),
        nodes: devices
            .iter()
            .map(|device| format!("/dev/bus/usb/{:03}/{:03}", device.bus, device.number))
            .collect(),
        numa: None,
    }
}

fn pci_path(address: &str) -> String {
    format!("bus/pci/devices/{address}")
}

fn usb_path(port: &str) -> String {
    format!("bus/usb/devices/{port}")
}

fn vfio(group: u32) -> Vec<String> {
    vec!["/dev/vfio/vfio".to_owned(), format!("/dev/vfio/{group}")]
}

/// All PCI devices by address. Entries without an address as their name, and devices that were removed
/// meanwhile, are skipped.
fn pci_devices(sysfs: &Sysfs) -> Result<Vec<PciDevice>> {
    let names = sysfs.names("bus/pci/devices")?;
    let device = |name: &String| {
        let address = PciAddress::parse(name)?;
        let folder = sysfs.folder(&pci_path(name)).ok()?;
        let number = |attribute| hexadecimal(&text(&folder, attribute).ok()?);
        Some(PciDevice { address, ids: Ids { vendor: number("vendor")?, product: number("device")? } })
    };
    let mut devices: Vec<_> = names.iter().filter_map(device).collect();
    devices.sort_by_key(|device| device.address);
    Ok(devices)
}

fn mediated_devices(sysfs: &Sysfs) -> Result<Vec<Mediated>> {
    let names = sysfs.names("bus/mdev/devices")?;
    let device = |name: &String| {
        let uuid = api::machine::uuid(name)?;
        let path = format!("bus/mdev/devices/{name}");
        let kind = sysfs.folder(&format!("{path}/mdev_type")).ok()?;
        // A type without a name has the name of its folder.
        let said = match text(&kind, "name") {
            Ok(text) => text,
            Err(_) => sysfs.folder(&path).ok()?.link("mdev_type").ok()?.rsplit('/').next()?.to_owned(),
        };
        let group = sysfs.numbered(&path, "iommu_group", "kernel/iommu_groups")?;
        Some(Mediated { uuid, name: said.replace(' ', "_"), group })
    };
    Ok(names.iter().filter_map(device).collect())
}

/// All USB devices by port, without hubs: devices behind a hub have ports of their own.
fn usb_devices(sysfs: &Sysfs) -> Result<Vec<UsbDevice>> {
    const HUB: &str = "09";
    let names = sysfs.names("bus/usb/devices")?;
    let device = |port: &String| {
        let is_port = is_port(port);
        let folder = is_port.then(|| sysfs.folder(&usb_path(port)).ok())??;
        let said = |attribute: &str| text(&folder, attribute).ok();
        if said("bDeviceClass")? == HUB {
            return None;
        }
        let number =
            |attribute: &str| decimal::<u16>(&said(attribute)?).filter(|number| (1..=999).contains(number));
        let ids =
            Ids { vendor: hexadecimal(&said("idVendor")?)?, product: hexadecimal(&said("idProduct")?)? };
        Some(UsbDevice { port: port.clone(), ids, bus: number("busnum")?, number: number("devnum")? })
    };
    Ok(names.iter().filter_map(device).collect())
}

/// True for a port like `1-2.3`: a bus, and the ports on the path. `usb1` is a root hub, and `1-2:1.0` an
/// interface.
fn is_port(name: &str) -> bool {
    let number = |text: &str| decimal::<u8>(text).is_some();
    name.len() <= 32
        && name.split_once('-').is_some_and(|(bus, ports)| number(bus) && ports.split('.').all(number))
}

#[cfg(test)]
#[path = "discover_tests.rs"]
pub(super) mod tests;
