//! What the one guest of a tap is told of its network, and where it asks.
//!
//! ```text
//!  virt-handler: the pod's network ──plan──► Lease ──► launcher: the answers of DHCP
//! ```
//!
//! virt-handler knows addresses and routes; what the pod's own files say (name servers, host name) the launcher reads
//! itself.

use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr};

/// What the one guest of a tap is told by DHCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The device on which the guest asks, in the launcher's own network.
    pub device: String,
    /// Our address on it.
    pub server: Ipv4Addr,
    /// The guest's address.
    pub address: Ipv4Addr,
    /// How many bits of it are the network's.
    pub prefix: u8,
    /// Where everything goes that has no other way.
    #[serde(default)]
    pub router: Option<Ipv4Addr>,
    /// Other ways.
    #[serde(default)]
    pub routes: Vec<Route>,
}

/// What the one guest of a tap is told by DHCPv6, which has no routes and no prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease6 {
    /// The device on which the guest asks, in the launcher's own network.
    pub device: String,
    /// The guest's address.
    pub address: Ipv6Addr,
}

/// A way to a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The network.
    pub to: Ipv4Addr,
    /// How many bits of it count.
    pub prefix: u8,
    /// Who passes packets on; nobody where the network is on the link itself.
    #[serde(default)]
    pub via: Option<Ipv4Addr>,
}
