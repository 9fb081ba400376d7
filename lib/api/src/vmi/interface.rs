//! Network interfaces.

use crate::meta::Empty;
use crate::{object, string_enum};

object! {
    /// Network interface of the guest with exactly one binding, for example `bridge` or `masquerade`.
    pub struct Interface {
        /// Name of the interface; must equal the name of a network.
        pub name: String = "name",
        /// Model of the interface: `virtio`, `e1000`, `e1000e`, `igb`, `ne2k_pci`, `pcnet` or `rtl8139`.
        /// Default: `virtio`.
        pub model: Option<String> = "model",
        /// Binding by a Linux bridge: the guest takes over the IP address of the pod interface.
        pub bridge: Option<Empty> = "bridge",
        /// Binding by slirp, discontinued and refused.
        pub slirp: Option<Empty> = "slirp",
        /// Binding by NAT behind the IP address of the pod. Requires the pod network.
        pub masquerade: Option<Empty> = "masquerade",
        /// Binding by passthrough of an SR-IOV virtual function: the guest has the device itself, whatever
        /// `model` says. Requires a Multus network whose NetworkAttachmentDefinition names the resource of a
        /// device plugin.
        pub sriov: Option<Empty> = "sriov",
        /// Binding by macvtap, discontinued and refused.
        pub macvtap: Option<Empty> = "macvtap",
        /// Binding by the former passt API, discontinued and refused.
        pub passt: Option<Empty> = "passt",
        /// Binding by passt, a network of an ordinary user: the guest has the addresses of the pod. Requires
        /// the pod network and the feature gate PasstBinding, which is open by default.
        pub passt_binding: Option<Empty> = "passtBinding",
        /// Binding by a network binding plugin.
        pub binding: Option<PluginBinding> = "binding",
        /// Ports forwarded to the guest with the bindings masquerade and passtBinding, at most 256 together
        /// with `portRanges`. Unset: all ports.
        pub ports: Vec<Port> = "ports",
        /// Port ranges forwarded to the guest with the masquerade binding, at most 256 together with `ports`.
        pub port_ranges: Vec<PortRange> = "portRanges",
        /// MAC address of the interface in the guest, for example `02:11:22:33:44:55`. Unset: that of the pod
        /// interface with `bridge`, generated with `masquerade`.
        pub mac_address: Option<String> = "macAddress",
        /// Boot order among disks and interfaces, unique, from 1. Unset: not a boot device if any other
        /// device has an order.
        pub boot_order: Option<u32> = "bootOrder",
        /// PCI address of the interface, for example `0000:81:01.0`. Unset: assigned by libvirt.
        pub pci_address: Option<String> = "pciAddress",
        /// Additional options of the DHCP server that serves the guest.
        pub dhcp_options: Option<DhcpOptions> = "dhcpOptions",
        /// Tag of the interface in the device metadata that cloud-init passes to the guest.
        pub tag: Option<String> = "tag",
        /// ACPI index from 1 to 16383, a stable number for interface names such as `eno1`. Unset: none.
        pub acpi_index: Option<i64> = "acpiIndex",
        /// Link state of the interface, changed in a VM while its VMI runs; `absent` removes an interface
        /// with the bridge binding at the next start. Default: `up`.
        pub state: Option<InterfaceState> = "state",
    }
}

object! {
    /// Reference to a network binding plugin.
    pub struct PluginBinding {
        /// Name of a plugin in `configuration.network.binding` of the KubeVirt object.
        pub name: String = "name",
    }
}

object! {
    /// Port that is forwarded to the guest.
    pub struct Port {
        /// Name of the port, unique within the interface.
        pub name: Option<String> = "name",
        /// Protocol of the port: `TCP` or `UDP`. Default: `TCP`.
        pub protocol: Option<String> = "protocol",
        /// Port number from 1 to 65535.
        pub port: i64 = "port",
    }
}

object! {
    /// Range of ports that are forwarded to the guest.
    pub struct PortRange {
        /// Protocol of the ports: `TCP` or `UDP`. Default: `TCP`.
        pub protocol: String = "protocol",
        /// First port number of the range.
        pub start: i64 = "start",
        /// Last port number of the range.
        pub end: i64 = "end",
    }
}

object! {
    /// Additional options of the DHCP server that serves the guest.
    pub struct DhcpOptions {
        /// Boot file name (DHCP option 67), at most 255 bytes.
        pub boot_file_name: Option<String> = "bootFileName",
        /// TFTP server name (DHCP option 66), at most 255 bytes.
        pub tftp_server_name: Option<String> = "tftpServerName",
        /// IPv4 addresses of NTP servers (DHCP option 42).
        pub ntp_servers: Vec<String> = "ntpServers",
        /// Site-specific DHCP options, numbers 224 to 254.
        pub private_options: Vec<DhcpPrivateOption> = "privateOptions",
    }
}

object! {
    /// Site-specific DHCP option of the guest.
    pub struct DhcpPrivateOption {
        /// Number of the DHCP option, from 224 to 254.
        pub option: i64 = "option",
        /// Value of the DHCP option, at most 255 bytes.
        pub value: String = "value",
    }
}

string_enum! {
    /// Link state of an interface.
    pub enum InterfaceState {
        Absent = "absent",
        Up = "up",
        Down = "down",
    }
}
