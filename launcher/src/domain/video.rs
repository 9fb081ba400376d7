//! The video device, and the socket on which QEMU serves it (VNC). Under EFI the default is `bochs`, without
//! the parts of VGA that such a guest does not use.

use super::error::DomainError;
use super::pci_devices::PciDevice;
use super::xml::Element;
use super::{Domain, text};
use api::machine::{Boot, Video};

impl Domain<'_> {
    pub(super) fn video(&self) -> Result<Vec<Element>, DomainError> {
        let Some(video) = &self.machine.video else { return Ok(Vec::new()) };
        let name = match (video, self.machine.firmware.boot) {
            (Video::Default, Boot::Bios { .. }) => "vga",
            (Video::Default, Boot::Efi { .. }) => "bochs",
            (Video::Model(name), _) => name,
        };
        let memory = matches!(name, "vga" | "bochs" | "cirrus").then_some(16384);
        let heads = (name != "none").then_some(1);
        let model = Element::new("model").at("type", name).maybe_at("heads", heads).maybe_at("vram", memory);
        let socket = text(&self.host.vnc, "spec.domain.devices.autoattachGraphicsDevice")?;
        let listen = Element::new("listen").at("type", "socket").at("socket", socket);
        Ok(vec![
            Element::new("graphics").at("type", "vnc").and(listen),
            Element::new("video").and(model).with(self.places.element(PciDevice::Video)),
        ])
    }
}
