//! Devices of the node: how each kind is written, and which are told apart.

use super::devices::{bare, device};
use super::fixture::{Fixture, disk, raw};
use crate::domain::Domain;
use crate::domain::host_device::HostAddress;
use crate::domain::qemu_arguments::QemuArguments;
use api::machine::host_device::{Claimed, Display, List, Origin};
use api::machine::{Bus, HostDevice, Input};

/// With devices of the node: the entry of the spec, and its devices on this host.
pub(super) fn host_devices(fixture: Fixture, devices: &[(List, &str, Option<Display>, &[&str])]) -> Fixture {
    devices.iter().fold(fixture, |all, (list, name, display, addresses)| {
        let device = HostDevice {
            name: (*name).into(),
            list: *list,
            origin: Origin::Resource("v.io/card".into()),
            display: *display,
            tag: None,
        };
        let address = |text: &&str| {
            HostAddress::pci(text)
                .or_else(|| HostAddress::mediated(text))
                .or_else(|| HostAddress::usb(text))
                .unwrap()
        };
        let addresses = addresses.iter().map(address).collect();
        all.with(|machine| machine.host_devices.push(device)).on(|host| host.host_devices.push(addresses))
    })
}

const VGPU: &str = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001";

#[test]
fn devices_of_the_node() {
    // With the root ports that they stand behind.
    let part = |domain: &Domain<'_>, _: &mut QemuArguments| {
        Ok([domain.controllers(), domain.host_devices()?].concat())
    };
    let cards: [(List, &str, Option<Display>, &[&str]); 2] =
        [(List::Gpus, "a.b", None, &["0000:81:00.0"]), (List::HostDevices, "card", None, &["0001:82:1f.7"])];
    device("host-device-pci", &host_devices(Fixture::bare(), &cards), part);
    // Those of ResourceClaims are the same to the guest.
    let claimed = host_devices(Fixture::bare(), &cards).with(|machine| {
        machine.host_devices.iter_mut().for_each(|device| device.origin = Origin::Claim(Claimed::default()));
    });
    device("host-device-pci", &claimed, part);
    device("host-device-i440fx", &host_devices(Fixture::bare().i440fx(), &cards), |domain, _| {
        domain.host_devices()
    });
    let on = |ramfb| Some(Display { ramfb });
    let parts: [(List, &str, Option<Display>, &[&str]); 3] = [
        (List::Gpus, "one", on(true), &[VGPU]),
        (List::Gpus, "two", on(false), &["93b8f4f2-509f-382f-3c1e-e6bfe0fa1001"]),
        (List::HostDevices, "three", None, &["a3b8f4f2-509f-382f-3c1e-e6bfe0fa1001"]),
    ];
    let screen = host_devices(Fixture::bare().screen(), &parts);
    device("host-device-mediated", &screen, |domain, _| {
        Ok([domain.controllers(), domain.video()?, domain.host_devices()?].concat())
    });
    // Below the ports of inputs and of clients' devices.
    let tablet = Input { name: "tablet".into(), virtio: false };
    let desk: [(List, &str, Option<Display>, &[&str]); 1] =
        [(List::HostDevices, "desk", None, &["1:4", "2:11"])];
    let usb = host_devices(bare(|machine| machine.inputs = vec![tablet]), &desk);
    device("host-device-usb", &usb, |domain, _| Ok([domain.inputs()?, domain.host_devices()?].concat()));
    assert!(usb.render().contains("qemu-xhci"));
    let sticks = (0..13).fold(usb, |all, n| all.disk(disk(&format!("d{n}"), Bus::Usb), raw("d")));
    assert_eq!(sticks.refusal(), "too many USB devices: at most 15 fit on a USB controller");
    let lost = host_devices(Fixture::bare(), &cards).on(|host| drop(host.host_devices.pop()));
    assert_eq!(lost.refusal(), "the location of hostDevices `card` on this host is missing");
}

#[test]
fn devices_of_the_node_with_tags_are_named_by_their_addresses() {
    let fixture = host_devices(
        Fixture::bare(),
        &[(List::Gpus, "a", None, &["0000:81:00.0"]), (List::HostDevices, "b", None, &["1:4"])],
    )
    .with(|machine| machine.host_devices.iter_mut().for_each(|device| device.tag = Some("fast".into())));
    let found =
        crate::domain::tagged(&fixture.machine, &fixture.host.links, &fixture.host.host_devices).unwrap();
    assert_eq!(
        serde_json::Value::Array(found),
        serde_json::json!([
            {"type": "hostdev", "bus": "pci", "address": "0000:09:00.0", "tags": ["fast"]},
            {"type": "hostdev", "bus": "usb", "tags": ["fast"]},
        ])
    );
}
