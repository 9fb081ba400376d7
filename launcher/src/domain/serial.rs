//! The serial console: a terminal of the host, whose name libvirt reports when the domain runs, and a log
//! that QEMU writes itself, so that both outlive a launcher. `console/line.rs` has the reason for a terminal.

use super::error::DomainError;
use super::xml::Element;
use super::{Domain, text};

impl Domain<'_> {
    pub(super) fn serial(&self) -> Result<Vec<Element>, DomainError> {
        let Some(serial) = self.machine.serial else { return Ok(Vec::new()) };
        let field = "spec.domain.devices.autoattachSerialConsole";
        let log = match serial.log {
            true => {
                Some(Element::new("log").at("file", text(&self.host.serial_log, field)?).at("append", "on"))
            }
            false => None,
        };
        let line = |name, target| Element::new(name).at("type", "pty").with(log.clone()).and(target);
        let port = Element::new("target");
        Ok(vec![
            line("serial", port.clone().at("type", self.machine.arch.facts().serial).at("port", 0)),
            line("console", port.at("type", "serial").at("port", 0)),
        ])
    }
}
