//! File systems that the guest mounts by their names (virtiofs). virtiofsd runs in its own container, and
//! QEMU connects to its socket. virtiofsd reads and writes the guest's memory, which therefore is a shared
//! file (`memory`).

use super::error::DomainError;
use super::pci_devices::PciDevice;
use super::xml::Element;
use super::{Domain, alias, text};

/// Most requests that wait for virtiofsd.
const QUEUE: u32 = 1024;

impl Domain<'_> {
    pub(super) fn filesystems(&self) -> Result<Vec<Element>, DomainError> {
        let element = |(n, filesystem): (usize, &api::machine::Filesystem)| -> Result<Element, DomainError> {
            let name = &filesystem.name;
            let socket = self.host.filesystems.get(name);
            let socket = socket.ok_or_else(|| DomainError::unplaced(format!("file system `{name}`")))?;
            let field = format!("spec.domain.devices.filesystems[{n}] ({name})");
            Ok(Element::new("filesystem")
                .at("type", "mount")
                .at("accessmode", "passthrough")
                .and(Element::new("driver").at("type", "virtiofs").at("queue", QUEUE))
                .and(Element::new("source").at("socket", text(socket, &field)?))
                .and(Element::new("target").at("dir", name))
                .and(alias(name))
                .with(self.places.element(PciDevice::Filesystem(n))))
        };
        self.machine.filesystems.iter().enumerate().map(element).collect()
    }
}
