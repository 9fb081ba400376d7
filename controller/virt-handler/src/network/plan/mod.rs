//! What is to be made in the pod's network for one interface. Pure.
//!
//! ```text
//!  masquerade                                        bridge
//!   wire ── eth0 (stays the pod's)                    wire ── eth0-nic ┐
//!            │  rules: in dnat, out masquerade                         ├ k6t-eth0 169.254.75.10/32
//!           k6t-eth0 10.0.2.1/24, the gateway                 tap0 ────┘
//!            │                                                 │           eth0: a dummy with the pod's address,
//!           tap0 ── guest 10.0.2.2                             guest: the pod's address and MAC       for whoever looks
//! ```
//!
//! With passt nothing is made: it is a program in the pod that lends the guest the pod's addresses, and is allowed the ports.
//!
//! Every step says how it should be in the end, so that steps may be done again.

mod bridge;
mod masquerade;
mod passt;

pub(super) use masquerade::router6;

use super::facts::{Address, Card, Mac};
use super::names;
use super::rules::Table;
use crate::error::{Error, ErrorKind, Result};
use api::launcher::Link;
use api::machine::{Binding, Interface, Machine, Nic};
use std::fmt;

/// The port on which the guest asks for its address.
const DHCP: u16 = 67;

/// What is to be made, and what the launcher is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NetworkPlan {
    /// In order.
    pub(crate) steps: Vec<Step>,
    /// For the launcher.
    pub(crate) link: Link,
}

/// One thing, as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A card is put aside under another name and address; a dummy stands in for it, as it was.
    PutAside {
        /// As it is.
        card: Card,
        /// Its new address.
        mac: Mac,
    },
    /// A bridge.
    Bridge {
        /// Its name.
        name: String,
        /// Its address.
        mac: Mac,
        /// Its largest packet.
        mtu: u32,
    },
    /// A device that QEMU opens.
    Tap {
        /// Its name.
        name: String,
        /// Its largest packet.
        mtu: u32,
        /// More than one queue.
        queues: bool,
    },
    /// A link has an address.
    Address(String, Address),
    /// A link is plugged into a bridge.
    Join(String, String),
    /// The bridge does not learn who is behind a link.
    LearnNothing(String),
    /// A link is up.
    Up(String),
    /// A setting below `/proc/sys/net`.
    Set(String, u32),
    /// A setting below `/proc/sys/net` is not above this.
    Lower(String, u32),
    /// A group that may send echo requests without privileges.
    PingGroup(u32),
    /// Rules.
    Rules(Table),
}

/// What a plan is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a> {
    /// The VMI.
    pub(crate) machine: &'a Machine,
    /// The interface.
    pub(crate) interface: &'a Interface,
    /// Its place among the VMI's.
    pub(crate) position: usize,
    /// The pod's card that it is attached to.
    pub(crate) card: &'a Card,
    /// The tap of that card that is there already.
    pub(crate) tap: Option<&'a str>,
}

/// What is to be made for one interface.
pub(crate) fn plan(given: &Given<'_>) -> Result<NetworkPlan> {
    match given.interface.binding {
        Binding::Masquerade => masquerade::plan(given),
        Binding::Bridge | Binding::ManagedTap => bridge::plan(given),
        Binding::Tap => of_plugin(given),
        Binding::Sidecar => Ok(of_sidecar(given.interface)),
        Binding::Sriov => Err(given.wrong("a virtual function is not of the pod's network")),
        Binding::Passt => passt::plan(given),
    }
}

/// The sidecar of a plugin writes the interface into the domain; nothing is made for it, and it may need no card.
pub(super) fn of_sidecar(interface: &Interface) -> NetworkPlan {
    NetworkPlan { steps: Vec::new(), link: Link::Sidecar { mac: interface.mac.clone() } }
}

/// The plugin has made everything, and the tap belongs to it.
fn of_plugin(given: &Given<'_>) -> Result<NetworkPlan> {
    let card = given.card;
    let name = given.tap.map(str::to_owned).ok_or_else(|| {
        let plugin = given.interface.plugin.as_ref().map_or("", |plugin| &plugin.name);
        let tap = names::tap(&card.name);
        let what = format!(
            "the network binding plugin '{plugin}' has made no tap: {tap} is not there, and {} is none",
            card.name
        );
        Error::new(ErrorKind::NotFound, given.wrong(what).to_string())
    })?;
    let mac = given.wanted_mac()?.unwrap_or(card.mac).to_string();
    Ok(NetworkPlan {
        steps: Vec::new(),
        link: Link::Tap { name, mac, mtu: Some(card.mtu), dhcp: None, dhcp6: None },
    })
}

impl Given<'_> {
    fn tap(&self) -> Step {
        // As the launcher draws it: a tap of one queue is not opened as one of many, nor the other way round.
        let queues = self.machine.network_multi_queue
            && self.interface.model == Nic::Virtio
            && self.machine.cpu.count() > 1;
        Step::Tap { name: names::tap(&self.card.name), mtu: self.card.mtu, queues }
    }

    fn wrong(&self, what: impl fmt::Display) -> Error {
        let at = format!("spec.domain.devices.interfaces[{}]", self.position);
        Error::refused(format!("{at} ('{}'): {what}", self.interface.name))
    }

    /// The address that the manifest names.
    fn wanted_mac(&self) -> Result<Option<Mac>> {
        let read = |text: &String| {
            text.parse::<Mac>().map_err(|()| self.wrong(format!("the macAddress {text} cannot be read")))
        };
        self.interface.mac.as_ref().map(read).transpose()
    }

    /// An address of our own making: the same for the same VM, so that a guest knows its card again.
    fn own_mac(&self, role: &str) -> Mac {
        let text = format!("{}\0{}\0{role}", self.machine.domain_name(), self.interface.name);
        let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let [a, b, c, d, e, ..] = sum.to_be_bytes();
        // The bridge of a masquerade has the one that ends in zeros.
        Mac([2, a, b, c, d, if [a, b, c, d, e] == [0; 5] { 1 } else { e }])
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::PutAside { card, mac } => {
                write!(f, "put {} aside as {} {mac}", card.name, names::aside(&card.name))
            }
            Step::Bridge { name, mac, mtu } => write!(f, "bridge {name} {mac} mtu {mtu}"),
            Step::Tap { name, mtu, queues } => {
                write!(f, "tap {name} mtu {mtu}{}", if *queues { " of many queues" } else { "" })
            }
            Step::Address(link, address) => write!(f, "address {link} {address}"),
            Step::Join(link, bridge) => write!(f, "join {link} to {bridge}"),
            Step::LearnNothing(link) => write!(f, "learn nothing from {link}"),
            Step::Up(link) => write!(f, "up {link}"),
            Step::Set(key, value) => write!(f, "set {key} {value}"),
            Step::Lower(key, value) => write!(f, "lower {key} {value}"),
            Step::PingGroup(group) => write!(f, "pings of the group {group}"),
            Step::Rules(table) => write!(f, "{}", table.to_string().trim_end()),
        }
    }
}

#[cfg(test)]
mod tests;
