//! Networks: each has one type, and an interface.

use super::super::network::{MOST_NETWORKS, NO_IPV6, Network};
use super::{Check, Site, text};
use crate::vmi;
use crate::wire::Path;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Networks by name. One with a fault has `None`, so that its interface has no fault of its own.
pub(super) type Networks<'a> = BTreeMap<&'a str, Option<Network>>;

pub(super) fn networks<'a>(
    networks: &'a [vmi::Network],
    interfaces: &[vmi::Interface],
    at: &Path,
    check: &mut Check<'_>,
) -> Networks<'a> {
    let list = at.child("networks");
    if networks.len() > MOST_NETWORKS {
        check.invalid(&list, format!("{list} must have no more than {MOST_NETWORKS} entries"));
    }
    let used: BTreeSet<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
    let mut result = Networks::new();
    let (mut pods, mut defaults) = (0, 0);
    for (i, network) in networks.iter().take(MOST_NETWORKS).enumerate() {
        let at = list.index(i);
        let name = network.name.as_str();
        let found = network_of(network, &at, check);
        pods += usize::from(network.pod.is_some());
        defaults += usize::from(matches!(&found, Some(Network::Multus { default: true, .. })));
        if result.contains_key(name) {
            let message =
                format!("Network with name {name:?} already exists, every network must have a unique name");
            check.duplicate(at.child("name"), message);
            continue;
        }
        if !used.contains(name) {
            let at = at.child("name");
            check.required(&at, format!("{at} '{name}' not found."));
        }
        result.insert(name, found);
    }
    if pods > 1 {
        // Upstream's message leaves out the path of the interfaces.
        let interfaces = at.child("interfaces");
        let message = format!("more than one interface is connected to a pod network in {interfaces}");
        check.duplicate(interfaces, message);
    }
    if defaults > 1 {
        check.invalid(&list, "Multus CNI should only have one default network");
    }
    if pods > 0 && defaults > 0 {
        check.invalid(&list, "Pod network cannot be defined when Multus default network is defined");
    }
    result
}

fn network_of(network: &vmi::Network, at: &Path, check: &mut Check<'_>) -> Option<Network> {
    let vmi::Network { name: _, pod, multus, resource_claim, other: _ } = network;
    check.not_yet_some(resource_claim, at.child("resourceClaim"));
    match [pod.is_some(), multus.is_some(), resource_claim.is_some()].iter().filter(|&&there| there).count() {
        0 => {
            check.required(at, "should have a network type");
            return None;
        }
        1 => {}
        _ => {
            check.required(at, "should have only one network type");
            return None;
        }
    }
    if let Some(vmi::PodNetwork { vm_network_cidr, vm_ipv6_network_cidr, other: _ }) = pod {
        let at = at.child("pod");
        if text::non_empty(vm_ipv6_network_cidr).is_some() {
            check.not_yet_at(&[Site::Laptop], at.child("vmIPv6NetworkCIDR"), NO_IPV6);
        }
        return Some(Network::Pod {
            cidr: cidr::<Ipv4Addr>(vm_network_cidr, 30, &at.child("vmNetworkCIDR"), check),
            cidr6: cidr::<Ipv6Addr>(vm_ipv6_network_cidr, 126, &at.child("vmIPv6NetworkCIDR"), check),
        });
    }
    let vmi::MultusNetwork { network_name, default, other: _ } = multus.as_ref()?;
    let hint = "networks of Multus are made in a cluster; here, write pod: {} for a network of QEMU's, or remove the network \
                and its interface";
    check.not_yet_at(&[Site::Laptop], at.child("multus"), hint);
    if network_name.is_empty() {
        check.required(at, "CNI delegating plugin must have a networkName");
    } else if network_name.split('/').any(|part| text::not_a_subdomain(part).is_some())
        || network_name.matches('/').count() > 1
    {
        let at = at.child("multus").child("networkName");
        check.invalid(
            &at,
            format!("{at} '{network_name}' must be a name, or a namespace and a name with a / between"),
        );
    }
    Some(Network::Multus { name: network_name.clone(), default: default.unwrap_or(false) })
}

