//! Masquerade: the guest has a network of its own behind the pod's address.

use super::{DHCP, Given, NetworkPlan, Step};
use crate::error::Result;
use crate::network::facts::{Address, Mac};
use crate::network::names;
use crate::network::rules::{Chain, Hook, Match, Rule, Table, Verdict};
use api::launcher::Link;
use api::lease::{Lease, Lease6};
use api::machine::network::{Network, Protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The guest's network unless the manifest names one.
const NETWORK: &str = "10.0.2.0/24";
const NETWORK6: &str = "fd10:0:2::/120";
/// The address of the bridge: no guest may have it.
const BRIDGE: Mac = Mac([2, 0, 0, 0, 0, 0]);
/// Chains that others look for.
const IN: &str = "KUBEVIRT_PREINBOUND";
const OUT: &str = "KUBEVIRT_POSTINBOUND";

pub(super) fn plan(given: &Given<'_>) -> Result<NetworkPlan> {
    let card = given.card;
    let (bridge, tap) = (names::bridge(&card.name), names::tap(&card.name));
    let Network::Pod { cidr, cidr6 } = &given.interface.network else {
        return Err(given.wrong("masquerade is for the pod network alone"));
    };
    if card.addresses.is_empty() {
        return Err(
            given.wrong(format!("the pod has no address on {}, so nothing can be masqueraded", card.name))
        );
    }
    let inside = Ends::of(cidr.as_deref().unwrap_or(NETWORK))
        .ok_or_else(|| given.wrong("vmNetworkCIDR has no room for a gateway and a guest"))?;
    let inside6 = Ends::of(cidr6.as_deref().unwrap_or(NETWORK6))
        .ok_or_else(|| given.wrong("vmIPv6NetworkCIDR has no room for a gateway and a guest"))?;
    let mac = given.wanted_mac()?.unwrap_or_else(|| given.own_mac("guest"));
    if mac == BRIDGE {
        return Err(given.wrong(format!("the macAddress {mac} is the bridge's")));
    }
    let (has_v4, has_v6) = (card.v4().is_some(), card.has_v6());
    let mut steps = vec![Step::Bridge { name: bridge.clone(), mac: BRIDGE, mtu: card.mtu }];
    if has_v4 {
        steps.push(Step::Address(bridge.clone(), inside.gateway()));
    }
    if has_v6 {
        // A node may switch it off for whatever is new.
        steps.push(Step::Set(format!("ipv6/conf/{bridge}/disable_ipv6"), 0));
        steps.push(Step::Address(bridge.clone(), inside6.gateway()));
    }
    steps.extend([
        given.tap(),
        Step::Join(tap.clone(), bridge.clone()),
        Step::Up(bridge.clone()),
        Step::Up(tap.clone()),
        // Both DHCPs: the other port is higher.
        Step::Lower("ipv4/ip_unprivileged_port_start".into(), u32::from(DHCP)),
    ]);
    if has_v4 {
        steps.extend([
            Step::Set("ipv4/ip_forward".into(), 1),
            // What asks the pod's own 127.0.0.1 reaches the guest.
            Step::Set(format!("ipv4/conf/{bridge}/route_localnet"), 1),
            Step::Rules(table(given, &inside, &bridge)),
        ]);
    }
    if has_v6 {
        steps.push(Step::Set("ipv6/conf/all/forwarding".into(), 1));
        steps.push(Step::Rules(table(given, &inside6, &bridge)));
    }
    let dhcp = match (inside.gateway, inside.guest) {
        (IpAddr::V4(server), IpAddr::V4(address)) if has_v4 => {
            let (device, prefix) = (bridge.clone(), inside.prefix);
            let router = Some(server);
            Some(Box::new(Lease { device, server, address, prefix, router, routes: vec![] }))
        }
        _ => None,
    };
    let dhcp6 = match inside6.guest {
        IpAddr::V6(address) if has_v6 => Some(Box::new(Lease6 { device: bridge, address })),
        _ => None,
    };
    let link = Link::Tap { name: tap, mac: mac.to_string(), mtu: Some(card.mtu), dhcp, dhcp6 };
    Ok(NetworkPlan { steps, link })
}

/// The two ends of the guest's network.
struct Ends {
    gateway: IpAddr,
    guest: IpAddr,
    prefix: u8,
}

impl Ends {
    /// The first and the second host of a network.
    fn of(network: &str) -> Option<Ends> {
        let Address { ip, prefix } = network.parse().ok()?;
        let (gateway, guest) = match ip {
            IpAddr::V4(ip) if prefix <= 30 => {
                let first = u32::from(ip) & (u32::MAX << (32 - u32::from(prefix).max(1)));
                let host = |n: u32| first.checked_add(n).map(|ip| IpAddr::V4(Ipv4Addr::from(ip)));
                (host(1)?, host(2)?)
            }
            IpAddr::V6(ip) if prefix <= 126 => {
                let first = u128::from(ip) & (u128::MAX << (128 - u32::from(prefix).max(1)));
                let host = |n: u128| first.checked_add(n).map(|ip| IpAddr::V6(Ipv6Addr::from(ip)));
                (host(1)?, host(2)?)
            }
            _ => return None,
        };
        Some(Ends { gateway, guest, prefix })
    }

    fn gateway(&self) -> Address {
        Address { ip: self.gateway, prefix: self.prefix }
    }
}

fn table(given: &Given<'_>, ends: &Ends, bridge: &str) -> Table {
    let v6 = ends.guest.is_ipv6();
    let own: IpAddr = if v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
    let rule = |matches: Vec<Match>, verdict: Verdict| Rule { matches, verdict };
    let ports = &given.interface.ports;
    let ports: Vec<Option<Match>> = match ports.as_slice() {
        [] => vec![None],
        ports => ports
            .iter()
            .map(|port| Some(Match::Ports(number(port.protocol), port.number, port.last)))
            .collect(),
    };
    // The same rule for everything, or for each port.
    let each = |first: Option<Match>, verdict: &Verdict| -> Vec<Rule> {
        let all = ports.iter().map(|port| {
            let matches = first.iter().chain(port).cloned().collect();
            rule(matches, verdict.clone())
        });
        all.collect()
    };
    let to_guest = Verdict::Dnat(ends.guest);
    let chain = |name, hook, rules| Chain { name, hook, rules };
    let from_card = Match::From(given.card.name.clone());
    let to_bridge = Match::To(bridge.to_owned());
    Table {
        v6,
        chains: vec![
            chain("prerouting", Some(Hook::Prerouting), vec![rule(vec![from_card], Verdict::Jump(IN))]),
            chain("input", Some(Hook::Input), vec![]),
            chain("output", Some(Hook::Output), each(Some(Match::Destination(own)), &to_guest)),
            chain(
                "postrouting",
                Some(Hook::Postrouting),
                vec![
                    rule(vec![Match::Source(ends.guest)], Verdict::Masquerade),
                    rule(vec![to_bridge], Verdict::Jump(OUT)),
                ],
            ),
            chain(IN, None, each(None, &to_guest)),
            chain(OUT, None, each(Some(Match::Source(own)), &Verdict::Snat(ends.gateway))),
        ],
    }
}

fn number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
    }
}
