//! The memory balloon: it tells how the guest uses its memory every ten seconds, and gives pages back that the guest has
//! freed. Without one libvirt must be told so, or it adds its own.

use super::Drawing;
use super::pci_devices::PciDevice;
use super::xml::Element;

impl Drawing<'_> {
    pub(super) fn balloon(&self) -> Element {
        let balloon = Element::new("memballoon");
        if !self.machine.balloon {
            return balloon.at("model", "none");
        }
        balloon
            .at("model", self.virtio())
            .at("freePageReporting", "on")
            .and(Element::new("stats").at("period", 10))
            .with(self.places.element(PciDevice::Balloon))
    }
}
