//! Each device by itself, with all of its settings.

use super::fixture::{Fixture, cdrom, cloud_init, container_disk, disk, nic, overlay, passt, raw, tap, user};
use super::golden;
use crate::domain::Domain;
use crate::domain::error::DomainError;
use crate::domain::host::{Blocks, DiskLocation, Layer, Layers};
use crate::domain::qemu_arguments::QemuArguments;
use crate::domain::xml::Element;
use api::launcher::{Format, Forward, Link};
use api::machine::cpu::{Apic, Clock, Feature, Model, Offset, Policy, Timer};
use api::machine::devices::WatchdogAction;
use api::machine::hyperv::{Enlightenments, SynicTimer, TlbFlush};
use api::machine::network::{Dhcp, Port, Protocol};
use api::machine::{
    Binding, BlockSize, Boot, Bus, Cache, Chassis, Disk, ErrorPolicy, Hyperv, Input, Interface, Io,
    IoThreads, Machine, Nic, Panic, Serial, Sound, SoundModel, Target, Tpm, Video, Watchdog,
};

/// Compares one part of a domain with `golden/device/NAME.xml`.
pub(super) fn device<E: IntoIterator<Item = Element>>(
    name: &str,
    fixture: &Fixture,
    part: impl FnOnce(&Domain<'_>, &mut QemuArguments) -> Result<E, DomainError>,
) {
    let domain = Domain::of(&fixture.machine, &fixture.host).unwrap();
    let mut qemu_arguments = QemuArguments::default();
    let elements: Vec<_> = part(&domain, &mut qemu_arguments).unwrap().into_iter().collect();
    let xml: String = elements
        .into_iter()
        .chain(qemu_arguments.elements())
        .map(|element| element.write().unwrap())
        .collect();
    golden(&format!("device/{name}"), &xml);
}

pub(super) fn bare(change: impl FnOnce(&mut Machine)) -> Fixture {
    Fixture::bare().with(change)
}

#[test]
fn memory() {
    device("memory", &bare(|machine| machine.memory.guest = (64 << 20) + 4096), |domain, _| {
        Ok(domain.memory())
    });
    let huge = bare(|machine| machine.memory.hugepage = Some(1 << 30));
    device("memory-hugepages", &huge, |domain, _| Ok(domain.memory()));
    let shared = Fixture::bare().filesystem("files").with(|machine| machine.memory.hugepage = Some(2 << 20));
    device("memory-shared", &shared, |domain, _| Ok(domain.memory()));
}

#[test]
fn cpu() {
    let all = |domain: &Domain<'_>, _: &mut QemuArguments| Ok([domain.vcpu(), domain.cpu()]);
    let model = |model: Model| {
        bare(|machine| {
            machine.cpu.model = model;
            machine.cpu.cores = 2;
            machine.cpu.features = vec![Feature { name: "vmx".into(), policy: Policy::Disable }];
        })
    };
    device("cpu-host-model-kvm", &model(Model::HostModel).kvm(), all);
    device("cpu-host-passthrough-kvm", &model(Model::HostPassthrough).kvm(), all);
    device("cpu-named-kvm", &model(Model::Named("Conroe".into())).kvm(), all);
    device("cpu-host-model", &model(Model::HostModel), all);
    device("cpu-host-passthrough", &model(Model::HostPassthrough), all);
    device("cpu-named", &model(Model::Named("Skylake-Server".into())), all);
    let more = bare(|machine| {
        machine.cpu.threads = 2;
        machine.cpu.max_sockets = Some(4);
        machine.cpu.model = Model::Named("Nehalem".into());
        machine.cpu.features = [
            ("aes", Policy::Force),
            ("apic", Policy::Require),
            ("avx", Policy::Optional),
            ("mpx", Policy::Optional),
            ("svm", Policy::Forbid),
        ]
        .map(|(name, policy)| Feature { name: name.into(), policy })
        .to_vec();
    });
    device("cpu-features", &more, all);
}

#[test]
fn os() {
    let os = |domain: &Domain<'_>, _: &mut QemuArguments| Ok([domain.os()?, domain.features()?]);
    device("os-bios", &bare(|machine| machine.firmware.boot = Boot::Bios { use_serial: true }), os);
    device("os-efi", &Fixture::bare().efi(false), os);
    device("os-efi-secure", &Fixture::bare().efi(true), os);
    device("os-kernel", &Fixture::bare().kernel(), os);
    device("os-menu", &bare(|machine| machine.start_paused = true), os);
}

#[test]
fn features() {
    let features = bare(|machine| {
        machine.features.acpi = false;
        machine.features.apic = Some(Apic { eoi: Some(false) });
        machine.features.kvm_hidden = Some(true);
        machine.features.pvspinlock = Some(false);
        machine.features.smm = Some(true);
    });
    device("features", &features, |domain, _| Ok([domain.features()?]));
}

#[test]
fn hyperv() {
    let with = |hyperv: Hyperv| bare(|machine| machine.features.hyperv = hyperv);
    let all = Enlightenments {
        relaxed: true,
        vapic: true,
        spinlocks: Some(8191),
        vpindex: true,
        runtime: true,
        synic: true,
        synictimer: Some(SynicTimer { direct: true }),
        reset: true,
        vendor_id: Some("GenuineIntel".into()),
        frequencies: true,
        reenlightenment: true,
        tlbflush: Some(TlbFlush { direct: true, extended: true }),
        ipi: true,
        evmcs: true,
    };
    let some = Enlightenments {
        vpindex: true,
        synic: true,
        synictimer: Some(SynicTimer::default()),
        tlbflush: Some(TlbFlush::default()),
        ..Enlightenments::default()
    };
    let part = |domain: &Domain<'_>, qemu_arguments: &mut QemuArguments| {
        domain.hyperv_past(qemu_arguments);
        Ok([domain.features()?])
    };
    let these = |these: &Enlightenments| with(Hyperv::These(Box::new(these.clone())));
    device("hyperv-kvm", &these(&all).kvm(), part);
    device("hyperv-some-kvm", &these(&some).kvm(), part);
    device("hyperv-passthrough-kvm", &with(Hyperv::Passthrough).kvm(), part);
    device("hyperv-emulated", &these(&all), part);
}

