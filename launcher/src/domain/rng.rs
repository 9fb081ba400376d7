//! The random number generator.

use super::Domain;
use super::pci_devices::PciDevice;
use super::xml::Element;

impl Domain<'_> {
    pub(super) fn rng(&self) -> Option<Element> {
        let backend = Element::of("backend", "/dev/urandom").at("model", "random");
        let rng = Element::new("rng").at("model", self.virtio()).and(backend);
        self.machine.rng.then(|| rng.with(self.places.element(PciDevice::Rng)))
    }
}
