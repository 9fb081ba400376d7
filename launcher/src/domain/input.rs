//! Input devices. Those on usb take the controller's ports from the last one down, disks from the first one up, so that
//! neither moves the other.

use super::controller::USB_PORTS;
use super::error::DrawError;
use super::pci_devices::PciDevice;
use super::xml::Element;
use super::{Drawing, alias};
use api::machine::{Bus, Input};

impl Drawing<'_> {
    pub(super) fn inputs(&self) -> Result<Vec<Element>, DrawError> {
        let usb_disks = self.machine.disks.iter().filter(|disk| disk.bus == Bus::Usb).count();
        let usb_inputs = self.machine.inputs.iter().filter(|input| !input.virtio).count();
        if usb_disks + usb_inputs > USB_PORTS {
            return Err(DrawError::NoRoom {
                what: "usb devices",
                limit: USB_PORTS,
                board: "a usb controller",
            });
        }
        let (mut virtio, mut usb) = (0, 0);
        // Of all input devices the tablet alone is in the API. It has no form for old guests, so no model to choose.
        let draw = |input: &Input| {
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
        Ok(self.machine.inputs.iter().map(draw).collect())
    }
}

/// A port of the usb controller.
pub(super) fn usb_address(port: usize) -> Element {
    Element::new("address").at("type", "usb").at("bus", 0).at("port", port)
}