#[test]
fn tpm() {
    let tpm = |persistent| bare(|machine| machine.tpm = Some(Tpm { persistent }));
    device("tpm", &tpm(false), |domain, _| Ok(domain.tpm()));
    device("tpm-persistent", &tpm(true), |domain, _| Ok(domain.tpm()));
}

#[test]
fn clock() {
    let clock = |offset: Offset| bare(|machine| machine.clock = Some(Clock { offset, timers: Vec::new() }));
    let part = |domain: &Domain<'_>, _: &mut QemuArguments| Ok(domain.clock());
    device("clock-utc", &clock(Offset::Utc(None)), part);
    device("clock-shifted", &clock(Offset::Utc(Some(-60))), part);
    device("clock-zone", &clock(Offset::Timezone("Europe/Berlin".into())), part);
    let timer = |name, present| Timer { name, present, tick_policy: None, track: None };
    let timers = bare(|machine| {
        let timers = vec![
            timer("hpet", false),
            timer("hypervclock", false),
            timer("kvmclock", true),
            Timer { tick_policy: Some("discard".into()), ..timer("pit", true) },
            Timer { tick_policy: Some("delay".into()), track: Some("wall".into()), ..timer("rtc", true) },
        ];
        machine.clock = Some(Clock { offset: Offset::Utc(None), timers });
    });
    device("clock-timers", &timers, part);
    let counter = || {
        bare(|machine| {
            let timers = vec![timer("hypervclock", true)];
            machine.clock = Some(Clock { offset: Offset::Utc(None), timers });
        })
    };
    device("clock-hyperv", &counter(), part);
    device("clock-hyperv-kvm", &counter().kvm(), part);
    let hertz = || bare(|machine| machine.cpu.tsc = Some(2_600_000_000));
    device("clock-tsc", &hertz().kvm(), part);
    let emulated = hertz();
    assert!(Domain::of(&emulated.machine, &emulated.host).unwrap().clock().is_none());
    let both = counter().with(|machine| machine.cpu.tsc = Some(2_600_000_000)).kvm();
    device("clock-tsc-and-hyperv", &both, part);
}

