//! Whole domains.

use super::fixture::{
    Fixture, cdrom, cloud_init, container_disk, disk, forwarded, nic, overlay, raw, tap, user,
};
use super::golden;
use super::host_devices::host_devices;
use crate::domain::host::{Cell, DiskLocation, Pinning};
use api::machine::cpu::{Apic, Clock, Feature, Model, Offset, Policy, Timer};
use api::machine::devices::WatchdogAction;
use api::machine::host_device::{Display, List};
use api::machine::hyperv::Enlightenments;
use api::machine::{
    BlockSize, Boot, Bus, Cache, Chassis, Disk, Hyperv, Input, Io, IoThreads, Nic, Panic, PciAddress, Reboot,
    Sound, SoundModel, Target, Tpm, Watchdog,
};

fn whole(name: &str, fixture: &Fixture) {
    golden(&format!("whole/{name}"), &fixture.render());
}

#[test]
fn a_kernel_with_a_network() {
    whole("tiny", &Fixture::bare().kernel().nic(nic("default", Nic::Virtio), forwarded(2222)));
}

#[test]
fn a_container_disk_with_its_seed() {
    let fixture = Fixture::bare()
        .screen()
        .disk(container_disk("root", Bus::Virtio), overlay("root"))
        .disk(cloud_init("seed", Bus::Sata), raw("seed"))
        .nic(nic("default", Nic::Virtio), user(1));
    whole("container-disk", &fixture.with(|machine| machine.rng = true));
}

#[test]
fn an_installer_iso_and_an_empty_disk() {
    let fixture = Fixture::bare()
        .screen()
        .disk(Disk { boot_order: Some(2), ..disk("root", Bus::Sata) }, raw("root"))
        .disk(Disk { boot_order: Some(1), ..cdrom("iso", Bus::Sata) }, raw("iso"))
        .disk(cdrom("tray", Bus::Sata), DiskLocation::Nothing);
    whole("installer", &fixture.with(|machine| machine.start_paused = true));
}

#[test]
fn efi() {
    whole("efi", &Fixture::bare().screen().efi(false).disk(disk("root", Bus::Virtio), raw("root")));
}

#[test]
fn efi_with_secure_boot() {
    whole("efi-secure", &Fixture::bare().screen().efi(true).disk(disk("root", Bus::Virtio), raw("root")));
}

#[test]
fn a_machine_type_without_pci_express() {
    let fixture = Fixture::bare()
        .i440fx()
        .screen()
        .disk(disk("root", Bus::Virtio), raw("root"))
        .disk(cdrom("iso", Bus::Sata), raw("iso"))
        .nic(nic("default", Nic::Virtio), forwarded(2223))
        .nic(nic("old", Nic::Rtl8139), user(2));
    whole("i440fx", &fixture.with(|machine| machine.panics = vec![Panic::Pvpanic]));
}

#[test]
fn disks_on_every_bus() {
    let buses = [("virtio", Bus::Virtio), ("sata", Bus::Sata), ("scsi", Bus::Scsi), ("usb", Bus::Usb)];
    let mut fixture = Fixture::bare();
    for (name, bus) in buses {
        fixture = fixture.disk(disk(name, bus), raw(name));
    }
    for (name, bus) in buses.into_iter().skip(1) {
        let name = format!("disc-{name}");
        fixture = fixture.disk(cdrom(&name, bus), raw(&name));
    }
    whole("buses", &fixture);
}

#[test]
fn disks_that_fill_a_slot_and_a_controller() {
    let mut fixture = Fixture::bare();
    for n in 0..9 {
        fixture = fixture.disk(disk(&format!("v{n}"), Bus::Virtio), raw(&format!("v{n}")));
        fixture = fixture.disk(disk(&format!("s{n}"), Bus::Sata), raw(&format!("s{n}")));
    }
    whole("many-disks", &fixture);
}

#[test]
fn huge_pages() {
    let fixture = Fixture::bare().kernel().with(|machine| machine.memory.hugepage = Some(2 << 20));
    whole("hugepages", &fixture);
}

#[test]
fn usb_devices_of_clients() {
    let sockets = (0..4).map(|n| format!("/vm/usbredir-{n}").into()).collect();
    let fixture = Fixture::bare().kernel().with(|machine| machine.usb_redirection = true);
    whole("usb-redirection", &fixture.on(|host| host.usb_redirection = sockets));
}

