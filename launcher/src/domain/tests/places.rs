//! Places on the PCI bus: nobody shares one, nothing depends on when it was drawn, and what comes last moves nothing.

use super::fixture::{Fixture, disk, nic, raw, user};
use crate::domain::pci::{PORTS, Places};
use crate::domain::pci_devices::PciDevice;
use api::machine::{Bus, Input, Machine, Nic, Panic, PciAddress, Watchdog, devices::WatchdogAction};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A machine of so many devices of each kind.
fn machine() -> impl Strategy<Value = Machine> {
    let bus = prop_oneof![Just(Bus::Virtio), Just(Bus::Sata), Just(Bus::Scsi), Just(Bus::Usb)];
    let own = prop_oneof![9 => Just(None), 1 => (0x18u8..0x1f).prop_map(|slot| Some(on_root(slot)))];
    let disks = prop::collection::vec((bus, own), 0..20);
    (any::<bool>(), any::<bool>(), disks, 0usize..8, 0usize..6, any::<[bool; 4]>()).prop_map(
        |(old, no_hotplug, disks, nics, inputs, [rng, dog, balloon, screen])| {
            let mut fixture = if old { Fixture::bare().i440fx() } else { Fixture::bare() };
            let mut used = BTreeSet::new();
            for (n, (bus, own)) in disks.into_iter().enumerate() {
                let mut disk = disk(&format!("d{n}"), bus);
                disk.pci_address = own.filter(|address| bus == Bus::Virtio && used.insert(*address));
                fixture = fixture.disk(disk, raw("d"));
            }
            for n in 0..nics {
                fixture = fixture.nic(nic(&format!("n{n}"), Nic::Virtio), user(n as u8));
            }
            if screen {
                fixture = fixture.screen();
            }
            let mut machine = fixture.machine;
            machine.inputs =
                (0..inputs).map(|n| Input { name: format!("i{n}"), virtio: n % 2 == 0 }).collect();
            machine.watchdog = dog.then(|| Watchdog { name: "dog".into(), action: WatchdogAction::Reset });
            machine.panics = vec![Panic::Pvpanic];
            (machine.rng, machine.balloon, machine.no_hotplug) = (rng, balloon, no_hotplug);
            machine
        },
    )
}

fn on_root(slot: u8) -> PciAddress {
    PciAddress { domain: 0, bus: 0, slot, function: 0 }
}

/// Every device's address element, as it would be drawn.
fn drawn(machine: &Machine) -> BTreeMap<PciDevice, String> {
    let places = Places::of(machine).unwrap();
    let many = (0..70).flat_map(|n| {
        [
            PciDevice::Interface(n),
            PciDevice::Disk(n),
            PciDevice::Input(n),
            PciDevice::Sata(n),
            PciDevice::Port(n),
        ]
    });
    let single = [
        PciDevice::Video,
        PciDevice::Usb,
        PciDevice::Scsi,
        PciDevice::Serial,
        PciDevice::Balloon,
        PciDevice::Rng,
        PciDevice::Watchdog,
        PciDevice::Panic,
    ];
    let element = |device| Some((device, places.element(device)?.write().unwrap()));
    many.chain(single).filter_map(element).collect()
}

proptest! {
    #[test]
    fn nobody_shares_a_place(machine in machine()) {
        let drawn = drawn(&machine);
        let places: BTreeSet<_> = drawn.values().map(|element| element.replace(" multifunction='on'", "")).collect();
        prop_assert_eq!(places.len(), drawn.len());
    }

    #[test]
    fn a_disk_at_the_end_moves_nothing(machine in machine(), bus in prop_oneof![Just(Bus::Virtio), Just(Bus::Sata)]) {
        let before = drawn(&machine);
        let mut machine = machine;
        machine.disks.push(disk("last", bus));
        let after = drawn(&machine);
        for (device, element) in before {
            prop_assert_eq!(after.get(&device), Some(&element), "{:?}", device);
        }
    }

    #[test]
    fn an_interface_at_the_end_moves_nothing(machine in machine()) {
        let before = drawn(&machine);
        let mut machine = machine;
        machine.interfaces.push(nic("last", Nic::E1000));
        let after = drawn(&machine);
        for (device, element) in before {
            prop_assert_eq!(after.get(&device), Some(&element), "{:?}", device);
        }
    }

    #[test]
    fn the_smaller_devices_move_nothing(machine in machine()) {
        let before = drawn(&machine);
        let mut machine = machine;
        (machine.rng, machine.balloon, machine.no_hotplug) = (true, true, false);
        machine.inputs.push(Input { name: "last".into(), virtio: true });
        let after = drawn(&machine);
        for (device, element) in before {
            prop_assert_eq!(after.get(&device), Some(&element), "{:?}", device);
        }
    }
}

#[test]
fn an_own_address_is_had_and_its_place_in_the_range_goes_to_the_next() {
    let own = PciAddress { function: 0, ..on_root(0x1a) };
    let mut first = disk("first", Bus::Virtio);
    first.pci_address = Some(own);
    let fixture = Fixture::bare().disk(first, raw("d")).disk(disk("second", Bus::Virtio), raw("d"));
    let places = Places::of(&fixture.machine).unwrap();
    assert_eq!(places.get(PciDevice::Disk(0)), Some(own));
    assert_eq!(places.get(PciDevice::Disk(1)), Some(on_root(0x10)), "function 0 of a slot is never empty");
}

#[test]
fn root_ports_go_as_far_as_they_are_asked_for_and_some_remain() {
    let ports = |nics: usize, own: Option<PciAddress>, no_hotplug: bool| {
        let mut fixture = Fixture::bare().with(|machine| machine.no_hotplug = no_hotplug);
        for n in 0..nics {
            fixture = fixture.nic(nic(&format!("n{n}"), Nic::Virtio), user(1));
        }
        let mut last = disk("last", Bus::Virtio);
        last.pci_address = own;
        Places::of(&fixture.disk(last, raw("d")).machine).map(|places| places.ports())
    };
    assert_eq!(ports(0, None, true).unwrap(), 0);
    assert_eq!(ports(1, None, true).unwrap(), 1);
    assert_eq!(ports(1, None, false).unwrap(), 8);
    assert_eq!(ports(6, None, false).unwrap(), 10);
    let bus = |bus| Some(PciAddress { bus, ..on_root(0) });
    assert_eq!(ports(1, bus(9), true).unwrap(), 9);
    assert_eq!(ports(PORTS, None, false).unwrap(), PORTS);
    assert!(ports(PORTS + 1, None, false).is_err());
}
