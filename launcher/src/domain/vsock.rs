//! The VSOCK device: sockets between the guest and its node, without a network. The XML has the guest's
//! context ID (CID), so that libvirt chooses none. The device has no alias, since a disk may have that name
//! too.

use super::pci_devices::PciDevice;
use super::xml::Element;
use super::{Domain, DomainError};

impl Domain<'_> {
    pub(super) fn vsock(&self) -> Result<Option<Element>, DomainError> {
        if !self.machine.vsock {
            return Ok(None);
        }
        let cid = self.host.vsock.ok_or_else(|| DomainError::unplaced("the VSOCK device's context ID"))?;
        let element = Element::new("vsock").at("model", self.virtio());
        let cid = Element::new("cid").at("auto", "no").at("address", cid.to_string());
        Ok(Some(element.and(cid).with(self.places.element(PciDevice::Vsock))))
    }
}
