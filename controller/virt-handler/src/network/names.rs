//! Names of links in a pod. Dashboards, manuals and scripts depend on them.
//!
//! ```text
//!  pod's card      bridge        tap          the card, put aside      while it is put aside
//!  eth0            k6t-eth0      tap0         eth0-nic                 eth0-kep
//!  pod0123456789a  k6t-012…9a    tap012…9a    012…9a-nic               012…9a-kep
//! ```

use api::machine::Interface;
use api::machine::network::Network;
use cluster_model::networks;

pub(crate) use networks::PRIMARY;

/// The pod's card of an interface.
pub(crate) fn card(interface: &Interface) -> String {
    match &interface.network {
        Network::Pod { .. } | Network::Multus { default: true, .. } => PRIMARY.to_owned(),
        Network::Multus { default: false, .. } => networks::card(&interface.name),
    }
}

/// Name of a card's bridge.
pub(crate) fn bridge(card: &str) -> String {
    format!("k6t-{}", short(card))
}

/// Name of a card's tap.
pub(crate) fn tap(card: &str) -> String {
    match card {
        PRIMARY => "tap0".to_owned(),
        other => format!("tap{}", short(other)),
    }
}

/// Name of a card that is put aside.
pub(crate) fn renamed_card(card: &str) -> String {
    format!("{}-nic", short(card))
}

/// Name of a dummy that is being prepared to stand in for a card.
pub(crate) fn stand_in(card: &str) -> String {
    format!("{}-kep", short(card))
}

fn short(card: &str) -> &str {
    card.strip_prefix("pod").unwrap_or(card)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_others_know_and_fit() {
        assert_eq!(
            (bridge("eth0"), tap("eth0"), renamed_card("eth0")),
            ("k6t-eth0".into(), "tap0".into(), "eth0-nic".into())
        );
        let card = "pod16477688c0e";
        let all = [bridge(card), tap(card), renamed_card(card), stand_in(card)];
        assert_eq!(all, ["k6t-16477688c0e", "tap16477688c0e", "16477688c0e-nic", "16477688c0e-kep"]);
        assert!(all.iter().all(|name| name.len() <= 15));
    }
}
