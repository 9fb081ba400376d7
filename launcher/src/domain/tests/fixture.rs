//! VMs for the tests. All paths on the host lie under `/vm`, so that a test may put them elsewhere.

use crate::domain::host::{DiskLocation, Efi, Host, Layer, Layers};
use api::launcher::{Accelerator, Format, Forward, Kernel, Link};
use api::machine::cpu::Model;
use api::machine::firmware::Image;
use api::machine::network::Network;
use api::machine::{
    Arch, Binding, Boot, Bus, Chassis, Chipset, CloudInit, Cpu, Disk, ErrorPolicy, Features, Filesystem,
    Firmware, Interface, IoThreads, KernelBoot, Machine, Memory, Nic, Reboot, Serial, Target, Video, Volume,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A VM and its host.
#[derive(Clone)]
pub(super) struct Fixture {
    pub machine: Machine,
    pub host: Host,
}

impl Fixture {
    pub(super) fn render(&self) -> String {
        crate::domain::render(&self.machine, &self.host).unwrap()
    }

    /// The error of a domain that cannot be defined.
    pub(super) fn refusal(&self) -> String {
        crate::domain::render(&self.machine, &self.host).unwrap_err().to_string()
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Machine)) -> Fixture {
        change(&mut self.machine);
        self
    }

    pub(super) fn on(mut self, change: impl FnOnce(&mut Host)) -> Fixture {
        change(&mut self.host);
        self
    }

    pub(super) fn disk(self, disk: Disk, place: DiskLocation) -> Fixture {
        let name = disk.name.clone();
        self.with(|machine| machine.disks.push(disk)).on(|host| {
            host.disks.insert(name, place);
        })
    }

    /// With a file system, which a container serves.
    pub(super) fn filesystem(self, name: &str) -> Fixture {
        let volume = Volume::Claim { name: name.into(), readonly: false };
        self.with(|machine| machine.filesystems.push(Filesystem { name: name.into(), volume })).on(|host| {
            host.filesystems.insert(name.into(), format!("/vm/{name}.sock").into());
        })
    }

    pub(super) fn nic(self, nic: Interface, link: Link) -> Fixture {
        let name = nic.name.clone();
        self.with(|machine| machine.interfaces.push(nic)).on(|host| {
            host.links.insert(name, link);
        })
    }

    /// One emulated vCPU, 128 MiB, a serial console, nothing else.
    pub(super) fn bare() -> Fixture {
        let machine = Machine {
            name: "vm".into(),
            namespace: "default".into(),
            uid: None,
            hostname: "vm".into(),
            subdomain: None,
            arch: Arch::Amd64,
            machine_type: "q35".into(),
            chipset: Chipset::Q35,
            memory: Memory { guest: 128 << 20, hugepage: None, most: None, locked: false },
            cpu: Cpu {
                sockets: 1,
                cores: 1,
                threads: 1,
                max_sockets: None,
                model: Model::HostModel,
                features: Vec::new(),
                dedicated: false,
                isolated_emulator: false,
                numa_of_host: false,
                tsc: None,
                realtime: Vec::new(),
            },
            firmware: Firmware {
                uuid: "5d307ca9-b3ef-428c-8861-06e72d69f223".into(),
                serial: None,
                boot: Boot::Bios { use_serial: false },
                kernel: None,
            },
            chassis: Chassis::default(),
            features: Features { acpi: true, ..Features::default() },
            clock: None,
            disks: Vec::new(),
            filesystems: Vec::new(),
            interfaces: Vec::new(),
            host_devices: Vec::new(),
            resource_claims: Vec::new(),
            inputs: Vec::new(),
            usb_redirection: false,
            downward_metrics: false,
            vsock: false,
            rng: false,
            watchdog: None,
            tpm: None,
            balloon: true,
            serial: Some(Serial { log: true }),
            video: None,
            sound: None,
            panics: Vec::new(),
            virtio_transitional: false,
            no_hotplug: false,
            block_multi_queue: false,
            network_multi_queue: false,
            mesh: false,
            io_threads: IoThreads::Default,
            start_paused: false,
            reboot: Reboot::Reboot,
            grace_period: 30,
            hooks: Vec::new(),
            credentials: Vec::new(),
        };
        let host = Host {
            accelerator: Accelerator::Emulation,
            disks: BTreeMap::new(),
            filesystems: BTreeMap::new(),
            usb_redirection: Vec::new(),
            links: BTreeMap::new(),
            kernel: None,
            efi: None,
            pinning: None,
            serial_log: "/vm/serial.log".into(),
            vnc: "/vm/vnc".into(),
            agent: "/vm/agent".into(),
            vsock: None,
            host_devices: Vec::new(),
            metrics: None,
            iothread_mapping: false,
            sizes: BTreeMap::new(),
            hardware: api::machine::hardware::Hardware::default(),
        };
        Fixture { machine, host }
    }

    /// With a screen.
    pub(super) fn screen(self) -> Fixture {
        self.with(|machine| machine.video = Some(Video::Default))
    }

    pub(super) fn i440fx(self) -> Fixture {
        self.with(|machine| {
            machine.machine_type = "pc-i440fx-7.2".into();
            machine.chipset = Chipset::I440fx;
        })
    }

    pub(super) fn kvm(self) -> Fixture {
        self.on(|host| host.accelerator = Accelerator::Kvm)
    }

    pub(super) fn efi(self, secure: bool) -> Fixture {
        self.with(|machine| machine.firmware.boot = Boot::Efi { secure, persistent: false }).on(|host| {
            let (code, vars) = if secure {
                ("OVMF_CODE_4M.ms.fd", "OVMF_VARS_4M.ms.fd")
            } else {
                ("OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd")
            };
            let folder = PathBuf::from("/usr/share/OVMF");
            host.efi = Some(Efi {
                code: folder.join(code),
                template: folder.join(vars),
                vars: "/vm/vars.fd".into(),
            });
        })
    }

    pub(super) fn kernel(self) -> Fixture {
        self.with(|machine| {
            machine.firmware.kernel =
                Some(KernelBoot { image: None, kernel_path: None, initrd_path: None, args: None });
        })
        .on(|host| {
            host.kernel = Some(Kernel {
                kernel: "/vm/vmlinuz".into(),
                initrd: Some("/vm/initrd".into()),
                args: Some("console=ttyS0 quiet".into()),
            });
        })
    }
}

