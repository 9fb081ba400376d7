//! Network interfaces.

use crate::meta::Empty;
use crate::{object, words};

object! {
    /// A network interface.
    pub struct Interface {
        /// Its name, which is its network's.
        pub name: String = "name",
        /// The device the guest sees; not said is `virtio`.
        pub model: Option<String> = "model",
        /// On a bridge with the pod's interface.
        pub bridge: Option<Empty> = "bridge",
        /// Discontinued.
        pub slirp: Option<Empty> = "slirp",
        /// Behind the pod's address.
        pub masquerade: Option<Empty> = "masquerade",
        /// A function of a card of the host.
        pub sriov: Option<Empty> = "sriov",
        /// Discontinued.
        pub macvtap: Option<Empty> = "macvtap",
        /// Discontinued.
        pub passt: Option<Empty> = "passt",
        /// Through passt.
        pub passt_binding: Option<Empty> = "passtBinding",
        /// Through a plugin.
        pub binding: Option<PluginBinding> = "binding",
        /// The ports that are let in; none means all.
        pub ports: Vec<Port> = "ports",
        /// The ports that are let in.
        pub port_ranges: Vec<PortRange> = "portRanges",
        /// The guest's address.
        pub mac_address: Option<String> = "macAddress",
        /// The place in the order of boot devices, from 1; shared by disks and interfaces.
        pub boot_order: Option<u32> = "bootOrder",
        /// Where it stands on the PCI bus: `0000:81:01.0`.
        pub pci_address: Option<String> = "pciAddress",
        /// What DHCP tells the guest beyond the usual.
        pub dhcp_options: Option<DhcpOptions> = "dhcpOptions",
        /// A note to the guest.
        pub tag: Option<String> = "tag",
        /// The index that the guest may name it by.
        pub acpi_index: Option<i64> = "acpiIndex",
        /// Whether the cable is plugged in.
        pub state: Option<InterfaceState> = "state",
    }
}

object! {
    /// A binding that a plugin makes.
    pub struct PluginBinding {
        /// The plugin's name.
        pub name: String = "name",
    }
}

object! {
    /// A port that is let in.
    pub struct Port {
        /// Its name.
        pub name: Option<String> = "name",
        /// `TCP` or `UDP`; not said is TCP.
        pub protocol: Option<String> = "protocol",
        /// From 1 to 65535.
        pub port: i64 = "port",
    }
}

object! {
    /// Ports that are let in.
    pub struct PortRange {
        /// `TCP` or `UDP`; not said is TCP.
        pub protocol: String = "protocol",
        /// The first.
        pub start: i64 = "start",
        /// The last.
        pub end: i64 = "end",
    }
}

object! {
    /// What DHCP tells the guest beyond the usual.
    pub struct DhcpOptions {
        /// Option 67.
        pub boot_file_name: Option<String> = "bootFileName",
        /// Option 66.
        pub tftp_server_name: Option<String> = "tftpServerName",
        /// Option 42: IPv4 addresses.
        pub ntp_servers: Vec<String> = "ntpServers",
        /// Options 224 to 254.
        pub private_options: Vec<DhcpPrivateOption> = "privateOptions",
    }
}

object! {
    /// An option that has no name.
    pub struct DhcpPrivateOption {
        /// Its number.
        pub option: i64 = "option",
        /// What it says.
        pub value: String = "value",
    }
}

words! {
    /// Whether the cable is plugged in.
    #[allow(missing_docs)]
    pub enum InterfaceState {
        Absent = "absent",
        Up = "up",
        Down = "down",
    }
}
