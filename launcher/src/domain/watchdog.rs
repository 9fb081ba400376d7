//! The watchdog: its action when the guest stops feeding it.

use super::pci_devices::PciDevice;
use super::xml::Element;
use super::{Domain, alias};
use api::machine::devices::WatchdogAction;

impl Domain<'_> {
    pub(super) fn watchdog(&self) -> Option<Element> {
        let watchdog = self.machine.watchdog.as_ref()?;
        let action = match watchdog.action {
            WatchdogAction::Poweroff => "poweroff",
            WatchdogAction::Reset => "reset",
            WatchdogAction::Shutdown => "shutdown",
        };
        let element = Element::new("watchdog").at("model", "i6300esb").at("action", action);
        Some(element.and(alias(&watchdog.name)).with(self.places.element(PciDevice::Watchdog)))
    }
}
