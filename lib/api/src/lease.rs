//! DHCP leases: the network configuration of the only guest of a tap, and the device on which it asks for it.
//!
//! ```text
//!  virt-handler: the pod's network ──plan──► Lease ──► launcher: the answers of DHCP
//! ```
//!
//! virt-handler knows addresses and routes. The launcher itself reads the rest (name servers, host name) from
//! the pod's own files.

use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr};

/// DHCP lease of the only guest of a tap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Device on which the guest asks, in the launcher's own network namespace.
    pub device: String,
    /// Address of the DHCP server on that device.
    pub server: Ipv4Addr,
    pub address: Ipv4Addr,
    /// Prefix length of the network.
    pub prefix: u8,
    /// Default gateway of the guest.
    #[serde(default)]
    pub router: Option<Ipv4Addr>,
    /// Routes other than the default one.
    #[serde(default)]
    pub routes: Vec<Route>,
}

/// DHCPv6 lease of the only guest of a tap. DHCPv6 has no routes and no prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease6 {
    /// Device on which the guest asks, in the launcher's own network namespace.
    pub device: String,
    pub address: Ipv6Addr,
}

/// A way to a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Address of the destination network.
    pub to: Ipv4Addr,
    /// Prefix length of the destination.
    pub prefix: u8,
    /// Gateway; `None` if the network is on the link itself.
    #[serde(default)]
    pub via: Option<Ipv4Addr>,
}
