//! Plan for passt: a program of the launcher's user in the pod that exchanges Ethernet frames with the guest
//! and opens a socket in the pod's network for each of its connections. It needs no link and no rule, only
//! the permission to listen on the guest's ports and to send pings.

use super::{NetworkPlan, PlanInput, Step};
use crate::error::Result;
use api::launcher::Link;
use api::machine::network::Port;
use cluster_model::launcher::USER;

pub(super) fn plan(given: &PlanInput<'_>) -> Result<NetworkPlan> {
    let card = given.card;
    if card.addresses.is_empty() {
        return Err(given
            .wrong(format!("the pod has no address on {} that passt could lend to the guest", card.name)));
    }
    let mac = given.wanted_mac()?.unwrap_or_else(|| given.own_mac("guest"));
    let named = &given.interface.ports;
    let lowest = named.iter().map(|Port { number, .. }| *number).min().unwrap_or(0);
    Ok(NetworkPlan {
        steps: vec![
            Step::Lower("ipv4/ip_unprivileged_port_start".into(), u32::from(lowest)),
            Step::PingGroup(USER),
        ],
        link: Link::Passt { device: card.name.clone(), mac: mac.to_string() },
    })
}
