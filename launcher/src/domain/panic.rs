//! Panic devices of the guest. libvirt 9.0 has no element for the one on the PCI bus, so that is passed to
//! QEMU directly. QEMU's event is the same for all.

use super::Domain;
use super::error::DomainError;
use super::pci_devices::PciDevice;
use super::qemu_arguments::QemuArguments;
use super::xml::Element;
use api::machine::Panic;
use serde_json::json;

impl Domain<'_> {
    pub(super) fn panics(&self, qemu_arguments: &mut QemuArguments) -> Result<Vec<Element>, DomainError> {
        let mut elements = Vec::new();
        for (n, panic) in self.machine.panics.iter().enumerate() {
            match panic {
                Panic::Isa => {
                    let port = Element::new("address").at("type", "isa").at("iobase", "0x505");
                    elements.push(Element::new("panic").at("model", "isa").and(port));
                }
                Panic::Hyperv if self.emulated() => {
                    let field = format!("spec.domain.devices.panicDevices[{n}].model");
                    return Err(DomainError::refused(field, "`hyperv` needs KVM; use `isa` under emulation"));
                }
                Panic::Hyperv => elements.push(Element::new("panic").at("model", "hyperv")),
                Panic::Pvpanic => {
                    let Some(address) = self.places.get(PciDevice::Panic) else { continue };
                    let addr = format!("0x{:x}", address.slot);
                    qemu_arguments.device(
                        &json!({"driver": "pvpanic-pci", "id": "ua-panic", "bus": self.bus(0), "addr": addr}),
                    );
                }
            }
        }
        Ok(elements)
    }
}