pub(super) fn disk(name: &str, bus: Bus) -> Disk {
    Disk {
        name: name.into(),
        volume: Volume::Claim { name: name.into(), readonly: false },
        target: Target::Disk,
        bus,
        readonly: false,
        boot_order: None,
        serial: None,
        tag: None,
        dedicated_io_thread: false,
        cache: None,
        io: None,
        error_policy: ErrorPolicy::Stop,
        block_size: None,
        shareable: false,
        pci_address: None,
    }
}

pub(super) fn container_disk(name: &str, bus: Bus) -> Disk {
    let image = Image { name: "registry.example/os:1".into(), pull_policy: None, pull_secret: None };
    Disk { volume: Volume::ContainerDisk { image, path: None }, ..disk(name, bus) }
}

pub(super) fn cloud_init(name: &str, bus: Bus) -> Disk {
    Disk { volume: Volume::NoCloud(CloudInit::default()), ..disk(name, bus) }
}

pub(super) fn cdrom(name: &str, bus: Bus) -> Disk {
    Disk { target: Target::CdRom { open: false }, readonly: true, ..disk(name, bus) }
}

pub(super) fn raw(name: &str) -> DiskLocation {
    DiskLocation::Layers(Layers {
        top: Layer::file(format!("/vm/{name}.img"), Format::Raw),
        below: Vec::new(),
        direct: false,
        preallocated: false,
        blocks: None,
    })
}

pub(super) fn overlay(name: &str) -> DiskLocation {
    DiskLocation::Layers(Layers {
        top: Layer::file(format!("/vm/{name}.qcow2"), Format::Qcow2),
        below: vec![Layer::file("/vm/base.qcow2", Format::Qcow2)],
        direct: false,
        preallocated: false,
        blocks: None,
    })
}

pub(super) fn nic(name: &str, model: Nic) -> Interface {
    Interface {
        name: name.into(),
        model,
        binding: Binding::Masquerade,
        plugin: None,
        network: Network::Pod { cidr: None, cidr6: None },
        mac: None,
        boot_order: None,
        pci_address: None,
        tag: None,
        acpi_index: None,
        ports: Vec::new(),
        up: true,
        dhcp: None,
    }
}

pub(super) fn user(number: u8) -> Link {
    Link::User {
        mac: format!("02:00:00:00:00:{number:02x}"),
        cidr: None,
        forwards: Vec::new(),
        isolated: false,
    }
}

pub(super) fn forwarded(port: u16) -> Link {
    let forward = Forward { protocol: "tcp".into(), address: "127.0.0.1".into(), port, guest_port: 22 };
    Link::User { mac: "02:00:00:00:00:01".into(), cidr: None, forwards: vec![forward], isolated: false }
}

pub(super) fn passt() -> Link {
    Link::Passt { device: "eth0".into(), mac: "02:00:00:00:02:00".into() }
}

pub(super) fn tap(number: u8) -> Link {
    let mac = format!("02:00:00:00:01:{number:02x}");
    Link::Tap { name: format!("tap{number}"), mac, mtu: Some(1400), dhcp: None, dhcp6: None }
}
