//! Plan of the changes in the pod's network for one interface. Pure.
//!
//! ```text
//!  masquerade                                        bridge
//!   wire ── eth0 (stays the pod's)                    wire ── eth0-nic ┐
//!            │  rules: in dnat, out masquerade                         ├ k6t-eth0 169.254.75.10/32
//!           k6t-eth0 10.0.2.1/24, the gateway                 tap0 ────┘
//!            │                                                 │           eth0: a dummy with the pod's address,
//!           tap0 ── guest 10.0.2.2                             guest: the pod's address and MAC       for other programs
//! ```
//!
//! passt needs no links: it is a program in the pod that lends the guest the pod's addresses. Only its ports
//! are permitted.
//!
//! Every step describes the final state, so that steps may be repeated.

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

/// Port of the DHCP server.
const DHCP: u16 = 67;

/// Changes for one interface, and its description for the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NetworkPlan {
    pub(crate) steps: Vec<Step>,
    /// Description of the link for the launcher.
    pub(crate) link: Link,
}

/// One part of the wanted state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A card is renamed and gets another MAC address; a dummy with its name and addresses stands in for it.
    PutAside {
        /// The card before the change.
        card: Card,
        /// New MAC address of the card.
        mac: Mac,
    },
    /// Bridge that has no ports yet.
    Bridge {
        name: String,
        /// MAC address of the bridge.
        mac: Mac,
        /// MTU of the bridge.
        mtu: u32,
    },
    /// Tap device for QEMU.
    Tap {
        name: String,
        /// MTU of the tap.
        mtu: u32,
        /// True for more than one queue.
        queues: bool,
    },
    /// Address of a link.
    Address(String, Address),
    /// Link as a port of a bridge.
    Join(String, String),
    /// Bridge port without learning of MAC addresses.
    LearnNothing(String),
    /// Link that is up.
    Up(String),
    /// Value of a setting below `/proc/sys/net`.
    Set(String, u32),
    /// Upper limit of a setting below `/proc/sys/net`.
    Lower(String, u32),
    /// Group that may send echo requests without privileges.
    PingGroup(u32),
    Rules(Table),
}

/// Input of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanInput<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) interface: &'a Interface,
    /// Index of the interface in the VMI.
    pub(crate) position: usize,
    /// Pod's card of the interface.
    pub(crate) card: &'a Card,
    /// Existing tap of that card.
    pub(crate) tap: Option<&'a str>,
}

/// Plans the changes for one interface.
pub(crate) fn plan(given: &PlanInput<'_>) -> Result<NetworkPlan> {
    match given.interface.binding {
        Binding::Masquerade => masquerade::plan(given),
        Binding::Bridge | Binding::ManagedTap => bridge::plan(given),
        Binding::Tap => of_plugin(given),
        Binding::Sidecar => Ok(of_sidecar(given.interface)),
        Binding::Sriov => Err(given.wrong("a virtual function is not part of the pod's network")),
        Binding::Passt => passt::plan(given),
    }
}

/// Plan for a sidecar of a plugin, which writes the interface into the domain: no changes, and there may be
/// no card.
pub(super) fn of_sidecar(interface: &Interface) -> NetworkPlan {
    NetworkPlan { steps: Vec::new(), link: Link::Sidecar { mac: interface.mac.clone() } }
}

/// Plan for a plugin that has made everything, including the tap.
fn of_plugin(given: &PlanInput<'_>) -> Result<NetworkPlan> {
    let card = given.card;
    let name = given.tap.map(str::to_owned).ok_or_else(|| {
        let plugin = given.interface.plugin.as_ref().map_or("", |plugin| &plugin.name);
        let tap = names::tap(&card.name);
        let what = format!(
            "network binding plugin '{plugin}' did not create a tap device: {tap} does not exist, and {} is not a tap device",
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

impl PlanInput<'_> {
    fn tap(&self) -> Step {
        // Same condition as in the launcher: the number of queues must match when the tap is opened.
        let queues = self.machine.network_multi_queue
            && self.interface.model == Nic::Virtio
            && self.machine.cpu.count() > 1;
        Step::Tap { name: names::tap(&self.card.name), mtu: self.card.mtu, queues }
    }

    fn wrong(&self, what: impl fmt::Display) -> Error {
        let at = format!("spec.domain.devices.interfaces[{}]", self.position);
        Error::refused(format!("{at} ('{}'): {what}", self.interface.name))
    }

    /// MAC address in the manifest.
    fn wanted_mac(&self) -> Result<Option<Mac>> {
        let read = |text: &String| {
            text.parse::<Mac>().map_err(|()| self.wrong(format!("the macAddress {text} is invalid")))
        };
        self.interface.mac.as_ref().map(read).transpose()
    }

    /// Generated MAC address: always the same for a VM, so that its guest recognizes the card.
    fn own_mac(&self, role: &str) -> Mac {
        let text = format!("{}\0{}\0{role}", self.machine.domain_name(), self.interface.name);
        let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let [a, b, c, d, e, ..] = sum.to_be_bytes();
        // The address that ends in zeros belongs to the bridge of a masquerade.
        Mac([2, a, b, c, d, if [a, b, c, d, e] == [0; 5] { 1 } else { e }])
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::PutAside { card, mac } => {
                write!(f, "put {} aside as {} {mac}", card.name, names::renamed_card(&card.name))
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
