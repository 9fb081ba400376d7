//! Plan for a bridge: the guest takes the pod's place on the wire, with its IP address and MAC address. A
//! network binding plugin may want the same of us (`managedTap`), and gives the guest its address itself.

use super::{DHCP, NetworkPlan, PlanInput, Step};
use crate::error::Result;
use crate::network::facts::{Address, Card};
use crate::network::names;
use api::launcher::Link;
use api::lease::{Lease, Route};
use api::machine::Binding;
use std::net::{IpAddr, Ipv4Addr};

pub(super) fn plan(given: &PlanInput<'_>) -> Result<NetworkPlan> {
    let card = given.card;
    let (bridge, tap, aside) =
        (names::bridge(&card.name), names::tap(&card.name), names::renamed_card(&card.name));
    let mac = given.wanted_mac()?.unwrap_or(card.mac);
    let server = server(given)?;
    let mut steps = vec![
        Step::PutAside { card: card.clone(), mac: given.own_mac("aside") },
        Step::Bridge { name: bridge.clone(), mac: given.own_mac("bridge"), mtu: card.mtu },
        // The pod must not answer ARP requests for the guest's address, which the dummy has.
        Step::Set("ipv4/conf/all/arp_ignore".into(), 1),
    ];
    // A plugin gives the guest its address itself.
    let served = card.v4().filter(|_| given.interface.binding == Binding::Bridge);
    let dhcp = served.map(|(address, prefix)| {
        steps.push(Step::Address(bridge.clone(), Address { ip: server.into(), prefix: 32 }));
        steps.push(Step::Lower("ipv4/ip_unprivileged_port_start".into(), u32::from(DHCP)));
        let (router, routes) = ways(card);
        Box::new(Lease { device: bridge.clone(), server, address, prefix, router, routes })
    });
    steps.extend([
        Step::Join(aside.clone(), bridge.clone()),
        // The guest's own MAC address was the card's: packets from the wire must not teach the bridge that it
        // is there.
        Step::LearnNothing(aside.clone()),
        given.tap(),
        Step::Join(tap.clone(), bridge.clone()),
        Step::Up(bridge),
        Step::Up(aside),
        Step::Up(tap.clone()),
    ]);
    let link = Link::Tap { name: tap, mac: mac.to_string(), mtu: Some(card.mtu), dhcp, dhcp6: None };
    Ok(NetworkPlan { steps, link })
}

/// Address of the DHCP server for the guest: not visible on any wire, and different for each interface.
fn server(given: &PlanInput<'_>) -> Result<Ipv4Addr> {
    let last = u8::try_from(given.position).ok().and_then(|position| position.checked_add(10));
    let last = last.ok_or_else(|| given.wrong("a VMI has at most 246 interfaces on bridges"))?;
    Ok(Ipv4Addr::new(169, 254, 75, last))
}

/// Default gateway, and other routes.
fn ways(card: &Card) -> (Option<Ipv4Addr>, Vec<Route>) {
    let mut router = None;
    let mut routes = Vec::new();
    for route in &card.routes {
        let IpAddr::V4(to) = route.to.ip else { continue };
        match (route.to.prefix, route.via) {
            (0, Some(IpAddr::V4(via))) if router.is_none() => router = Some(via),
            (_, Some(IpAddr::V6(_))) => {}
            (prefix, via) => {
                let via = match via {
                    Some(IpAddr::V4(via)) => Some(via),
                    _ => None,
                };
                routes.push(Route { to, prefix, via });
            }
        }
    }
    (router, routes)
}
