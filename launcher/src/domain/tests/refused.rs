//! Domains that cannot be defined: each error is a sentence with the field.

use super::fixture::{Fixture, cdrom, disk, nic, raw, tap, user};
use crate::domain::host::DiskLocation;
use crate::domain::{render, render_disk, render_interface};
use api::launcher::Link;
use api::machine::network::Network;
use api::machine::{Boot, Bus, Cache, Disk, Io, Nic, Panic, PciAddress, Target, Tpm};

fn pci(bus: u8, slot: u8, function: u8) -> Option<PciAddress> {
    Some(PciAddress { domain: 0, bus, slot, function })
}

fn with_disk(disk: Disk) -> Fixture {
    let place = raw(&disk.name);
    Fixture::bare().disk(disk, place)
}

#[test]
fn two_devices_with_one_address_are_both_named() {
    let fixture = with_disk(Disk { pci_address: pci(1, 0, 0), ..disk("root", Bus::Virtio) });
    let fixture = fixture.nic(nic("default", Nic::Virtio), user(1));
    assert_eq!(
        fixture.refusal(),
        "disk `root` asks for the PCI address 0000:01:00.0, which interface `default` has; 0000:00:18.0 to \
         0000:00:1e.0 are free for such requests"
    );
    let chipset = with_disk(Disk { pci_address: pci(0, 0x1f, 2), ..disk("root", Bus::Virtio) });
    assert!(chipset.refusal().contains("which the chipset has"), "{}", chipset.refusal());
}

#[test]
fn an_address_that_does_not_exist_is_refused() {
    let at = |address| with_disk(Disk { pci_address: address, ..disk("root", Bus::Virtio) }).refusal();
    let field = "spec.domain.devices.disks[0].disk.pciAddress: ";
    assert_eq!(at(pci(0x81, 1, 0)), format!("{field}0000:81:01.0: machine type q35 has the buses 00 to 20"));
    assert_eq!(
        at(pci(3, 1, 0)),
        format!("{field}0000:03:01.0: bus 03 is a root port, which has slot 00 alone")
    );
    assert!(at(pci(0, 0x18, 3)).starts_with(&format!("{field}function 0 of that slot is empty")));
    assert!(at(Some(PciAddress { domain: 1, bus: 0, slot: 3, function: 0 })).contains("domain 0001"));
    let old = with_disk(Disk { pci_address: pci(1, 0, 0), ..disk("root", Bus::Virtio) }).i440fx();
    assert!(old.refusal().contains("has bus 00 alone"));
}

#[test]
fn too_many_devices_of_a_kind_are_refused() {
    let mut old = Fixture::bare().i440fx();
    for n in 0..9 {
        old = old.nic(nic(&format!("n{n}"), Nic::Virtio), user(n));
    }
    assert_eq!(old.refusal(), "too many interfaces: at most 8 fit on machine type i440fx");
    let mut disks = Fixture::bare();
    for n in 0..65 {
        disks = disks.disk(disk(&format!("d{n}"), Bus::Virtio), raw("d"));
    }
    assert_eq!(disks.refusal(), "too many virtio disks: at most 64 fit on machine type q35");
    let mut drives = Fixture::bare();
    for n in 0..31 {
        drives = drives.disk(disk(&format!("d{n}"), Bus::Sata), raw("d"));
    }
    assert_eq!(drives.refusal(), "too many SATA disks: at most 30 fit on machine type q35");
    let mut sticks = Fixture::bare();
    for n in 0..16 {
        sticks = sticks.disk(disk(&format!("d{n}"), Bus::Usb), raw("d"));
    }
    assert_eq!(sticks.refusal(), "too many USB devices: at most 15 fit on a USB controller");
}

#[test]
fn settings_that_the_file_of_a_disk_does_not_allow_are_refused() {
    let field = "spec.domain.devices.disks[0]";
    let refusal = |disk: Disk| with_disk(disk).refusal();
    let cache = refusal(Disk { cache: Some(Cache::None), ..disk("root", Bus::Virtio) });
    assert!(cache.starts_with(&format!("{field}.cache: `none` needs")), "{cache}");
    let io = refusal(Disk { io: Some(Io::Native), ..disk("root", Bus::Virtio) });
    assert_eq!(io, format!("{field}.io: `native` needs cache `none`"));
    let io = refusal(Disk { io: Some(Io::Native), ..cdrom("root", Bus::Sata) });
    assert!(io.starts_with(&format!("{field}.io: `native` needs cache `none`, and `none` needs")), "{io}");
    let io = Disk { io: Some(Io::Native), cache: Some(Cache::WriteBack), ..cdrom("root", Bus::Sata) };
    assert_eq!(refusal(io), format!("{field}.io: `native` needs cache `none`"));
    let lun = refusal(Disk { target: Target::Lun, ..disk("root", Bus::Scsi) });
    assert!(lun.starts_with(&format!("{field}.lun: ")), "{lun}");
    let readonly = refusal(Disk { readonly: true, ..disk("root", Bus::Sata) });
    assert!(readonly.starts_with(&format!("{field}.disk.readonly: ")), "{readonly}");
    let bus = refusal(cdrom("iso", Bus::Virtio));
    assert!(bus.starts_with(&format!("{field}.cdrom.bus: ")), "{bus}");
}