#[test]
fn sysinfo_and_metadata() {
    let some = bare(|machine| {
        machine.uid = Some("0d0a3bd5-6a6b-4b0b-9e6b-1b7c6c1f4b0e".into());
        machine.firmware.serial = Some("e4686d2c-6e8d-4335-b8fd-81bee22f4814".into());
        let word = |word: &str| Some(word.to_string());
        machine.chassis = Chassis {
            manufacturer: word("one"),
            version: word("two"),
            serial: word("three"),
            asset: word("four"),
            sku: word("five"),
        };
    });
    device("sysinfo", &some, |domain, _| Ok([domain.metadata(), domain.sysinfo()]));
}

/// An element of a VM where the cluster says this of hardware.
fn where_hardware_is(
    change: impl FnOnce(&mut api::machine::hardware::Hardware),
    part: impl FnOnce(&Domain<'_>) -> Element,
) -> String {
    let fixture = Fixture::bare().on(|host| change(&mut host.hardware));
    let domain = Domain::of(&fixture.machine, &fixture.host).unwrap();
    part(&domain).write().unwrap()
}

#[test]
fn the_cluster_names_the_system_of_the_smbios() {
    let xml = where_hardware_is(
        |hardware| {
            hardware.smbios = api::machine::hardware::Smbios {
                manufacturer: "Acme".into(),
                product: "Cloud <9>".into(),
                version: Some("9".into()),
                sku: Some("s-1".into()),
                family: "Fast".into(),
            };
        },
        |domain| domain.sysinfo(),
    );
    for (name, text) in [
        ("manufacturer", "Acme"),
        ("product", "Cloud &lt;9"),
        ("version", "9"),
        ("sku", "s-1"),
        ("family", "Fast"),
    ] {
        assert!(
            xml.contains(&format!("name=\"{name}\">{text}"))
                || xml.contains(&format!("name='{name}'>{text}")),
            "{xml}"
        );
    }
    assert!(!xml.contains("chassis"), "that is the VM's own: {xml}");
}

#[test]
fn the_cluster_says_what_a_balloon_tells() {
    let balloon = |period: u32, reports: bool| {
        let change = |hardware: &mut api::machine::hardware::Hardware| {
            (hardware.balloon_stats_period, hardware.free_page_reporting) = (period, reports);
        };
        where_hardware_is(change, |domain| domain.balloon()).replace('\'', "\"")
    };
    let (often, never) = (balloon(3, true), balloon(0, false));
    assert!(often.contains("period=\"3\"") && often.contains("freePageReporting=\"on\""), "{often}");
    assert!(!never.contains("stats") && never.contains("freePageReporting=\"off\""), "{never}");
}

#[test]
fn controllers() {
    let mut full = bare(|machine| {
        machine.inputs = vec![Input { name: "tablet".into(), virtio: false }];
        machine.block_multi_queue = true;
        machine.cpu.cores = 4;
    });
    for n in 0..7 {
        full = full.disk(disk(&format!("d{n}"), Bus::Sata), raw("d"));
    }
    full = full.disk(disk("scsi", Bus::Scsi), raw("d"));
    for n in 0..6 {
        full = full.nic(nic(&format!("n{n}"), Nic::Virtio), user(n));
    }
    device("controllers", &full, |domain, _| Ok(domain.controllers()));
    let least = bare(|machine| machine.no_hotplug = true);
    device("controllers-least", &least, |domain, _| Ok(domain.controllers()));
}

/// One disk by itself.
fn one_disk(name: &str, disk: Disk, place: DiskLocation) {
    device(name, &Fixture::bare().disk(disk, place), |domain, qemu_arguments| {
        Ok([domain.disk(0, qemu_arguments)?])
    });
}

fn file(direct: bool, preallocated: bool) -> DiskLocation {
    DiskLocation::Layers(Layers {
        top: Layer::file("/vm/disk.img", Format::Raw),
        below: Vec::new(),
        direct,
        preallocated,
        blocks: Some(Blocks { logical: 512, physical: 4096, discard: None }),
    })
}

fn block() -> DiskLocation {
    let blocks = Blocks { logical: 4096, physical: 4096, discard: Some(65536) };
    DiskLocation::Layers(Layers {
        top: Layer::device("/dev/null"),
        below: Vec::new(),
        direct: true,
        preallocated: false,
        blocks: Some(blocks),
    })
}

fn over_block() -> DiskLocation {
    let DiskLocation::Layers(over) = overlay("root") else { unreachable!("an overlay") };
    DiskLocation::Layers(Layers { below: vec![Layer::device("/dev/null")], ..over })
}

#[test]
fn disks_of_every_kind_of_device() {
    one_disk("disk", disk("root", Bus::Virtio), raw("root"));
    one_disk("disk-image", container_disk("root", Bus::Virtio), overlay("root"));
    one_disk("disk-seed", cloud_init("seed", Bus::Sata), raw("seed"));
    one_disk(
        "disk-scsi",
        Disk { readonly: true, serial: Some("a-1".into()), ..disk("root", Bus::Scsi) },
        raw("root"),
    );
    one_disk("disk-usb", disk("stick", Bus::Usb), raw("stick"));
    one_disk("disk-block", disk("root", Bus::Virtio), block());
    one_disk("disk-over-block", container_disk("root", Bus::Virtio), over_block());
    one_disk("lun", Disk { target: Target::Lun, ..disk("lun", Bus::Scsi) }, block());
    one_disk("cdrom", cdrom("iso", Bus::Sata), raw("iso"));
    one_disk(
        "cdrom-empty",
        Disk { target: Target::CdRom { open: true }, ..cdrom("iso", Bus::Scsi) },
        DiskLocation::Nothing,
    );
    one_disk("cdrom-direct", cdrom("iso", Bus::Sata), file(true, true));
    one_disk("cdrom-native", Disk { io: Some(Io::Native), ..cdrom("iso", Bus::Sata) }, file(true, false));
    one_disk(
        "cdrom-native-empty",
        Disk { io: Some(Io::Native), ..cdrom("iso", Bus::Sata) },
        DiskLocation::Nothing,
    );
    one_disk("disk-shareable", Disk { shareable: true, ..disk("root", Bus::Virtio) }, raw("root"));
}

#[test]
fn disks_with_every_cache_io_and_error_policy() {
    let virtio = || disk("root", Bus::Virtio);
    one_disk("disk-direct", virtio(), file(true, false));
    one_disk("disk-preallocated", virtio(), file(true, true));
    one_disk("disk-cached", Disk { cache: Some(Cache::WriteBack), ..virtio() }, file(true, true));
    one_disk("disk-native", Disk { io: Some(Io::Native), ..virtio() }, file(true, false));
    one_disk("disk-threads", Disk { io: Some(Io::Threads), ..virtio() }, block());
    one_disk("disk-ignore", Disk { error_policy: ErrorPolicy::Ignore, ..virtio() }, raw("root"));
    one_disk("disk-report", Disk { error_policy: ErrorPolicy::Report, ..virtio() }, raw("root"));
    one_disk("disk-enospace", Disk { error_policy: ErrorPolicy::EnoSpace, ..virtio() }, raw("root"));
    one_disk("disk-match", Disk { block_size: Some(BlockSize::MatchVolume), ..virtio() }, file(false, false));
    let sata = Disk { block_size: Some(BlockSize::MatchVolume), ..disk("root", Bus::Sata) };
    one_disk("disk-match-sata", sata, block());
    one_disk("disk-match-block", Disk { block_size: Some(BlockSize::MatchVolume), ..virtio() }, block());
    let custom = BlockSize::Custom { logical: 512, physical: 4096, discard_granularity: Some(4096) };
    one_disk("disk-blocks", Disk { block_size: Some(custom), ..virtio() }, raw("root"));
}

#[test]
fn threads() {
    let names = ["a", "b", "c"];
    let disks = |policy: IoThreads| {
        let mut fixture = bare(|machine| machine.io_threads = policy);
        for name in names {
            fixture = fixture.disk(disk(name, Bus::Virtio), raw(name));
        }
        fixture.with(|machine| machine.disks[1].dedicated_io_thread = true)
    };
    for (name, policy, iothread_mapping) in [
        ("default", IoThreads::Default, true),
        ("shared", IoThreads::Shared, true),
        ("auto", IoThreads::Auto, true),
        ("pool", IoThreads::Pool(3), false),
        ("pool-mapping", IoThreads::Pool(3), true),
    ] {
        let fixture = disks(policy).on(|host| host.iothread_mapping = iothread_mapping);
        device(&format!("threads-{name}"), &fixture, |domain, qemu_arguments| {
            let mut elements: Vec<_> = domain.threads.element().into_iter().collect();
            for position in 0..names.len() {
                elements.push(domain.disk(position, qemu_arguments)?);
            }
            Ok(elements)
        });
    }
}

/// One interface by itself.
fn one_nic(name: &str, nic: Interface, link: Link) {
    let fixture = bare(|machine| {
        machine.network_multi_queue = true;
        machine.cpu.cores = 4;
    });
    device(name, &fixture.nic(nic, link), |domain, qemu_arguments| domain.interface(0, qemu_arguments));
}

#[test]
fn interfaces() {
    let plain = || nic("default", Nic::Virtio);
    one_nic("interface-tap", plain(), tap(0));
    let down =
        Interface { up: false, boot_order: Some(1), acpi_index: Some(3), ..nic("default", Nic::E1000e) };
    one_nic("interface-tap-down", down, tap(0));
    one_nic("interface-user", plain(), user(0));
    let forward = |protocol: &str, port, guest_port| Forward {
        protocol: protocol.into(),
        address: "127.0.0.1".into(),
        port,
        guest_port,
    };
    let link = Link::User {
        mac: "02:00:00:00:00:01".into(),
        cidr: Some("192.168.77.0/26".into()),
        forwards: vec![forward("tcp", 2222, 22), forward("udp", 5353, 53)],
        isolated: true,
    };
    let dhcp = Dhcp { boot_file: Some("a,b".into()), tftp_server: Some("tftp".into()), ..Dhcp::default() };
    let all = Interface {
        boot_order: Some(1),
        acpi_index: Some(3),
        dhcp: Some(dhcp),
        ..nic("default", Nic::E1000)
    };
    one_nic("interface-user-all", all, link);
}

#[test]
fn interfaces_of_passt() {
    one_nic("interface-passt", nic("default", Nic::Virtio), passt());
    let port = |number, last, protocol| Port { name: None, number, last, protocol };
    let named = Interface {
        binding: Binding::Passt,
        ports: vec![
            port(22, 22, Protocol::Tcp),
            port(8000, 8009, Protocol::Tcp),
            port(53, 53, Protocol::Udp),
        ],
        boot_order: Some(1),
        ..nic("default", Nic::E1000e)
    };
    one_nic("interface-passt-ports", named, passt());
    let mesh = bare(|machine| machine.mesh = true).nic(nic("default", Nic::Virtio), passt());
    device("interface-passt-mesh", &mesh, |domain, qemu_arguments| domain.interface(0, qemu_arguments));
    // The guest's memory is shared with the first kind alone.
    let memory = |model| {
        let fixture = Fixture::bare().nic(nic("default", model), passt());
        fixture.render().contains("<access mode='shared'/>")
    };
    assert!(memory(Nic::Virtio) && !memory(Nic::E1000));
    // What the sidecar of a plugin writes, is not here.
    let of_sidecar = Fixture::bare().nic(nic("default", Nic::Virtio), Link::Sidecar { mac: None });
    assert!(!of_sidecar.render().contains("<interface"));
    let down = Fixture::bare().nic(Interface { up: false, ..nic("default", Nic::Virtio) }, passt());
    assert!(down.refusal().contains("interfaces[0].state"), "{}", down.refusal());
}

#[test]
fn virtual_functions() {
    let function = |address: &str| Link::Device { address: address.into(), mac: None };
    let first = Interface { binding: Binding::Sriov, boot_order: Some(1), ..nic("blue", Nic::Virtio) };
    one_nic("interface-sriov", first, function("0000:65:00.2"));
    for odd in ["", "65:00.2", "0000:65:00.2'/><disk", "0000:65:20.0"] {
        let refusal = Fixture::bare().nic(nic("blue", Nic::Virtio), function(odd)).refusal();
        assert!(refusal.contains("interfaces[0].sriov"), "{refusal}");
    }
    let mac = Some("02:00:00:00:00:07".to_owned());
    let tagged = Interface { tag: Some("fast".into()), ..nic("blue", Nic::Virtio) };
    let fixture = Fixture::bare().nic(tagged, Link::Device { address: "0000:65:00.2".into(), mac });
    let found = crate::domain::tagged(&fixture.machine, &fixture.host.links, &[]).unwrap();
    assert_eq!((&found[0]["mac"], &found[0]["tags"][0]), (&"02:00:00:00:00:07".into(), &"fast".into()));
}

#[test]
fn filesystems() {
    let two = Fixture::bare().filesystem("files").filesystem("conf");
    device("filesystems", &two, |domain, _| Ok([domain.memory(), domain.filesystems()?].concat()));
    let served = two.on(|host| drop(host.filesystems.remove("conf")));
    assert_eq!(served.refusal(), "the location of file system `conf` on this host is missing");
    let many = (0..9).fold(Fixture::bare(), |all, n| all.filesystem(&format!("f{n}")));
    assert_eq!(many.refusal(), "too many file systems: at most 8 fit on machine type q35");
}

#[test]
fn devices_with_tags_are_named_by_their_addresses() {
    let tag = |tag: &str| Some(tag.to_owned());
    let fixture = Fixture::bare()
        .disk(disk("plain", Bus::Virtio), raw("plain"))
        .disk(Disk { tag: tag("data"), ..disk("root", Bus::Virtio) }, raw("root"))
        .disk(Disk { tag: tag("old"), serial: Some("a-1".into()), ..disk("old", Bus::Sata) }, raw("old"))
        .nic(nic("default", Nic::Virtio), user(1))
        .nic(Interface { tag: tag("fast"), ..nic("second", Nic::Virtio) }, user(2));
    let found = crate::domain::tagged(&fixture.machine, &fixture.host.links, &[]).unwrap();
    assert_eq!(
        serde_json::Value::Array(found),
        serde_json::json!([
            {"type": "nic", "bus": "pci", "address": "0000:02:00.0", "mac": "02:00:00:00:00:02", "tags": ["fast"]},
            {"type": "disk", "bus": "virtio", "address": "0000:00:10.1", "path": "/dev/vdb", "tags": ["data"]},
            {"type": "disk", "bus": "sata", "serial": "a-1", "path": "/dev/sda", "tags": ["old"]},
        ])
    );
}

#[test]
fn usb_redirection() {
    let redirects = |fixture: Fixture| {
        let sockets = (0..4).map(|n| format!("/vm/usbredir-{n}").into()).collect();
        fixture.with(|machine| machine.usb_redirection = true).on(|host| host.usb_redirection = sockets)
    };
    // Beside a tablet, which keeps its port.
    let tablet = Input { name: "tablet".into(), virtio: false };
    let fixture = redirects(bare(|machine| machine.inputs = vec![tablet]));
    device("usb-redirection", &fixture, |domain, _| Ok([domain.inputs()?, domain.redirections()?].concat()));
    let sticks = (0..12).fold(fixture, |all, n| all.disk(disk(&format!("d{n}"), Bus::Usb), raw("d")));
    assert_eq!(sticks.refusal(), "too many USB devices: at most 15 fit on a USB controller");
}

#[test]
fn sound() {
    for (name, model) in [("ich9", SoundModel::Ich9), ("ac97", SoundModel::Ac97)] {
        let fixture = bare(|machine| machine.sound = Some(Sound { name: "card".into(), model }));
        device(&format!("sound-{name}"), &fixture, |domain, _| Ok(domain.sound()));
    }
}

#[test]
fn vsock() {
    let with = |fixture: Fixture| {
        fixture.with(|machine| machine.vsock = true).on(|host| host.vsock = Some(4_000_000_000))
    };
    device("vsock", &with(Fixture::bare()), |domain, _| domain.vsock());
    device("vsock-i440fx", &with(Fixture::bare().i440fx()), |domain, _| domain.vsock());
    let unplaced = with(Fixture::bare()).on(|host| host.vsock = None);
    assert_eq!(unplaced.refusal(), "the location of the VSOCK device's context ID on this host is missing");
    let unasked = Fixture::bare().on(|host| host.vsock = Some(3));
    assert!(!crate::domain::render(&unasked.machine, &unasked.host).unwrap().contains("<vsock"));
}

#[test]
fn a_disk_at_the_address_of_the_vsock_device_is_told_what_is_free() {
    for (old, slot, free) in [(false, 0x1e, "0000:00:1d.0"), (true, 0x1d, "0000:00:1c.0")] {
        let bare = if old { Fixture::bare().i440fx() } else { Fixture::bare() };
        let at = Some(api::machine::PciAddress { domain: 0, bus: 0, slot, function: 0 });
        let fixture = bare.disk(Disk { pci_address: at, ..disk("root", Bus::Virtio) }, raw("root"));
        crate::domain::render(&fixture.machine, &fixture.host).unwrap();
        let both = fixture.with(|machine| machine.vsock = true).on(|host| host.vsock = Some(3));
        let said = both.refusal();
        assert!(
            said.contains("which the VSOCK device has") && said.contains(&format!("to {free} are free")),
            "{said}"
        );
    }
}

#[test]
fn serial_and_channel() {
    let part = |domain: &Domain<'_>, _: &mut QemuArguments| domain.serial();
    device("serial", &Fixture::bare(), part);
    device("serial-unlogged", &bare(|machine| machine.serial = Some(Serial { log: false })), part);
    device("channel", &Fixture::bare(), |domain, _| domain.channels());
    let metrics = Fixture::bare().on(|host| host.metrics = Some("/vm/metrics".into()));
    device("channel-metrics", &metrics, |domain, _| domain.channels());
}

#[test]
fn video() {
    let part = |domain: &Domain<'_>, _: &mut QemuArguments| domain.video();
    device("video", &Fixture::bare().screen(), part);
    device("video-efi", &Fixture::bare().screen().efi(false), part);
    for model in ["virtio", "cirrus", "ramfb"] {
        let fixture = bare(|machine| machine.video = Some(Video::Model(model.into())));
        device(&format!("video-{model}"), &fixture, part);
    }
}

#[test]
fn rng_balloon_watchdog_inputs_and_panic_devices() {
    device("rng", &bare(|machine| machine.rng = true), |domain, _| Ok(domain.rng()));
    device("balloon", &Fixture::bare(), |domain, _| Ok([domain.balloon()]));
    device("balloon-none", &bare(|machine| machine.balloon = false), |domain, _| Ok([domain.balloon()]));
    let actions = [
        ("poweroff", WatchdogAction::Poweroff),
        ("reset", WatchdogAction::Reset),
        ("shutdown", WatchdogAction::Shutdown),
    ];
    for (name, action) in actions {
        let dog = bare(|machine| machine.watchdog = Some(Watchdog { name: "dog".into(), action }));
        device(&format!("watchdog-{name}"), &dog, |domain, _| Ok(domain.watchdog()));
    }
    let input = |name: &str, virtio| Input { name: name.into(), virtio };
    let inputs = bare(|machine| {
        machine.inputs =
            vec![input("one", false), input("two", true), input("three", false), input("four", true)];
    });
    device("inputs", &inputs, |domain, _| domain.inputs());
    let panics = |panics: &[Panic]| bare(|machine| machine.panics = panics.to_vec());
    let part = |domain: &Domain<'_>, qemu_arguments: &mut QemuArguments| domain.panics(qemu_arguments);
    device("panic", &panics(&[Panic::Isa, Panic::Pvpanic]), part);
    device("panic-hyperv-kvm", &panics(&[Panic::Hyperv]).kvm(), part);
}
