//! Devices with tags, in OpenStack's form: a guest finds a tagged device by its address.

use super::disk::targets;
use super::error::DomainError;
use super::host_device::HostAddress;
use super::pci::Places;
use super::pci_devices::PciDevice;
use api::launcher::Link;
use api::machine::{Bus, Machine};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The devices of a VM with tags. `links`: links of its interfaces on this host; `host_devices`: its host
/// devices.
pub fn tagged(
    machine: &Machine,
    links: &BTreeMap<String, Link>,
    host_devices: &[Vec<HostAddress>],
) -> Result<Vec<Value>, DomainError> {
    let places = Places::of(machine, host_devices)?;
    let address = |device| places.get(device).map(|address| address.to_string());
    let mut devices = Vec::new();
    for (n, nic) in machine.interfaces.iter().enumerate() {
        let Some(tag) = &nic.tag else { continue };
        let mac = links.get(&nic.name).and_then(|link| match link {
            Link::Tap { mac, .. } | Link::Passt { mac, .. } | Link::User { mac, .. } => Some(mac.clone()),
            Link::Device { mac, .. } | Link::Sidecar { mac } => mac.clone(),
        });
        devices.push(device(
            "nic",
            "pci",
            tag,
            [("address", address(PciDevice::Interface(n))), ("mac", mac)],
        ));
    }
    let paths = targets(machine);
    for (n, disk) in machine.disks.iter().enumerate() {
        let Some(tag) = &disk.tag else { continue };
        let bus = match disk.bus {
            Bus::Virtio => "virtio",
            Bus::Sata => "sata",
            Bus::Scsi => "scsi",
            Bus::Usb => "usb",
        };
        let path = paths.get(&disk.name).map(|path| format!("/dev/{path}"));
        let at = address(PciDevice::Disk(n)).filter(|_| disk.bus == Bus::Virtio);
        devices.push(device(
            "disk",
            bus,
            tag,
            [("address", at), ("serial", disk.serial.clone()), ("path", path)],
        ));
    }
    for (n, host_device) in machine.host_devices.iter().enumerate() {
        let Some(tag) = &host_device.tag else { continue };
        // A device on USB has no address by which a guest could find it.
        let is_usb = matches!(host_devices.get(n).and_then(|all| all.first()), Some(HostAddress::Usb { .. }));
        let at = address(PciDevice::HostDevice(n)).filter(|_| !is_usb);
        devices.push(device("hostdev", if is_usb { "usb" } else { "pci" }, tag, [("address", at)]));
    }
    Ok(devices)
}

fn device<const N: usize>(kind: &str, bus: &str, tag: &str, facts: [(&str, Option<String>); N]) -> Value {
    let mut fields = Map::new();
    fields.insert("type".to_owned(), json!(kind));
    fields.insert("bus".to_owned(), json!(bus));
    for (name, fact) in facts {
        fields.extend(fact.map(|fact| (name.to_owned(), json!(fact))));
    }
    fields.insert("tags".to_owned(), json!([tag]));
    Value::Object(fields)
}