/// Checks an address range that must have room for a gateway and a guest.
fn cidr<A: FromStr + Display>(
    written: &Option<String>,
    most: u8,
    at: &Path,
    check: &mut Check<'_>,
) -> Option<String> {
    let written = text::non_empty(written)?;
    let right = written.split_once('/').and_then(|(address, length)| {
        let address = decimal(address)?.parse::<A>().ok()?;
        let length = decimal(length)?.parse::<u8>().ok().filter(|length| (1..=most).contains(length))?;
        Some(format!("{address}/{length}"))
    });
    if right.is_none() {
        check.invalid(
            at,
            format!("{at} '{written}' is not a network with room for a guest, like {}", example(most)),
        );
    }
    right
}

/// The IPv4 address or prefix length without leading zeros: KubeVirt reads them as decimal, other programs as
/// octal, or not at all. An IPv6 address stays as it is.
fn decimal(text: &str) -> Option<String> {
    if text.contains(':') {
        return Some(text.to_owned());
    }
    let number = |part: &str| {
        let is_number = !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
        let part = part.trim_start_matches('0');
        is_number.then(|| if part.is_empty() { "0".to_owned() } else { part.to_owned() })
    };
    Some(text.split('.').map(number).collect::<Option<Vec<_>>>()?.join("."))
}

fn example(most: u8) -> &'static str {
    if most > 32 { "fd10:0:2::/120" } else { "10.0.2.0/24" }
}

#[cfg(test)]
mod tests {
    use super::Network;
    use crate::machine::{Machine, Settings};
    use serde_json::{Value, json};

    fn vmi(interfaces: &Value, networks: &Value) -> Value {
        json!({
            "metadata": {"name": "a", "namespace": "n"},
            "spec": {
                "domain": {
                    "memory": {"guest": "64Mi"},
                    "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                    "devices": {"interfaces": interfaces},
                },
                "networks": networks,
            },
        })
    }

    /// KubeVirt's own suite has VMIs with such a network.
    #[test]
    fn zeros_before_a_number_of_a_network_are_taken_off() {
        let cidr = |field: &str, written: &str| {
            let interfaces = json!([{"name": "default", "masquerade": {}}]);
            let vmi = vmi(&interfaces, &json!([{"name": "default", "pod": {field: written}}]));
            let machine =
                Machine::check(&crate::wire::read(vmi).unwrap(), &Settings::of_cluster(&json!({}))).ok()?;
            match machine.interfaces.into_iter().next()?.network {
                Network::Pod { cidr, cidr6 } => cidr.or(cidr6),
                Network::Multus { .. } => None,
            }
        };
        let of = |written: &str| cidr("vmNetworkCIDR", written);
        for (written, read) in [
            ("10.10.010.0/24", "10.10.10.0/24"),
            ("010.00.002.000/024", "10.0.2.0/24"),
            ("10.0.2.0/30", "10.0.2.0/30"),
        ] {
            assert_eq!(of(written).as_deref(), Some(read));
        }
        for wrong in [
            "10.10.0256.0/24",
            "10.10.10/24",
            "10..10.0/24",
            "10.0.2.0/",
            "10.0.2.0/0",
            "10.0.2.0/31",
            "+1.0.2.0/24",
            "0x1.0.2.0/24",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(cidr("vmIPv6NetworkCIDR", "fd10:0:2::/0120").as_deref(), Some("fd10:0:2::/120"));
    }

    #[test]
    fn more_networks_than_there_may_be_are_one_fault_of_each_list() {
        let judged = |count: usize| {
            let each =
                |of: fn(String) -> Value| Value::Array((0..count).map(|n| of(format!("n{n}"))).collect());
            let vmi = vmi(
                &each(|name| json!({"name": name, "bridge": {}})),
                &each(|name| json!({"name": name, "multus": {"networkName": "lan"}})),
            );
            let settings = Settings::of_cluster(&json!({}));
            let faults =
                Machine::check(&crate::wire::read(vmi).unwrap(), &settings).err().unwrap_or_default();
            faults.iter().map(|fault| fault.field.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(judged(32), [""; 0]);
        assert_eq!(judged(3000), ["spec.networks", "spec.domain.devices.interfaces"]);
    }
}
