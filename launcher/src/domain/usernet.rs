//! A user-mode network of one guest, for hosts on which the launcher may not create a tap.
//!
//! libvirt 9.0 cannot express it: it supports too little of passt, and ignores forwards on its own user
//! network. So both halves are passed to QEMU directly: the network, and a device at a PCI address that
//! libvirt does not use (behind a root port that is in the XML without a device, or in its own slot).
//!
//! ```text
//!  127.0.0.1:2222 ──hostfwd──► [ .1 gateway   .2 guest   last: DNS ] ──► any address that this host may reach
//! ```
//!
//! The gateway is the network's first address and the guest has the second, as behind a masquerade in a cluster, so the
//! network settings of a seed are right in both places. IPv6 is off: a guest would try it first and wait.
//!
//! One queue, since one thread serves it. Forwards are checked here although they come from our own side,
//! because a comma in one would start another option of QEMU.

use super::Domain;
use super::error::DomainError;
use super::interface::{checked_mac, field};
use super::pci_devices::PciDevice;
use super::qemu_arguments::QemuArguments;
use api::launcher::{Forward, Link};
use api::machine::network::{Dhcp, NO_IPV6, NO_LINK_STATE, Network};
use api::machine::{Chipset, Interface, Nic};
use serde_json::json;
use std::net::Ipv4Addr;

/// The default of a guest's network.
const USUAL: &str = "10.0.2.0/24";

impl Domain<'_> {
    pub(super) fn user_network(
        &self,
        position: usize,
        nic: &Interface,
        qemu_arguments: &mut QemuArguments,
    ) -> Result<(), DomainError> {
        let Some(Link::User { mac, cidr, forwards, isolated }) = self.host.links.get(&nic.name) else {
            return Ok(());
        };
        let refuse = |name: &str, why: String| Err(DomainError::refused(field(position, name), why));
        if !nic.up {
            return refuse("state", NO_LINK_STATE.into());
        }
        if let Network::Pod { cidr6: Some(_), .. } = nic.network {
            let field = format!("spec.networks[name={}].pod.vmIPv6NetworkCIDR", nic.name);
            return Err(DomainError::refused(field, NO_IPV6));
        }
        let id = format!("net-{position}");
        let mut net = format!("user,id={id},ipv6=off");
        let cidr = cidr.as_deref().unwrap_or(USUAL);
        let Subnet { network, prefix, gateway, guest, dns } = match Subnet::parse(cidr) {
            Ok(subnet) => subnet,
            Err(why) => return refuse("masquerade", why),
        };
        net += &format!(",net={network}/{prefix},host={gateway},dhcpstart={guest},dns={dns}");
        // QEMU accepts names of 64 bytes at most here.
        if let Some(hostname) = self.machine.hostname.get(..self.machine.hostname.len().min(63)) {
            net += &format!(",hostname={}", value(hostname));
        }
        net += &dhcp(nic.dhcp.as_ref(), position)?;
        if *isolated {
            net += ",restrict=on";
        }
        for forward in forwards {
            net += &format!(
                ",hostfwd={}",
                hostfwd(forward).map_err(|why| DomainError::refused(field(position, "ports"), why))?
            );
        }
        qemu_arguments.arg("-netdev", net);

        let Some(address) = self.places.get(PciDevice::Interface(position)) else { return Ok(()) };
        let mut device = json!({
            "driver": self.nic_driver(nic.model),
            "netdev": id,
            "id": format!("ua-{}", nic.name),
            "mac": checked_mac(mac, &field(position, "macAddress"))?,
            "bus": self.bus(address.bus),
            "addr": format!("0x{:x}.0x{:x}", address.slot, address.function),
        });
        if self.places.shares_slot(PciDevice::Interface(position)) {
            device["multifunction"] = json!(true);
        }
        match nic.boot_order {
            Some(order) => device["bootindex"] = json!(order),
            None => device["romfile"] = json!(""),
        }
        if let Some(index) = nic.acpi_index {
            device["acpi-index"] = json!(index);
        }
        qemu_arguments.device(&device);
        Ok(())
    }

    /// QEMU's name of a model.
    fn nic_driver(&self, model: Nic) -> &'static str {
        match model {
            Nic::Virtio if self.machine.virtio_transitional => "virtio-net-pci-transitional",
            Nic::Virtio => "virtio-net-pci-non-transitional",
            Nic::E1000 => "e1000",
            Nic::E1000e => "e1000e",
            Nic::Igb => "igb",
            Nic::Ne2kPci => "ne2k_pci",
            Nic::Pcnet => "pcnet",
            Nic::Rtl8139 => "rtl8139",
        }
    }

    /// libvirt's name of a bus.
    pub(super) fn bus(&self, bus: u8) -> String {
        match (self.machine.chipset, bus) {
            (Chipset::Q35, 0) => "pcie.0".into(),
            (_, bus) => format!("pci.{bus}"),
        }
    }
}

