//! What libvirt keeps for us beside the machine: whose it is, and how long its end may take.

use super::Drawing;
use super::xml::Element;

impl Drawing<'_> {
    pub(super) fn metadata(&self) -> Element {
        let grace = Element::of("deletionGracePeriodSeconds", self.machine.grace_period);
        let ours = Element::new("kubevirt")
            .at("xmlns", "http://kubevirt.io")
            .with(self.machine.uid.as_ref().map(|uid| Element::of("uid", uid)))
            .and(Element::new("graceperiod").and(grace));
        Element::new("metadata").and(ours)
    }
}
