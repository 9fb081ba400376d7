//! The VSOCK device: sockets between the guest and its node, without a network. The guest's context ID (CID) is given, so that
//! libvirt chooses none.

use super::pci_devices::PciDevice;
use super::xml::Element;
use super::{Domain, DomainError, alias};

impl Domain<'_> {
    pub(super) fn vsock(&self) -> Result<Option<Element>, DomainError> {
        if !self.machine.vsock {
            return Ok(None);
        }
        let cid = self.host.vsock.ok_or_else(|| DomainError::unplaced("the VSOCK device's context ID"))?;
        let element = Element::new("vsock").at("model", self.virtio());
        let cid = Element::new("cid").at("auto", "no").at("address", cid.to_string());
        Ok(Some(element.and(cid).and(alias("vsock")).with(self.places.element(PciDevice::Vsock))))
    }
}
