//! Firmware, kernel, and boot order.
//!
//! The boot order stands in the devices (`<boot order>`), never in the domain. If the spec sets none, all
//! disks of the VM are tried in their order, hard disks before CD-ROMs: see `Domain::boot_order`.

use super::error::DomainError;
use super::host::Efi;
use super::xml::Element;
use super::{Domain, text};
use api::machine::disk::Target;
use api::machine::{Boot, Chipset, Disk, Volume};

impl Domain<'_> {
    pub(super) fn os(&self) -> Result<Element, DomainError> {
        let kind = Element::of("type", "hvm")
            .at("arch", self.machine.arch.facts().kernel_name)
            .at("machine", &self.machine.machine_type);
        let mut os = Element::new("os").and(kind);
        match self.machine.firmware.boot {
            Boot::Bios { use_serial: true } if self.machine.serial.is_none() => {
                let field = "spec.domain.firmware.bootloader.bios.useSerial";
                return Err(DomainError::refused(
                    field,
                    "the VM has no serial console (autoattachSerialConsole)",
                ));
            }
            Boot::Bios { use_serial } => {
                os = os.with(use_serial.then(|| Element::new("bios").at("useserial", "yes")));
            }
            Boot::Efi { secure, .. } => os = os.with(self.efi(secure)?),
        }
        if let Some(kernel) = &self.host.kernel {
            let field = "spec.domain.firmware.kernelBoot";
            os = os.and(Element::of("kernel", text(&kernel.kernel, field)?));
            // With BIOS, QEMU 7.2 loads an initrd where the ACPI tables end, and the log of a TPM makes those
            // longer.
            if self.machine.tpm.is_some()
                && kernel.initrd.is_some()
                && matches!(self.machine.firmware.boot, Boot::Bios { .. })
            {
                let why = "BIOS starts a kernel with an initrd only if there is no TPM: QEMU would load the initrd over the ACPI tables; boot with EFI";
                return Err(DomainError::refused("spec.domain.devices.tpm", why));
            }
            if let Some(initrd) = &kernel.initrd {
                os = os.and(Element::of("initrd", text(initrd, field)?));
            }
            os = os.with(kernel.args.as_ref().map(|args| Element::of("cmdline", args)));
        } else if self.machine.firmware.kernel.is_some() {
            return Err(DomainError::unplaced("the kernel"));
        }
        // Without any order libvirt would put a disk first, where an interface that is passed to QEMU
        // directly may stand. There is never a floppy.
        os = os.with((!self.has_boot_order()).then(|| Element::new("boot").at("dev", "fd")));
        if self.machine.start_paused {
            os = os.and(Element::new("bootmenu").at("enable", "yes").at("timeout", 10_000));
        }
        Ok(os.and(Element::new("smbios").at("mode", "sysinfo")))
    }

    fn efi(&self, secure: bool) -> Result<[Element; 2], DomainError> {
        let field = "spec.domain.firmware.bootloader.efi";
        if secure && self.machine.chipset == Chipset::I440fx {
            let why = "secure boot needs system management mode, which only machine type q35 has";
            return Err(DomainError::refused(format!("{field}.secureBoot"), why));
        }
        let efi = self.host.efi.as_ref();
        let Efi { code, template, vars } = efi.ok_or_else(|| DomainError::unplaced("the EFI firmware"))?;
        let loader = Element::of("loader", text(code, field)?)
            .at("readonly", "yes")
            .at("secure", if secure { "yes" } else { "no" })
            .at("type", "pflash");
        Ok([loader, Element::of("nvram", text(vars, field)?).at("template", text(template, field)?)])
    }

    /// Position of a disk in the boot order.
    ///
    /// A VM with a boot order gets just that: other devices are not tried. A VM without one can start from
    /// any of its disks, except from those that cannot hold a system.
    pub(super) fn boot_order(&self, position: usize) -> Option<u32> {
        let machine = self.machine;
        let disk = machine.disks.get(position)?;
        if machine.disks.iter().any(|disk| disk.boot_order.is_some())
            || machine.interfaces.iter().any(|nic| nic.boot_order.is_some())
        {
            return disk.boot_order;
        }
        let rank = |position: usize, disk: &Disk| (matches!(disk.target, Target::CdRom { .. }), position);
        let mine = rank(position, disk);
        let before =
            machine.disks.iter().enumerate().filter(|(n, disk)| may_boot(disk) && rank(*n, disk) < mine);
        may_boot(disk).then(|| before.count() as u32 + 1)
    }

    /// True if a device in the XML has a boot order.
    fn has_boot_order(&self) -> bool {
        let disks = (0..self.machine.disks.len()).any(|position| self.boot_order(position).is_some());
        disks || self.machine.interfaces.iter().any(|nic| nic.boot_order.is_some() && self.is_libvirts(nic))
    }
}

fn may_boot(disk: &Disk) -> bool {
    match disk.volume {
        Volume::ContainerDisk { .. } | Volume::Claim { .. } | Volume::DataVolume { .. } => true,
        Volume::Ephemeral { .. } | Volume::Host { .. } | Volume::Empty { .. } => true,
        Volume::NoCloud(_) | Volume::ConfigDrive(_) => false,
        Volume::ConfigMap { .. } | Volume::Secret { .. } | Volume::Sysprep { .. } => false,
        Volume::DownwardApi { .. } | Volume::ServiceAccount { .. } | Volume::ContainerPath { .. } => false,
        Volume::NoDisc | Volume::DownwardMetrics => false,
    }
}
