//! PCI addresses: no two devices share one, they do not depend on the time of a start, and an appended device
//! moves no other.

use super::fixture::{Fixture, disk, nic, raw, user};
use super::host_devices::host_devices;
use crate::domain::pci::{PORTS, Places};
use crate::domain::pci_devices::PciDevice;
use api::machine::host_device::List;
use api::machine::{
    Bus, Input, Machine, Nic, Panic, PciAddress, Sound, SoundModel, Watchdog, devices::WatchdogAction,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A VM with any number of devices of each kind.
fn machine() -> impl Strategy<Value = Machine> {
    let bus = prop_oneof![Just(Bus::Virtio), Just(Bus::Sata), Just(Bus::Scsi), Just(Bus::Usb)];
    let own = prop_oneof![9 => Just(None), 1 => (0x18u8..0x1e).prop_map(|slot| Some(on_root(slot)))];
    let disks = prop::collection::vec((bus, own), 0..20);
    (any::<bool>(), any::<bool>(), disks, 0usize..8, 0usize..6, any::<[bool; 5]>()).prop_map(
        |(old, no_hotplug, disks, nics, inputs, [rng, dog, balloon, screen, shares])| {
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
            if shares {
                fixture = (0..8).fold(fixture, |all, n| all.filesystem(&format!("f{n}")));
                let sound = Sound { name: "card".into(), model: SoundModel::Ich9 };
                fixture = fixture.with(|machine| machine.sound = Some(sound));
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

/// Every device's address element.
fn addresses(machine: &Machine) -> BTreeMap<PciDevice, String> {
    let places = Places::of(machine, &[]).unwrap();
    let many = (0..70).flat_map(|n| {
        [
            PciDevice::Interface(n),
            PciDevice::Disk(n),
            PciDevice::Input(n),
            PciDevice::Sata(n),
            PciDevice::Port(n),
            PciDevice::Filesystem(n),
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
        PciDevice::Sound,
    ];
    let element = |device| Some((device, places.element(device)?.write().unwrap()));
    many.chain(single).filter_map(element).collect()
}

proptest! {
    #[test]
    fn no_two_devices_share_an_address(machine in machine()) {
        let addresses = addresses(&machine);
        let places: BTreeSet<_> = addresses.values().map(|element| element.replace(" multifunction='on'", "")).collect();
        prop_assert_eq!(places.len(), addresses.len());
    }

    #[test]
    fn an_appended_disk_moves_no_device(machine in machine(), bus in prop_oneof![Just(Bus::Virtio), Just(Bus::Sata)]) {
        let before = addresses(&machine);
        let mut machine = machine;
        machine.disks.push(disk("last", bus));
        let after = addresses(&machine);
        for (device, element) in before {
            prop_assert_eq!(after.get(&device), Some(&element), "{:?}", device);
        }
    }

    #[test]
    fn an_appended_interface_moves_no_device(machine in machine()) {
        let before = addresses(&machine);
        let mut machine = machine;
        machine.interfaces.push(nic("last", Nic::E1000));
        let after = addresses(&machine);
        for (device, element) in before {
            prop_assert_eq!(after.get(&device), Some(&element), "{:?}", device);
        }
    }

    #[test]
    fn rng_balloon_inputs_and_hotplug_move_no_device(machine in machine()) {
        let before = addresses(&machine);
        let mut machine = machine;
        (machine.rng, machine.balloon, machine.no_hotplug) = (true, true, false);
        machine.inputs.push(Input { name: "last".into(), virtio: true });
        let after = addresses(&machine);
        for (device, element) in before {
            prop_assert_eq!(after.get(&device), Some(&element), "{:?}", device);
        }
    }
}

#[test]
fn an_address_of_the_spec_is_used_and_frees_the_place_in_the_range() {
    let own = PciAddress { function: 0, ..on_root(0x1a) };
    let mut first = disk("first", Bus::Virtio);
    first.pci_address = Some(own);
    let fixture = Fixture::bare().disk(first, raw("d")).disk(disk("second", Bus::Virtio), raw("d"));
    let places = Places::of(&fixture.machine, &[]).unwrap();
    assert_eq!(places.get(PciDevice::Disk(0)), Some(own));
    assert_eq!(places.get(PciDevice::Disk(1)), Some(on_root(0x10)), "function 0 of a slot is never empty");
}

#[test]
fn root_ports_reach_the_highest_requested_bus_and_some_are_spare() {
    let ports = |nics: usize, own: Option<PciAddress>, no_hotplug: bool| {
        let mut fixture = Fixture::bare().with(|machine| machine.no_hotplug = no_hotplug);
        for n in 0..nics {
            fixture = fixture.nic(nic(&format!("n{n}"), Nic::Virtio), user(1));
        }
        let mut last = disk("last", Bus::Virtio);
        last.pci_address = own;
        Places::of(&fixture.disk(last, raw("d")).machine, &[]).map(|places| places.ports())
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

#[test]
fn a_device_of_the_node_stands_behind_a_port_of_its_own_and_moves_no_other() {
    let with = |nics: usize, devices: usize, old: bool| {
        let mut fixture = if old { Fixture::bare().i440fx() } else { Fixture::bare() };
        for n in 0..nics {
            fixture = fixture.nic(nic(&format!("n{n}"), Nic::Virtio), user(1));
        }
        for n in 0..devices {
            let name = format!("g{n}");
            fixture = host_devices(fixture, &[(List::Gpus, &name, None, &["0000:81:00.0"])]);
        }
        fixture
    };
    let places = |fixture: &Fixture| Places::of(&fixture.machine, &fixture.host.host_devices);
    let of = |nics, devices| places(&with(nics, devices, false)).unwrap();
    let bus = |bus| Some(PciAddress { bus, ..on_root(0) });
    for nics in [0, 1, 8] {
        assert_eq!(of(nics, 3).get(PciDevice::HostDevice(0)), bus(9), "{nics}");
        assert_eq!(of(nics, 24).get(PciDevice::HostDevice(23)), bus(32));
    }
    assert_eq!((of(1, 1).ports(), of(1, 24).ports()), (9, 32));
    assert_eq!(of(2, 1).get(PciDevice::Interface(1)), of(2, 0).get(PciDevice::Interface(1)));
    let said = |fixture: Fixture| places(&fixture).unwrap_err().to_string();
    assert!(said(with(9, 1, false)).contains("at most 8 fit"));
    assert!(said(with(0, 6, true)).contains("at most 5 fit on machine type i440fx"));
    let old = places(&with(1, 5, true)).unwrap();
    assert_eq!(old.get(PciDevice::HostDevice(4)), Some(on_root(0x1c)));
    // A disk in the way is told what is left.
    let mut last = disk("last", Bus::Virtio);
    last.pci_address = Some(on_root(0x18));
    assert!(said(with(0, 1, true).disk(last, raw("d"))).contains("0000:00:19.0 to 0000:00:1d.0 are free"));
}
