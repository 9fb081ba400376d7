//! The channel to the guest agent, always: whether an agent is there shows only once the guest runs.

use super::error::DomainError;
use super::xml::Element;
use super::{Domain, text};

impl Domain<'_> {
    pub(super) fn channel(&self) -> Result<Element, DomainError> {
        let path = text(&self.host.agent, "the socket of the guest agent")?;
        let address = Element::new("address")
            .at("type", "virtio-serial")
            .at("controller", 0)
            .at("bus", 0)
            .at("port", 1);
        Ok(Element::new("channel")
            .at("type", "unix")
            .and(Element::new("source").at("mode", "bind").at("path", path))
            .and(Element::new("target").at("type", "virtio").at("name", "org.qemu.guest_agent.0"))
            .and(address))
    }
}
