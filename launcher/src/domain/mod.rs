//! A machine as a libvirt domain. Pure: the same machine on the same host gives the same XML.
//!
//! ```text
//!  Machine (strict, from the spec) ─┐   places  where each device stands on the PCI bus
//!  Host (paths, taps, accelerator) ─┴─► threads which thread does the work of which disk
//!                                        │
//!            one file per device ◄───────┘   memory cpu os features clock sysinfo metadata
//!                    │                       controller disk/ interface usernet video input serial channel
//!                    ▼                       rng watchdog balloon panic
//!            xml (escapes, always) ─► text
//! ```
//!
//! Nothing is left to libvirt that a guest could see: addresses, order, names are all written out. What Debian 12's
//! libvirt (9.0) has no words for goes past it to QEMU, from `usernet`, `panic` and `disk` through `QemuArguments`.
//!
//! Called by `vm::driver` with what `vm::prepare` found. A `DrawError` is a fault of the machine: trying again on the same
//! host gives it again.

mod balloon;
mod channel;
mod clock;
mod controller;
mod cpu;
mod disk;
mod error;
mod features;
pub mod host;
mod input;
mod interface;
mod memory;
mod metadata;
mod os;
mod panic;
mod pci;
mod pci_devices;
mod qemu_arguments;
mod rng;
mod serial;
mod sysinfo;
mod threads;
mod usernet;
mod video;
mod watchdog;
mod xml;

#[cfg(test)]
mod tests;

pub use error::{DrawError, Pci};

use api::launcher::Accelerator;
use api::machine::{Machine, Reboot};
use host::Host;
use pci::Places;
use qemu_arguments::QemuArguments;
use std::collections::BTreeMap;
use threads::Threads;
use xml::Element;

/// The domain of a machine on this host.
pub fn draw(machine: &Machine, host: &Host) -> Result<String, DrawError> {
    let drawing = Drawing::begin(machine, host)?;
    Ok(drawing.domain()?.write()?)
}

/// One disk alone, as it stands in the domain: what libvirt is given when a disc is put in or taken out.
pub fn draw_disk(machine: &Machine, host: &Host, name: &str) -> Result<String, DrawError> {
    let drawing = Drawing::begin(machine, host)?;
    let position = machine.disks.iter().position(|disk| disk.name == name);
    let position = position.ok_or_else(|| DrawError::unplaced(format!("disk `{name}`")))?;
    Ok(drawing.disk(position, &mut QemuArguments::default())?.write()?)
}

/// By disk, what libvirt (and often the guest) calls it: `vda`.
pub fn targets(machine: &Machine) -> BTreeMap<String, String> {
    disk::targets(machine)
}

/// What every device may look at.
struct Drawing<'a> {
    machine: &'a Machine,
    host: &'a Host,
    places: Places,
    threads: Threads,
}

impl<'a> Drawing<'a> {
    fn begin(machine: &'a Machine, host: &'a Host) -> Result<Drawing<'a>, DrawError> {
        Ok(Drawing { machine, host, places: Places::of(machine)?, threads: Threads::of(machine) })
    }

    fn domain(&self) -> Result<Element, DrawError> {
        let mut qemu_arguments = QemuArguments::default();
        let devices = self.devices(&mut qemu_arguments)?;
        if self.emulated() {
            // libvirt would ask for each of the 400 properties of the processor by itself, half of a start's time; so it
            // asks for all features in one word. Under emulation no two hosts' processors are compared.
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

    fn devices(&self, qemu_arguments: &mut QemuArguments) -> Result<Element, DrawError> {
        let mut devices = Element::new("devices").with(self.controllers());
        for position in 0..self.machine.disks.len() {
            devices = devices.and(self.disk(position, qemu_arguments)?);
        }
        for position in 0..self.machine.interfaces.len() {
            devices = devices.with(self.interface(position, qemu_arguments)?);
        }
        Ok(devices
            .with(self.serial()?)
            .and(self.channel()?)
            .with(self.inputs()?)
            .with(self.video()?)
            .with(self.watchdog())
            .and(self.balloon())
            .with(self.rng())
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

/// The name by which libvirt and QEMU know a device of the user's.
fn alias(name: &str) -> Element {
    Element::new("alias").at("name", format!("ua-{name}"))
}

/// A path, which libvirt takes as a text.
fn text<'p>(path: &'p std::path::Path, what: &str) -> Result<&'p str, DrawError> {
    path.to_str().ok_or_else(|| {
        DrawError::refused(
            what,
            format!("the path {} is not UTF-8, which libvirt cannot take", path.display()),
        )
    })
}
