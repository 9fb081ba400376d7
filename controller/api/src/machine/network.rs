//! Network interfaces.

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, which is its network's.
    pub name: String,
    /// The device the guest sees.
    pub model: Nic,
    /// How it is attached to the network.
    pub binding: Binding,
    /// The network binding plugin that attaches it, where one does.
    pub plugin: Option<Plugin>,
    /// The network: the pod's, or another by name.
    pub network: Network,
    /// Its address, in lower case with colons.
    pub mac: Option<String>,
    /// The place in the order of boot devices, from 1; shared with disks, unique.
    pub boot_order: Option<u32>,
    /// Where it stands on the PCI bus.
    pub pci_address: Option<PciAddress>,
    /// What a config drive calls it.
    pub tag: Option<String>,
    /// The index that the guest may name it by.
    pub acpi_index: Option<u32>,
    /// The ports that are let in; none means all.
    pub ports: Vec<Port>,
    /// The cable is plugged in.
    pub up: bool,
    /// What DHCP tells the guest beyond the usual.
    pub dhcp: Option<Dhcp>,
}

/// The model of a network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Nic {
    Virtio,
    E1000,
    E1000e,
    Igb,
    Ne2kPci,
    Pcnet,
    Rtl8139,
}

/// How an interface is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// On a bridge with the pod's interface; the guest has the pod's address.
    Bridge,
    /// Behind the pod's address.
    Masquerade,
    /// On a bridge with the pod's interface, as a network binding plugin wants it: without DHCP.
    ManagedTap,
    /// By a tap that a network binding plugin made in the pod.
    Tap,
}

/// A network binding plugin, as the KubeVirt object registers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugin {
    /// Its name.
    pub name: String,
    /// How an interface is attached (`domainAttachmentType`): a tap, or one that is made for it.
    pub attachment: Option<Binding>,
    /// It has a program beside the launcher.
    pub has_sidecar: bool,
    /// The NetworkAttachmentDefinition that prepares the pod.
    pub definition: Option<String>,
    /// What the compute container needs for it, in bytes.
    pub memory: u64,
}

/// A network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// The pod's, and what the guest's network is behind a masquerade.
    Pod {
        /// `vmNetworkCIDR`.
        cidr: Option<String>,
        /// `vmIPv6NetworkCIDR`.
        cidr6: Option<String>,
    },
    /// Another one.
    Multus {
        /// Its definition's name.
        name: String,
        /// It takes the place of the pod's.
        default: bool,
    },
}

/// The most ports and ranges of ports that an interface may name: each takes three rules of the pod's network for each
/// family of addresses.
pub const MOST_PORTS: usize = 256;

/// A port that is let in, or a range of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: Option<String>,
    /// From 1; of a range the first.
    pub number: u16,
    /// The last of a range; else the same.
    pub last: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Protocol {
    Tcp,
    Udp,
}

/// What DHCP tells the guest beyond the usual.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dhcp {
    /// `bootFileName`.
    pub boot_file: Option<String>,
    /// `tftpServerName`.
    pub tftp_server: Option<String>,
    /// IPv4 addresses.
    pub ntp_servers: Vec<String>,
    /// Options 224 to 254.
    pub private: Vec<(u8, String)>,
}

/// A place on the PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct PciAddress {
    pub domain: u16,
    pub bus: u8,
    pub slot: u8,
    pub function: u8,
}
