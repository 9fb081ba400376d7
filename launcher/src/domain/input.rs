//! Input devices. On USB they take the controller's ports from the last one down, and disks take them from
//! the first one up, so that neither moves the other.

use super::controller::USB_PORTS;
use super::error::DomainError;
use super::pci_devices::PciDevice;
use super::xml::Element;
use super::{Domain, alias};
use api::machine::{Bus, Input};

impl Domain<'_> {
    pub(super) fn inputs(&self) -> Result<Vec<Element>, DomainError> {
        let usb_disks = self.machine.disks.iter().filter(|disk| disk.bus == Bus::Usb).count();
        let usb_inputs = self.machine.inputs.iter().filter(|input| !input.virtio).count();
        if usb_disks + usb_inputs + self.host.usb_redirection.len() > USB_PORTS {
            return Err(DomainError::NoRoom {
                what: "USB devices",
                limit: USB_PORTS,
                on: "a USB controller",
            });
        }
        let (mut virtio, mut usb) = (0, 0);
        // The API has only tablets. They have no transitional form, so no model is chosen.
        let element = |input: &Input| {
            let element = Element::new("input").at("type", "tablet");
            if input.virtio {
                virtio += 1;
                element
                    .at("bus", "virtio")
                    .and(alias(&input.name))
                    .with(self.places.element(PciDevice::Input(virtio - 1)))
            } else {
                usb += 1;
                element.at("bus", "usb").and(alias(&input.name)).and(usb_address(USB_PORTS + 1 - usb))
            }
        };
        Ok(self.machine.inputs.iter().map(element).collect())
    }
}

/// A port of the USB controller.
pub(super) fn usb_address(port: usize) -> Element {
    Element::new("address").at("type", "usb").at("bus", 0).at("port", port)
}