#[test]
fn file_systems_and_sound() {
    for (name, fixture) in
        [("filesystems", Fixture::bare()), ("filesystems-i440fx", Fixture::bare().i440fx())]
    {
        let sound = Sound { name: "card".into(), model: SoundModel::Ich9 };
        let fixture = fixture.kernel().filesystem("files").filesystem("conf");
        whole(name, &fixture.with(|machine| machine.sound = Some(sound)));
    }
}

#[test]
fn cpus_of_its_own() {
    let fixture = Fixture::bare().kernel().disk(disk("root", Bus::Virtio), raw("root"));
    let fixture = fixture.with(|machine| {
        (machine.cpu.cores, machine.cpu.dedicated, machine.cpu.isolated_emulator) = (2, true, true);
        machine.io_threads = IoThreads::Shared;
    });
    let pinning = Pinning { vcpus: vec![1, 0], emulator: Some(1), cells: Vec::new(), bound: false };
    whole("dedicated", &fixture.on(|host| host.pinning = Some(pinning)));
}

#[test]
fn real_time_on_two_numa_nodes() {
    let fixture = Fixture::bare().kernel().with(|machine| {
        (machine.cpu.cores, machine.cpu.dedicated, machine.cpu.numa_of_host) = (3, true, true);
        machine.cpu.realtime = vec![0, 2];
        machine.memory.hugepage = Some(2 << 20);
    });
    let cells = vec![
        Cell { node: 0, vcpus: vec![0, 1], memory: 64 << 20 },
        Cell { node: 2, vcpus: vec![2], memory: 64 << 20 },
    ];
    let pinning = Pinning { vcpus: vec![4, 5, 20], emulator: None, cells, bound: true };
    whole("realtime", &fixture.on(|host| host.pinning = Some(pinning)));
}

#[test]
fn memory_and_sockets_that_come_with_hotplug() {
    let fixture = Fixture::bare().kernel().with(|machine| {
        machine.memory.most = Some(512 << 20);
        machine.cpu.max_sockets = Some(4);
    });
    whole("hotplug", &fixture);
}

#[test]
fn kvm() {
    let fixture = Fixture::bare().kvm().screen().disk(disk("root", Bus::Virtio), raw("root"));
    whole("kvm", &fixture.with(|machine| machine.panics = vec![Panic::Hyperv]));
}

/// What a Windows guest is given, without KVM: the enlightenments are left out.
#[test]
fn a_windows_guest_under_emulation() {
    let fixture = Fixture::bare().screen().efi(true).disk(disk("root", Bus::Sata), raw("root"));
    whole(
        "windows",
        &fixture.with(|machine| {
            machine.features.smm = Some(true);
            let these = Enlightenments { relaxed: true, vapic: true, ..Enlightenments::default() };
            machine.features.hyperv = Hyperv::These(Box::new(these));
            machine.tpm = Some(Tpm { persistent: true });
        }),
    );
}

#[test]
fn taps_of_every_model() {
    let mut fixture = Fixture::bare();
    let models = [Nic::Virtio, Nic::E1000, Nic::E1000e, Nic::Ne2kPci, Nic::Pcnet, Nic::Rtl8139];
    for (n, model) in models.into_iter().enumerate() {
        fixture = fixture.nic(nic(&format!("net{n}"), model), tap(n as u8));
    }
    whole("taps", &fixture.with(|machine| machine.network_multi_queue = true));
}

#[test]
fn user_mode_networks_of_every_model() {
    let mut fixture = Fixture::bare();
    let models = [Nic::Virtio, Nic::E1000, Nic::E1000e, Nic::Ne2kPci, Nic::Pcnet, Nic::Rtl8139];
    for (n, model) in models.into_iter().enumerate() {
        fixture = fixture.nic(nic(&format!("net{n}"), model), user(n as u8));
    }
    whole("user-networks", &fixture.with(|machine| machine.interfaces[0].boot_order = Some(1)));
}

#[test]
fn transitional_virtio_devices() {
    let fixture = Fixture::bare()
        .disk(disk("root", Bus::Virtio), raw("root"))
        .disk(disk("data", Bus::Scsi), raw("data"))
        .nic(nic("default", Nic::Virtio), user(1))
        .nic(nic("tapped", Nic::Virtio), tap(1));
    whole(
        "transitional",
        &fixture.with(|machine| {
            machine.virtio_transitional = true;
            machine.rng = true;
            machine.inputs = vec![Input { name: "tablet".into(), virtio: true }];
        }),
    );
}