#[test]
fn settings_that_a_user_mode_network_does_not_have_are_refused() {
    let field = "spec.domain.devices.interfaces[0]";
    let one = || Fixture::bare().nic(nic("default", Nic::Virtio), user(1));
    let down = one().with(|machine| machine.interfaces[0].up = false).refusal();
    assert!(down.starts_with(&format!("{field}.state: ")), "{down}");
    let v6 = one().with(|machine| {
        machine.interfaces[0].network = Network::Pod { cidr: None, cidr6: Some("fd10:0:2::/120".into()) };
    });
    assert!(v6.refusal().contains("vmIPv6NetworkCIDR: "), "{}", v6.refusal());
    let mac = |mac: &str| {
        let link = Link::User { mac: mac.into(), cidr: None, forwards: Vec::new(), isolated: false };
        Fixture::bare().nic(nic("default", Nic::Virtio), link).refusal()
    };
    assert!(mac("02:00:00:00:00:01,romfile=/etc").starts_with(&format!("{field}.macAddress: ")));
    assert!(mac("01:00:5e:00:00:01").contains("multicast"));
    assert!(mac("0b:00:5e:00:00:01").contains("multicast"));
    let network = Link::User {
        mac: "02:00:00:00:00:01".into(),
        cidr: Some("10.0.2.0/24,x".into()),
        forwards: Vec::new(),
        isolated: true,
    };
    assert!(Fixture::bare().nic(nic("default", Nic::Virtio), network).refusal().contains("not a network"));
}

#[test]
fn settings_that_accelerator_or_machine_type_do_not_have_are_refused() {
    let panic = Fixture::bare().with(|machine| machine.panics = vec![Panic::Isa, Panic::Hyperv]).refusal();
    assert!(panic.starts_with("spec.domain.devices.panicDevices[1].model: "), "{panic}");
    let serial = Fixture::bare().with(|machine| {
        machine.serial = None;
        machine.firmware.boot = Boot::Bios { use_serial: true };
    });
    assert!(
        serial.refusal().starts_with("spec.domain.firmware.bootloader.bios.useSerial: "),
        "{}",
        serial.refusal()
    );
    let secure = Fixture::bare().efi(true).i440fx().refusal();
    assert!(secure.starts_with("spec.domain.firmware.bootloader.efi.secureBoot: "), "{secure}");
    let with_tpm = |fixture: Fixture| fixture.with(|machine| machine.tpm = Some(Tpm { persistent: false }));
    let tpm = with_tpm(Fixture::bare().kernel());
    assert!(tpm.refusal().starts_with("spec.domain.devices.tpm: BIOS starts a kernel"), "{}", tpm.refusal());
    with_tpm(Fixture::bare().kernel().efi(false)).render();
    with_tpm(Fixture::bare().kernel().on(|host| host.kernel.as_mut().unwrap().initrd = None)).render();
    let smm = Fixture::bare().efi(true).with(|machine| machine.features.smm = Some(false)).refusal();
    assert!(smm.starts_with("spec.domain.features.smm.enabled: "), "{smm}");
}

#[test]
fn a_missing_location_on_the_host_is_named() {
    let lost = |fixture: Fixture| fixture.on(|host| *host = Fixture::bare().host).refusal();
    assert_eq!(
        lost(with_disk(disk("root", Bus::Sata))),
        "the location of disk `root` on this host is missing"
    );
    assert!(lost(Fixture::bare().nic(nic("default", Nic::Virtio), tap(1))).contains("interface `default`"));
    assert!(lost(Fixture::bare().kernel()).contains("the kernel"));
    assert!(lost(Fixture::bare().efi(false)).contains("the EFI firmware"));
    let empty = Fixture::bare().disk(disk("root", Bus::Sata), DiskLocation::Nothing);
    assert!(empty.refusal().contains("disk `root`"), "only a CD-ROM may be empty");
}

#[test]
fn a_character_outside_of_xml_is_refused() {
    let fixture =
        Fixture::bare().kernel().on(|host| host.kernel.as_mut().unwrap().args = Some("a\u{1b}[2Jb".into()));
    assert_eq!(
        fixture.refusal(),
        "cmdline: the character '\\u{1b}' cannot be written to libvirt's XML; remove it"
    );
    assert!(render(&fixture.machine, &fixture.host).is_err());
}

#[test]
fn a_path_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let fixture =
        Fixture::bare().on(|host| host.serial_log = std::ffi::OsStr::from_bytes(b"/vm/\xff").into());
    assert!(fixture.refusal().contains("not UTF-8"), "{}", fixture.refusal());
}

#[test]
fn one_disk_by_itself_equals_the_disk_of_the_domain() {
    let fixture = Fixture::bare()
        .disk(disk("root", Bus::Virtio), raw("root"))
        .disk(cdrom("iso", Bus::Sata), raw("iso"));
    let whole = fixture.render();
    let alone = render_disk(&fixture.machine, &fixture.host, "iso").unwrap();
    assert!(alone.lines().all(|line| whole.contains(line)), "{alone}");
    assert!(alone.starts_with("<disk type='file' device='cdrom'>"), "{alone}");
    assert!(render_disk(&fixture.machine, &fixture.host, "other").is_err());
}

#[test]
fn one_interface_by_itself_equals_the_interface_of_the_domain() {
    let nic = |name: &str| nic(name, Nic::Virtio);
    let fixture =
        Fixture::bare().nic(nic("first"), tap(0)).nic(nic("second"), tap(1)).nic(nic("user"), user(2));
    let fixture = fixture.with(|machine| machine.interfaces[1].up = false);
    let whole = fixture.render();
    let alone = render_interface(&fixture.machine, &fixture.host, "second").unwrap();
    assert!(alone.lines().all(|line| whole.contains(line)), "{alone}");
    assert!(alone.starts_with("<interface type='ethernet'>"), "{alone}");
    assert!(alone.contains("'tap1'") && alone.contains("<link state='down'/>"), "{alone}");
    // One that is not libvirt's cannot be given to it.
    for name in ["user", "other"] {
        assert!(render_interface(&fixture.machine, &fixture.host, name).is_err(), "{name}");
    }
}