fn dhcp(dhcp: Option<&Dhcp>, position: usize) -> Result<String, DomainError> {
    let Some(dhcp) = dhcp else { return Ok(String::new()) };
    for (name, given) in
        [("ntpServers", !dhcp.ntp_servers.is_empty()), ("privateOptions", !dhcp.private.is_empty())]
    {
        if given {
            let field = field(position, &format!("dhcpOptions.{name}"));
            return Err(DomainError::refused(
                field,
                "the DHCP server of a user-mode network does not have this option; remove the field",
            ));
        }
    }
    let option = |name: &str, text: &Option<String>| {
        text.as_ref().map_or(String::new(), |text| format!(",{name}={}", value(text)))
    };
    Ok(option("tftp-server-name", &dhcp.tftp_server) + &option("bootfile", &dhcp.boot_file))
}

/// A value among QEMU's options, with commas doubled: a single comma ends a value.
fn value(text: &str) -> String {
    text.replace(',', ",,")
}

fn hostfwd(forward: &Forward) -> Result<String, String> {
    let Forward { protocol, address, port, guest_port } = forward;
    if !matches!(protocol.as_str(), "tcp" | "udp") {
        return Err(format!("`{protocol}` cannot be forwarded; tcp and udp can"));
    }
    let address: Ipv4Addr = address.parse().map_err(|_| {
        format!(
            "`{address}` is not an address that a user-mode network can listen on; use an IPv4 address, like 127.0.0.1"
        )
    })?;
    if *port == 0 || *guest_port == 0 {
        return Err("port 0 cannot be forwarded".into());
    }
    Ok(format!("{protocol}:{address}:{port}-:{guest_port}"))
}

struct Subnet {
    network: Ipv4Addr,
    prefix: u8,
    gateway: Ipv4Addr,
    guest: Ipv4Addr,
    dns: Ipv4Addr,
}

impl Subnet {
    fn parse(cidr: &str) -> Result<Subnet, String> {
        let no = || format!("`{cidr}` is not a network like {USUAL}");
        let (address, prefix) = cidr.split_once('/').ok_or_else(no)?;
        let address: Ipv4Addr = address.parse().map_err(|_| no())?;
        let prefix: u8 = prefix.parse().map_err(|_| no())?;
        if !(8..=28).contains(&prefix) {
            return Err(format!("`{cidr}`: a user-mode network has a prefix of 8 to 28 bits"));
        }
        let hosts = u32::MAX >> prefix;
        let network = u32::from(address) & !hosts;
        let host = |n: u32| Ipv4Addr::from(network | n);
        let (gateway, guest, dns) = (host(1), host(2), host(hosts - 1));
        Ok(Subnet { network: host(0), prefix, gateway, guest, dns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forward_that_could_be_another_option_is_refused() {
        let forward = |protocol: &str, address: &str, port, guest_port| {
            hostfwd(&Forward { protocol: protocol.into(), address: address.into(), port, guest_port })
        };
        assert_eq!(forward("tcp", "127.0.0.1", 2222, 22).unwrap(), "tcp:127.0.0.1:2222-:22");
        assert_eq!(forward("udp", "0.0.0.0", 53, 53).unwrap(), "udp:0.0.0.0:53-:53");
        for (protocol, address) in [
            ("tcp,smb=/", "127.0.0.1"),
            ("tcp", "127.0.0.1,guestfwd=tcp"),
            ("tcp", "::1"),
            ("sctp", "127.0.0.1"),
            ("tcp", ""),
        ] {
            assert!(forward(protocol, address, 1, 1).is_err(), "{protocol} {address}");
        }
        assert!(forward("tcp", "127.0.0.1", 0, 22).is_err());
        assert!(forward("tcp", "127.0.0.1", 22, 0).is_err());
    }

    #[test]
    fn the_guest_has_the_second_address_as_in_a_cluster() {
        let subnet = Subnet::parse("10.0.2.0/24").unwrap();
        assert_eq!(subnet.gateway, Ipv4Addr::new(10, 0, 2, 1));
        assert_eq!(subnet.guest, Ipv4Addr::new(10, 0, 2, 2));
        assert_eq!(subnet.dns, Ipv4Addr::new(10, 0, 2, 254));
        assert_eq!(Subnet::parse("192.168.77.9/28").unwrap().network, Ipv4Addr::new(192, 168, 77, 0));
        for bad in [
            "10.0.2.0",
            "10.0.2.0/33",
            "10.0.2.0/29",
            "10.0.2.0/7",
            "10.0.2/24",
            "fd00::/64",
            "10.0.2.0/24,smb=/",
        ] {
            assert!(Subnet::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_comma_is_doubled_in_its_value() {
        let given = Dhcp { boot_file: Some("a,smb=/etc".into()), ..Dhcp::default() };
        assert_eq!(dhcp(Some(&given), 0).unwrap(), ",bootfile=a,,smb=/etc");
        let given = Dhcp { ntp_servers: vec!["10.0.2.1".into()], ..Dhcp::default() };
        assert!(
            dhcp(Some(&given), 3)
                .unwrap_err()
                .to_string()
                .starts_with("spec.domain.devices.interfaces[3].dhcpOptions.ntpServers: ")
        );
    }
}
