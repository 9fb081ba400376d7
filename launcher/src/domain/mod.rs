//! The libvirt domain of a VM. Pure: the same VM on the same host gives the same XML.
//!
//! ```text
//!  Machine (strict, from the spec) ─┐   places  PCI address of each device
//!  Host (paths, taps, accelerator) ─┴─► threads IOThreads of each disk
//!                                        │
//!            one file per device ◄───────┘   memory cpu os features clock sysinfo metadata
//!                    │                       controller disk/ interface usernet passt video input serial channel
//!                    ▼                       rng watchdog balloon panic hyperv tpm filesystem sound redirection vsock
//!                                            host_device
//!            xml (escapes, always) ─► text
//! ```
//!
//! libvirt chooses nothing that the guest sees: addresses, order and names are all in the XML. Features that
//! Debian 12's libvirt (9.0) has no elements for are passed to QEMU directly, from `usernet`, `panic`,
//! `hyperv` and `disk` through `QemuArguments`.
//!
//! Called by `vm::blocking_work` with the result of `vm::prepare`. A `DomainError` is a fault of the VM: another try
//! on the same host gives it again.

mod balloon;
mod channel;
mod clock;
mod controller;
mod cpu;
mod disk;
mod error;
mod features;
mod filesystem;
pub mod host;
pub mod host_device;
mod hyperv;
mod input;
mod interface;
mod memory;
mod metadata;
mod os;
mod panic;
mod passt;
mod pci;
mod pci_devices;
mod qemu_arguments;
mod redirection;
mod rng;
mod serial;
mod sound;
mod sysinfo;
mod tags;
mod threads;
mod tpm;
mod usernet;
mod video;
mod vsock;
mod watchdog;
mod xml;

#[cfg(test)]
mod tests;

pub use error::DomainError;
pub use tags::tagged;

use api::launcher::Accelerator;
use api::machine::{Machine, Reboot};
use host::Host;
use pci::Places;
use qemu_arguments::QemuArguments;
use std::collections::BTreeMap;
use threads::Threads;
use xml::Element;

/// The XML of a VM's domain on this host.
pub fn render(machine: &Machine, host: &Host) -> Result<String, DomainError> {
    let domain = Domain::of(machine, host)?;
    Ok(domain.element()?.write()?)
}

/// The XML of one disk, as it stands in the domain: libvirt gets it when media are inserted or ejected.
pub fn render_disk(machine: &Machine, host: &Host, name: &str) -> Result<String, DomainError> {
    let domain = Domain::of(machine, host)?;
    let position = machine.disks.iter().position(|disk| disk.name == name);
    let position = position.ok_or_else(|| DomainError::unplaced(format!("disk `{name}`")))?;
    Ok(domain.disk(position, &mut QemuArguments::default())?.write()?)
}

/// The XML of one interface, as it stands in the domain: libvirt gets it when its link goes down or up.
pub fn render_interface(machine: &Machine, host: &Host, name: &str) -> Result<String, DomainError> {
    let domain = Domain::of(machine, host)?;
    let gone = || DomainError::unplaced(format!("interface `{name}`"));
    let position = machine.interfaces.iter().position(|nic| nic.name == name).ok_or_else(gone)?;
    let element = domain.interface(position, &mut QemuArguments::default())?;
    Ok(element.ok_or_else(gone)?.write()?)
}

/// The libvirt target of each disk (`vda`), by the disk's name.
pub fn targets(machine: &Machine) -> BTreeMap<String, String> {
    disk::targets(machine)
}

/// The inputs that every device may read.
struct Domain<'a> {
    machine: &'a Machine,
    host: &'a Host,
    places: Places,
    threads: Threads,
}

impl<'a> Domain<'a> {
    fn of(machine: &'a Machine, host: &'a Host) -> Result<Domain<'a>, DomainError> {
        Ok(Domain {
            machine,
            host,
            places: Places::of(machine, &host.host_devices)?,
            threads: Threads::of(machine, host),
        })
    }

    fn element(&self) -> Result<Element, DomainError> {
        let mut qemu_arguments = QemuArguments::default();
        let devices = self.devices(&mut qemu_arguments)?;
        self.hyperv_past(&mut qemu_arguments);
        if self.emulated() {
            // libvirt would query each of the 400 CPU properties one by one, half of a start's time; this
            // makes it query all features at once. Under emulation CPUs of two hosts are never compared.
            qemu_arguments.without("cpu-unavailable-features");
        }
        Ok(Element::new("domain")
            .at("type", if self.emulated() { "qemu" } else { "kvm" })
            .at("xmlns:qemu", "http://libvirt.org/schemas/domain/qemu/1.0")
            .and(Element::of("name", self.machine.domain_name()))
            .and(Element::of("uuid", &self.machine.firmware.uuid))
            .and(self.metadata())
            .with(self.memory())
            .and(self.vcpu())
            .with(self.threads.element())
            .with(self.cpu_tune())
            .with(self.numa_tune())
            .and(self.sysinfo())
            .and(self.os()?)
            .and(self.features()?)
            .and(self.cpu())
            .with(self.clock())
            .and(Element::of("on_poweroff", "destroy"))
            .and(Element::of(
                "on_reboot",
                match self.machine.reboot {
                    Reboot::Reboot => "restart",
                    Reboot::Terminate => "destroy",
                },
            ))
            .and(Element::of("on_crash", "destroy"))
            .and(devices)
            .with(qemu_arguments.elements()))
    }

    fn devices(&self, qemu_arguments: &mut QemuArguments) -> Result<Element, DomainError> {
        let mut devices = Element::new("devices").with(self.controllers());
        for position in 0..self.machine.disks.len() {
            devices = devices.and(self.disk(position, qemu_arguments)?);
        }
        devices = devices.with(self.filesystems()?);
        for position in 0..self.machine.interfaces.len() {
            devices = devices.with(self.interface(position, qemu_arguments)?);
        }
        Ok(devices
            .with(self.serial()?)
            .with(self.channels()?)
            .with(self.inputs()?)
            .with(self.redirections()?)
            .with(self.host_devices()?)
            .with(self.sound())
            .with(self.video()?)
            .with(self.watchdog())
            .with(self.tpm())
            .and(self.balloon())
            .with(self.rng())
            .with(self.vsock()?)
            .with(self.panics(qemu_arguments)?))
    }

    fn emulated(&self) -> bool {
        self.host.accelerator == Accelerator::Emulation
    }

    /// The model of a virtio device.
    fn virtio(&self) -> &'static str {
        if self.machine.virtio_transitional { "virtio-transitional" } else { "virtio-non-transitional" }
    }
}

/// The alias by which libvirt and QEMU name a device of the spec.
fn alias(name: &str) -> Element {
    Element::new("alias").at("name", format!("ua-{name}"))
}

/// The path as a text, as libvirt requires.
fn text<'p>(path: &'p std::path::Path, what: &str) -> Result<&'p str, DomainError> {
    path.to_str().ok_or_else(|| {
        DomainError::refused(
            what,
            format!("the path {} is not UTF-8, which libvirt cannot take", path.display()),
        )
    })
}
