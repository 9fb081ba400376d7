//! The memory balloon: it reports the guest's use of its memory at intervals, and returns pages that the
//! guest has freed, according to the settings of the cluster. Without a balloon the XML must say so, or
//! libvirt adds one.

use super::Domain;
use super::pci_devices::PciDevice;
use super::xml::Element;

impl Domain<'_> {
    pub(super) fn balloon(&self) -> Element {
        let balloon = Element::new("memballoon");
        if !self.machine.balloon {
            return balloon.at("model", "none");
        }
        let hardware = &self.host.hardware;
        let period = hardware.balloon_stats_period;
        balloon
            .at("model", self.virtio())
            .at("freePageReporting", if hardware.free_page_reporting { "on" } else { "off" })
            .with((period > 0).then(|| Element::new("stats").at("period", period)))
            .with(self.places.element(PciDevice::Balloon))
    }
}
