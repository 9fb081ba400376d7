//! Masquerade: the guest has a network of its own behind the pod's address.

use super::{DHCP, Given, NetworkPlan, Step};
use crate::error::Result;
use crate::network::facts::{Address, Mac};
use crate::network::names;
use crate::network::rules::{Chain, Hook, Match, Rule, Table, Verdict};
use api::launcher::Link;
use api::lease::{Lease, Lease6};
use api::machine::Interface;
use api::machine::network::{Network, OF_MESH, Port, Protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The guest's network unless the manifest names one.
const NETWORK: &str = "10.0.2.0/24";
const NETWORK6: &str = "fd10:0:2::/120";
/// The address of the bridge: no guest may have it.
const BRIDGE: Mac = Mac([2, 0, 0, 0, 0, 0]);
/// The address from which the sidecar of a mesh dials the pod's programs.
const MESH: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 6);
/// The port that a mesh leaves alone here.
const PAST_MESH: [u16; 1] = [22];
/// The table that translates addresses, and chains that others look for in it.
const NAT: &str = "nat";
const IN: &str = "KUBEVIRT_PREINBOUND";
const OUT: &str = "KUBEVIRT_POSTINBOUND";
/// A table of our own: in those that iptables knows, nobody expects such a chain.
const OWN: &str = "coracle";

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
            // Before the next steps, which open the pod to what is to be forwarded, and 127.0.0.1 to what the guest sends.
            Step::Rules(barrier(&card.name, &bridge, inside.guest)),
            Step::Set("ipv4/ip_forward".into(), 1),
            // What asks the pod's own 127.0.0.1 reaches the guest.
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

/// The router of the guest's network of IPv6, behind a masquerade.
pub(in crate::network) fn router6(interface: &Interface) -> Option<Address> {
    let Network::Pod { cidr6, .. } = &interface.network else { return None };
    Ends::of(cidr6.as_deref().unwrap_or(NETWORK6)).map(|ends| ends.gateway())
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

/// Keeps the pod from being a router for others than its guest.
///
/// - **prerouting**, before an address is translated: the guest's address is nobody's beyond its bridge. A neighbour on a network
///   of the pod that takes the pod for a router would get past `ports` with it. And what the kernel drops itself on a link
///   without `route_localnet`, as it does with `::1` on every link; what answers the pod's own 127.0.0.1 is for the gateway
///   here: it is translated back later.
/// - **forward**, once the receiver was translated and before the sender is: what comes from the guest's bridge has its address,
///   and so has what goes out on the pod's card; what comes from the card or goes to the bridge is for it. Frames that a
///   bridge of another network carries come here on some nodes, by the name of that bridge: they match nothing.
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

fn table(given: &Given<'_>, ends: &Ends, bridge: &str) -> Table {
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

/// What comes from outside goes through the sidecar, which redirects it before us; but for the ports that it leaves alone.
fn past_the_mesh(given: &Given<'_>, to_guest: &Verdict) -> Vec<Rule> {
    let named = &given.interface.ports;
    let is_named = |port: u16| {
        let has =
            |known: &Port| known.protocol == Protocol::Tcp && (known.number..=known.last).contains(&port);
        named.is_empty() || named.iter().any(has)
    };
    let past = PAST_MESH.into_iter().filter(|port| is_named(*port));
    past.map(|port| Rule { matches: vec![tcp(port)], verdict: to_guest.clone() }).collect()
}

/// The sidecar's own ports are not the guest's.
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
