//! An interface of passt, which libvirt starts beside QEMU, and ends with QEMU.
//!
//! ```text
//!  guest ── virtio ── shared memory ───────────── passt ── sockets of the pod's network      vhost-user
//!  guest ── e1000 ──── QEMU ── stream socket ── passt ── the same                          other models
//! ```
//!
//! passt itself answers DHCP, DHCPv6 and neighbour discovery, with the addresses of the given card. libvirt
//! finds the program by `PATH`, in which the launcher stands before it (`hypervisor::passt`). Needs libvirt
//! 11.1.

use super::Domain;
use super::error::DomainError;
use super::interface::{checked_mac, field};
use super::xml::Element;
use api::launcher::Link;
use api::machine::network::{OF_MESH, Port, Protocol};
use api::machine::{Interface, Nic};

impl Domain<'_> {
    pub(super) fn passt(
        &self,
        position: usize,
        nic: &Interface,
        device: &str,
        mac: &str,
    ) -> Result<Element, DomainError> {
        if !nic.up {
            let why = "the link of an interface of passt is always up; remove the field";
            return Err(DomainError::refused(field(position, "state"), why));
        }
        let vhost = nic.model == Nic::Virtio;
        // No MTU: passt terminates the guest's connections, so the guest has passt's own MTU, whatever the
        // pod's is.
        let element = Element::new("interface")
            .at("type", if vhost { "vhostuser" } else { "user" })
            .and(Element::new("mac").at("address", checked_mac(mac, &field(position, "macAddress"))?))
            .and(Element::new("source").at("dev", device))
            .and(Element::new("model").at("type", self.nic_model(nic.model)))
            .and(Element::new("backend").at("type", "passt"))
            .with(self.forwards(nic));
        Ok(self.placed(position, nic, element))
    }

    /// True if passt shares the guest's memory with QEMU.
    pub(super) fn has_vhost_user(&self) -> bool {
        let is_passt = |nic: &Interface| matches!(self.host.links.get(&nic.name), Some(Link::Passt { .. }));
        self.machine.interfaces.iter().any(|nic| nic.model == Nic::Virtio && is_passt(nic))
    }

    /// Ports that are forwarded to the guest; all if the interface names none. Those of Istio's sidecar stay
    /// with the pod.
    fn forwards(&self, nic: &Interface) -> Vec<Element> {
        let of = |protocol: Protocol| -> Vec<Element> {
            nic.ports.iter().filter(|port| port.protocol == protocol).map(range).collect()
        };
        let mesh = || {
            let kept = OF_MESH.into_iter().filter(|_| self.machine.mesh);
            kept.map(|port| Element::new("range").at("start", port).at("exclude", "yes"))
        };
        let forward = |protocol: &str, ranges: Vec<Element>| {
            Element::new("portForward").at("proto", protocol).with(ranges)
        };
        if nic.ports.is_empty() {
            return vec![forward("tcp", mesh().collect()), forward("udp", Vec::new())];
        }
        let all = [("tcp", of(Protocol::Tcp)), ("udp", of(Protocol::Udp))];
        let named = all.into_iter().filter(|(_, ranges)| !ranges.is_empty());
        named.map(|(protocol, ranges)| forward(protocol, ranges)).collect()
    }
}

fn range(port: &Port) -> Element {
    let range = Element::new("range").at("start", port.number);
    if port.last > port.number { range.at("end", port.last) } else { range }
}