#[test]
fn without_hotplug() {
    let fixture = Fixture::bare()
        .disk(disk("root", Bus::Virtio), raw("root"))
        .nic(nic("default", Nic::Virtio), user(1));
    whole("no-hotplug", &fixture.with(|machine| machine.no_hotplug = true));
}

#[test]
fn everything_at_once() {
    let everything = Fixture::bare()
        .screen()
        .efi(false)
        .disk(
            Disk {
                boot_order: Some(1),
                serial: Some("CVLY623300HK240D".into()),
                dedicated_io_thread: true,
                block_size: Some(BlockSize::Custom {
                    logical: 4096,
                    physical: 4096,
                    discard_granularity: Some(65536),
                }),
                ..container_disk("root", Bus::Virtio)
            },
            overlay("root"),
        )
        .disk(
            Disk { cache: Some(Cache::WriteBack), io: Some(Io::Threads), ..disk("data", Bus::Virtio) },
            raw("data"),
        )
        .disk(
            Disk {
                pci_address: Some(PciAddress { domain: 0, bus: 0, slot: 0x18, function: 0 }),
                shareable: true,
                ..disk("shared", Bus::Virtio)
            },
            raw("shared"),
        )
        .disk(disk("scsi", Bus::Scsi), raw("scsi"))
        .disk(disk("stick", Bus::Usb), raw("stick"))
        .disk(Disk { target: Target::CdRom { open: true }, ..cdrom("iso", Bus::Sata) }, raw("iso"))
        .disk(cloud_init("seed", Bus::Sata), raw("seed"))
        .nic(nic("default", Nic::Virtio), forwarded(2224))
        .nic(nic("second", Nic::E1000e), user(2));
    whole(
        "everything",
        &everything.with(|machine| {
            machine.uid = Some("0d0a3bd5-6a6b-4b0b-9e6b-1b7c6c1f4b0e".into());
            machine.memory.guest = 256 << 20;
            machine.cpu.cores = 2;
            machine.cpu.max_sockets = Some(4);
            machine.cpu.model = Model::Named("Nehalem".into());
            machine.cpu.features = vec![
                Feature { name: "aes".into(), policy: Policy::Require },
                Feature { name: "vmx".into(), policy: Policy::Disable },
            ];
            machine.firmware.serial = Some("a-serial".into());
            machine.chassis = Chassis {
                manufacturer: Some("Coracle & Sons".into()),
                asset: Some("7".into()),
                ..Chassis::default()
            };
            machine.features.apic = Some(Apic { eoi: Some(true) });
            machine.features.smm = Some(true);
            machine.features.kvm_hidden = Some(true);
            machine.clock = Some(Clock {
                offset: Offset::Utc(Some(3600)),
                timers: vec![
                    Timer { name: "hpet", present: false, tick_policy: None, track: None },
                    Timer { name: "pit", present: true, tick_policy: Some("delay".into()), track: None },
                    Timer {
                        name: "rtc",
                        present: true,
                        tick_policy: Some("catchup".into()),
                        track: Some("guest".into()),
                    },
                ],
            });
            machine.interfaces[0].boot_order = Some(2);
            machine.interfaces[0].acpi_index = Some(7);
            machine.inputs = vec![
                Input { name: "tablet".into(), virtio: false },
                Input { name: "touch".into(), virtio: true },
            ];
            machine.rng = true;
            machine.watchdog = Some(Watchdog { name: "dog".into(), action: WatchdogAction::Reset });
            machine.panics = vec![Panic::Isa, Panic::Pvpanic];
            machine.block_multi_queue = true;
            machine.io_threads = IoThreads::Auto;
            machine.reboot = Reboot::Terminate;
            machine.firmware.boot = Boot::Efi { secure: false, persistent: true };
        }),
    );
}

#[test]
fn devices_of_the_node() {
    let devices: [(List, &str, Option<Display>, &[&str]); 3] = [
        (List::Gpus, "gpu", None, &["0000:81:00.0"]),
        (List::Gpus, "vgpu", Some(Display { ramfb: true }), &["83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"]),
        (List::HostDevices, "desk", None, &["1:4", "2:11"]),
    ];
    let with = |fixture: Fixture| {
        let fixture = fixture.screen().disk(disk("root", Bus::Virtio), raw("root"));
        host_devices(fixture.nic(nic("default", Nic::Virtio), user(1)), &devices)
    };
    whole("host-devices", &with(Fixture::bare()));
    whole("host-devices-i440fx", &with(Fixture::bare().i440fx()));
}
