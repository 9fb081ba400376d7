//! Plan for a masquerade: the guest has a network of its own behind the pod's address.

use super::{DHCP, NetworkPlan, PlanInput, Step};
use crate::error::Result;
use crate::network::facts::{Address, Mac};
use crate::network::names;
use crate::network::rules::{Chain, Hook, Match, Rule, Table, Verdict};
use api::launcher::Link;
use api::lease::{Lease, Lease6};
use api::machine::Interface;
use api::machine::network::{Network, OF_MESH, Port, Protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Default networks of the guest.
const NETWORK: &str = "10.0.2.0/24";
const NETWORK6: &str = "fd10:0:2::/120";
/// MAC address of the bridge, which no guest may have.
const BRIDGE: Mac = Mac([2, 0, 0, 0, 0, 0]);
/// Address from which the sidecar of a service mesh connects to programs of the pod.
const MESH: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 6);
/// Ports that bypass the mesh.
const PAST_MESH: [u16; 1] = [22];
/// Table that translates addresses, and chains in it that other programs look for.
const NAT: &str = "nat";
const IN: &str = "KUBEVIRT_PREINBOUND";
const OUT: &str = "KUBEVIRT_POSTINBOUND";
/// A table of our own: other programs do not expect such chains in the tables that iptables knows.
const OWN: &str = "coracle";

