//! Channels. The one to the guest agent always exists, since only the running guest shows whether it has an
//! agent. The one of metrics exists if the VM asks for it. Each has its own port of the controller.

use super::error::DomainError;
use super::xml::Element;
use super::{Domain, text};
use std::path::Path;

impl Domain<'_> {
    pub(super) fn channels(&self) -> Result<Vec<Element>, DomainError> {
        let agent = channel(&self.host.agent, "the socket of the guest agent", "org.qemu.guest_agent.0", 1)?;
        let metrics =
            self.host.metrics.as_deref().map(|socket| {
                channel(socket, "spec.domain.devices.downwardMetrics", "org.github.vhostmd.1", 2)
            });
        Ok([Some(agent), metrics.transpose()?].into_iter().flatten().collect())
    }
}

fn channel(socket: &Path, what: &str, name: &str, port: u32) -> Result<Element, DomainError> {
    let address =
        Element::new("address").at("type", "virtio-serial").at("controller", 0).at("bus", 0).at("port", port);
    Ok(Element::new("channel")
        .at("type", "unix")
        .and(Element::new("source").at("mode", "bind").at("path", text(socket, what)?))
        .and(Element::new("target").at("type", "virtio").at("name", name))
        .and(address))
}
