//! Network interfaces.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name of the interface, the same as that of its network.
    pub name: String,
    /// Model of the network card.
    pub model: Nic,
    pub binding: Binding,
    /// The network binding plugin that attaches it, if one does.
    pub plugin: Option<Plugin>,
    /// Network of the interface.
    pub network: Network,
    /// MAC address, in lower case with colons.
    pub mac: Option<String>,
    /// Position in the boot order, from 1; unique among disks and interfaces.
    pub boot_order: Option<u32>,
    pub pci_address: Option<PciAddress>,
    /// Tag of the interface in the config drive.
    pub tag: Option<String>,
    /// ACPI index, by which the guest may name the interface.
    pub acpi_index: Option<u32>,
    /// Ports that are forwarded to the guest. Empty: all.
    pub ports: Vec<Port>,
    /// The cable is plugged in.
    pub up: bool,
    pub dhcp: Option<Dhcp>,
}

/// The model of a network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nic {
    Virtio,
    E1000,
    E1000e,
    Igb,
    Ne2kPci,
    Pcnet,
    Rtl8139,
}

/// Binding of an interface to its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// On a bridge with the pod's interface; the guest has the pod's address.
    Bridge,
    /// Behind the pod's address.
    Masquerade,
    /// On a bridge with the pod's interface, without DHCP, for a network binding plugin.
    ManagedTap,
    /// By a tap that a network binding plugin created in the pod.
    Tap,
    /// By the sidecar of a network binding plugin, which adds the interface to the domain.
    Sidecar,
    /// By a virtual function of a card of the node, which is passed through.
    Sriov,
    /// By passt, an unprivileged program that shares the pod's addresses with the guest.
    Passt,
}

/// A network binding plugin, as the KubeVirt object registers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugin {
    pub name: String,
    /// Binding of the interface (`domainAttachmentType`): an existing tap, or one that is created for it.
    pub attachment: Option<Binding>,
    /// Image of the plugin's hook sidecar, if it has one.
    pub sidecar: Option<String>,
    /// The plugin gets the devices of the pod's networks (`downwardAPI: device-info`).
    pub device_info: bool,
    /// NetworkAttachmentDefinition that prepares the pod.
    pub definition: Option<String>,
    /// Additional memory of the compute container in bytes.
    pub memory: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// The pod network, with the guest's network behind a masquerade.
    Pod {
        /// Value of `vmNetworkCIDR` in the spec.
        cidr: Option<String>,
        /// Value of `vmIPv6NetworkCIDR` in the spec.
        cidr6: Option<String>,
    },
    /// A network of Multus.
    Multus {
        /// Name of the NetworkAttachmentDefinition.
        name: String,
        /// The network replaces the pod network.
        default: bool,
    },
}

/// Reason why an interface of QEMU's own network, which `coracle run` gives a VMI, has no `state`.
pub const NO_LINK_STATE: &str = "a user-mode network has no link state; remove the field";
/// Reason why such an interface has no `vmIPv6NetworkCIDR`.
pub const NO_IPV6: &str = "a user-mode network has no IPv6; remove the field";

/// TCP ports of Istio's sidecar. With a mesh they lead to the pod, not to the guest.
pub const OF_MESH: [u16; 10] = [15000, 15001, 15004, 15006, 15008, 15009, 15020, 15021, 15053, 15090];

/// Most ports and ranges of ports of an interface: each takes three rules of the pod's network for each IP
/// family.
pub const MOST_PORTS: usize = 256;
/// Most networks, and most interfaces, of a VMI: its PCI bus has no slots for more.
pub const MOST_NETWORKS: usize = 32;

/// A port that is forwarded to the guest, or a range of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub name: Option<String>,
    /// From 1; the first port of a range.
    pub number: u16,
    /// The last port of a range, else the same port.
    pub last: u16,
    pub protocol: Protocol,
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// DHCP options that the spec adds for the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dhcp {
    /// Value of `bootFileName` in the spec.
    pub boot_file: Option<String>,
    /// Value of `tftpServerName` in the spec.
    pub tftp_server: Option<String>,
    /// IPv4 addresses of NTP servers.
    pub ntp_servers: Vec<String>,
    /// Private DHCP options (`privateOptions` in the spec), by number: 224 to 254.
    pub private: Vec<(u8, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciAddress {
    pub domain: u16,
    pub bus: u8,
    pub slot: u8,
    pub function: u8,
}

impl PciAddress {
    /// Parses `0000:81:01.0`, and no other form.
    pub fn parse(text: &str) -> Option<PciAddress> {
        let bytes = text.as_bytes();
        if bytes.len() != 12 || bytes[4] != b':' || bytes[7] != b':' || bytes[10] != b'.' {
            return None;
        }
        let hex = |range: std::ops::Range<usize>| {
            let part = text.get(range)?;
            part.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u16::from_str_radix(part, 16).ok())?
        };
        let byte = |range| hex(range).and_then(|n| u8::try_from(n).ok());
        let address =
            PciAddress { domain: hex(0..4)?, bus: byte(5..7)?, slot: byte(8..10)?, function: byte(11..12)? };
        (address.slot < 32 && address.function < 8).then_some(address)
    }
}

impl std::fmt::Display for PciAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let PciAddress { domain, bus, slot, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{slot:02x}.{function:x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pci_address_has_one_form() {
        let address = PciAddress { domain: 0, bus: 0x81, slot: 1, function: 7 };
        assert_eq!(PciAddress::parse("0000:81:01.7"), Some(address));
        assert_eq!(address.to_string(), "0000:81:01.7");
        for odd in
            ["", "0000:81:01", "0000:81:20.0", "0000:81:01.8", "+000:81:01.0", "0000:81:01.0 ", "000é:81:1.0"]
        {
            assert_eq!(PciAddress::parse(odd), None, "{odd}");
        }
    }
}
