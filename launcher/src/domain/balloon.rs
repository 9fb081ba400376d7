//! The memory balloon: it reports the guest's use of its memory every ten seconds, and gives pages back that the guest has
//! freed. Without a balloon the XML must say so, or libvirt adds its own.

use super::Domain;
use super::pci_devices::PciDevice;
use super::xml::Element;

impl Domain<'_> {
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
