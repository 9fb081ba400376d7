//! Devices that have tags, in the form in which OpenStack tells a guest of them: by its address a guest finds the device that
//! somebody has called so.

use super::disk::targets;
use super::error::{DomainError, Pci};
use super::pci::Places;
use super::pci_devices::PciDevice;
use api::launcher::Link;
use api::machine::{Bus, Machine};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The devices of a VM that have tags; `links` are its interfaces' on this host.
pub fn tagged(machine: &Machine, links: &BTreeMap<String, Link>) -> Result<Vec<Value>, DomainError> {
    let places = Places::of(machine)?;
    let address = |device| places.get(device).map(|address| Pci(address).to_string());
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
