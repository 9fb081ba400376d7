//! Metadata of the domain, which libvirt stores for KubeVirt: the uid of the VMI and its grace period.

use super::Domain;
use super::xml::Element;

impl Domain<'_> {
    pub(super) fn metadata(&self) -> Element {
        let grace = Element::of("deletionGracePeriodSeconds", self.machine.grace_period);
        let ours = Element::new("kubevirt")
            .at("xmlns", "http://kubevirt.io")
            .with(self.machine.uid.as_ref().map(|uid| Element::of("uid", uid)))
            .and(Element::new("graceperiod").and(grace));
        Element::new("metadata").and(ours)
    }
}