pub(super) fn plan(given: &PlanInput<'_>) -> Result<NetworkPlan> {
    let card = given.card;
    let (bridge, tap) = (names::bridge(&card.name), names::tap(&card.name));
    let Network::Pod { cidr, cidr6 } = &given.interface.network else {
        return Err(given.wrong("masquerade supports the pod network only"));
    };
    if card.addresses.is_empty() {
        return Err(
            given.wrong(format!("the pod has no address on {}, so nothing can be masqueraded", card.name))
        );
    }
    let inside = Hosts::parse(cidr.as_deref().unwrap_or(NETWORK))
        .ok_or_else(|| given.wrong("vmNetworkCIDR has no room for a gateway and a guest"))?;
    let inside6 = Hosts::parse(cidr6.as_deref().unwrap_or(NETWORK6))
        .ok_or_else(|| given.wrong("vmIPv6NetworkCIDR has no room for a gateway and a guest"))?;
    let mac = given.wanted_mac()?.unwrap_or_else(|| given.own_mac("guest"));
    if mac == BRIDGE {
        return Err(given.wrong(format!("the macAddress {mac} is reserved for the bridge")));
    }
    let (has_v4, has_v6) = (card.v4().is_some(), card.has_v6());
    let mut steps = vec![Step::Bridge { name: bridge.clone(), mac: BRIDGE, mtu: card.mtu }];
    if has_v4 {
        steps.push(Step::Address(bridge.clone(), inside.gateway()));
    }
    if has_v6 {
        // A node may disable it for new links.
        steps.push(Step::Set(format!("ipv6/conf/{bridge}/disable_ipv6"), 0));
        steps.push(Step::Address(bridge.clone(), inside6.gateway()));
    }
    steps.extend([
        given.tap(),
        Step::Join(tap.clone(), bridge.clone()),
        Step::Up(bridge.clone()),
        Step::Up(tap.clone()),
        // DHCP for both IP versions: the port of DHCPv6 is higher.
        Step::Lower("ipv4/ip_unprivileged_port_start".into(), u32::from(DHCP)),
    ]);
    if has_v4 {
        steps.extend([
            // Comes before the next steps, which enable forwarding, and routing to 127.0.0.1 for the guest's
            // packets.
            Step::Rules(barrier(&card.name, &bridge, inside.guest)),
            Step::Set("ipv4/ip_forward".into(), 1),
            // Connections to the pod's own 127.0.0.1 reach the guest.
            Step::Set(format!("ipv4/conf/{bridge}/route_localnet"), 1),
            Step::Rules(table(given, &inside, &bridge)),
        ]);
    }
    if has_v6 {
        steps.push(Step::Rules(barrier(&card.name, &bridge, inside6.guest)));
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

/// Router of the guest's IPv6 network, behind a masquerade.
pub(in crate::network) fn router6(interface: &Interface) -> Option<Address> {
    let Network::Pod { cidr6, .. } = &interface.network else { return None };
    Hosts::parse(cidr6.as_deref().unwrap_or(NETWORK6)).map(|ends| ends.gateway())
}

/// Addresses of the guest's network.
struct Hosts {
    gateway: IpAddr,
    guest: IpAddr,
    prefix: u8,
}

impl Hosts {
    /// First and second host of a network.
    fn parse(network: &str) -> Option<Hosts> {
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
        Some(Hosts { gateway, guest, prefix })
    }

    fn gateway(&self) -> Address {
        Address { ip: self.gateway, prefix: self.prefix }
    }
}

/// Rules that keep the pod from acting as a router for any host but its guest.
///
/// - **prerouting**, before address translation: beyond its bridge, no host may use the guest's address as
///   a source or a destination. Otherwise a neighbour on a network of the pod that uses the pod as a router
///   could get past `ports`. Loopback addresses on the bridge are dropped too, as the kernel itself does on a
///   link without `route_localnet`, and with `::1` on every link. Answers to the pod's own 127.0.0.1 are
///   addressed to the gateway here: they are translated back later.
/// - **forward**, after the translation of the destination and before that of the source: packets from the
///   guest's bridge must have the guest's address as their source, and so must packets that leave by the
///   pod's card. Packets from the card or to the bridge must be for the guest. On some nodes, frames that a
///   bridge of another network carries come here under the name of that bridge: they match no rule.
fn barrier(card: &str, bridge: &str, guest: IpAddr) -> Table {
    let drop = |matches: Vec<Match>| Rule { matches, verdict: Verdict::Drop };
    let from = |link: &str, property| drop(vec![Match::From(link.to_owned()), property]);
    let to = |link: &str, property| drop(vec![Match::To(link.to_owned()), property]);
    let beyond = |property| drop(vec![Match::NotFrom(bridge.to_owned()), property]);
    let mut early = vec![beyond(Match::Source(guest)), beyond(Match::Destination(guest))];
    if guest.is_ipv4() {
        early.extend([Match::FromLoopback, Match::ToLoopback].map(|end| from(bridge, end)));
    }
    let forward = vec![
        from(bridge, Match::NotSource(guest)),
        from(card, Match::NotDestination(guest)),
        to(bridge, Match::NotDestination(guest)),
        to(card, Match::NotSource(guest)),
    ];
    let chains = vec![
        Chain { name: "prerouting", hook: Some(Hook::Raw), rules: early },
        Chain { name: "forward", hook: Some(Hook::Forward), rules: forward },
    ];
    Table { name: OWN, v6: guest.is_ipv6(), chains }
}

fn table(given: &PlanInput<'_>, ends: &Hosts, bridge: &str) -> Table {
    let v6 = ends.guest.is_ipv6();
    let own: IpAddr = if v6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
    let rule = |matches: Vec<Match>, verdict: Verdict| Rule { matches, verdict };
    let named = &given.interface.ports;
    let ports: Vec<Option<Match>> = match named.as_slice() {
        [] => vec![None],
        ports => ports
            .iter()
            .map(|port| Some(Match::Ports(number(port.protocol), port.number, port.last)))
            .collect(),
    };
    // The same rule for everything, or for each port; of packets with one of these properties, where there are any.
    let each = |firsts: &[Match], verdict: &Verdict| -> Vec<Rule> {
        let of_port = |port: &Option<Match>| -> Vec<Rule> {
            let rest = || port.iter().cloned();
            match firsts {
                [] => vec![rule(rest().collect(), verdict.clone())],
                firsts => {
                    let one = |first: &Match| {
                        rule([first.clone()].into_iter().chain(rest()).collect(), verdict.clone())
                    };
                    firsts.iter().map(one).collect()
                }
            }
        };
        ports.iter().flat_map(of_port).collect()
    };
    // The sidecar of a mesh comes from an address of its own, and dials that of the pod.
    let mesh = given.machine.mesh && !v6;
    let pod = given.card.v4().map(|(ip, _)| IpAddr::from(ip));
    let sources: Vec<Match> =
        [own].into_iter().chain(mesh.then_some(MESH.into())).map(Match::Source).collect();
    let to: Vec<Match> = [own].into_iter().chain(pod.filter(|_| mesh)).map(Match::Destination).collect();
    let to_guest = Verdict::Dnat(ends.guest);
    let chain = |name, hook, rules| Chain { name, hook, rules };
    let from_card = Match::From(given.card.name.clone());
    let to_bridge = Match::To(bridge.to_owned());
    let let_in = if given.machine.mesh { past_the_mesh(given, &to_guest) } else { each(&[], &to_guest) };
    let not_ours = || if given.machine.mesh && named.is_empty() { of_the_mesh(own) } else { Vec::new() };
    let out = |rules: Vec<Rule>| not_ours().into_iter().chain(rules).collect::<Vec<_>>();
    Table {
        name: NAT,
        v6,
        chains: vec![
            chain("prerouting", Some(Hook::Prerouting), vec![rule(vec![from_card], Verdict::Jump(IN))]),
            chain("input", Some(Hook::Input), vec![]),
            chain("output", Some(Hook::Output), out(each(&to, &to_guest))),
            chain(
                "postrouting",
                Some(Hook::Postrouting),
                vec![
                    rule(vec![Match::Source(ends.guest)], Verdict::Masquerade),
                    rule(vec![to_bridge], Verdict::Jump(OUT)),
                ],
            ),
            chain(IN, None, let_in),
            chain(OUT, None, out(each(&sources, &Verdict::Snat(ends.gateway)))),
        ],
    }
}

/// Rules for ports that bypass the mesh. Other packets from outside go through the sidecar, which redirects
/// them before our rules.
fn past_the_mesh(given: &PlanInput<'_>, to_guest: &Verdict) -> Vec<Rule> {
    let named = &given.interface.ports;
    let is_named = |port: u16| {
        let has =
            |known: &Port| known.protocol == Protocol::Tcp && (known.number..=known.last).contains(&port);
        named.is_empty() || named.iter().any(has)
    };
    let past = PAST_MESH.into_iter().filter(|port| is_named(*port));
    past.map(|port| Rule { matches: vec![tcp(port)], verdict: to_guest.clone() }).collect()
}

/// Rules that keep the sidecar's own ports from the guest.
fn of_the_mesh(own: IpAddr) -> Vec<Rule> {
    let each = OF_MESH.into_iter();
    each.map(|port| Rule { matches: vec![Match::Source(own), tcp(port)], verdict: Verdict::Return }).collect()
}

fn tcp(port: u16) -> Match {
    Match::Ports(number(Protocol::Tcp), port, port)
}

fn number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
    }
}
