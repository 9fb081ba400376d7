//! Ports for USB devices of clients: a socket each, on which QEMU waits for one client that brings its device
//! (usbredir). They take the ports below those of the inputs. A device of a spec never has a name with `_`,
//! so these aliases are unique.

use super::controller::USB_PORTS;
use super::error::DomainError;
use super::input::usb_address;
use super::xml::Element;
use super::{Domain, alias, text};

impl Domain<'_> {
    pub(super) fn redirections(&self) -> Result<Vec<Element>, DomainError> {
        let inputs = self.machine.inputs.iter().filter(|input| !input.virtio).count();
        let element = |(n, socket): (usize, &std::path::PathBuf)| -> Result<Element, DomainError> {
            let path = text(socket, "spec.domain.devices.clientPassthrough")?;
            Ok(Element::new("redirdev")
                .at("bus", "usb")
                .at("type", "unix")
                .and(Element::new("source").at("mode", "bind").at("path", path))
                .and(alias(&format!("usbredir_{n}")))
                .and(usb_address(USB_PORTS.saturating_sub(inputs + n))))
        };
        self.host.usb_redirection.iter().enumerate().map(element).collect()
    }
}
