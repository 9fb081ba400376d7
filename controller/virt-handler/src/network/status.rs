//! Status of a VMI's interfaces: those of the spec, with their addresses. The caller merges the guest agent's
//! report.

use super::names;
use api::launcher::Link;
use api::machine::{Binding, Machine, Nic};
use api::vmi::InterfaceStatus;
use cluster_model::networks;
use std::collections::BTreeMap;

/// Network information for hook sidecars; `None` if no sidecar of the VMI wants it. `said`: annotation of
/// Multus.
pub(crate) fn info(machine: &Machine, said: Option<&str>) -> Option<String> {
    let wanted = machine.hooks.iter().any(|hook| hook.device_info);
    let cards = machine.interfaces.iter().map(|interface| (interface.name.as_str(), names::card(interface)));
    wanted.then(|| networks::info(said, cards))
}

/// Interfaces of a VMI, in the order of its spec. The interface on the pod's primary network shows the pod's addresses.
/// With bridge binding, only the IPv4 addresses are shown.
pub(crate) fn status(
    machine: &Machine,
    links: &BTreeMap<String, Link>,
    pod_ips: &[String],
) -> Vec<InterfaceStatus> {
    let each = machine.interfaces.iter().map(|interface| {
        let card = names::card(interface);
        let mac = match links.get(&interface.name) {
            Some(Link::Tap { mac, .. } | Link::Passt { mac, .. } | Link::User { mac, .. }) => {
                Some(mac.clone())
            }
            Some(Link::Device { mac, .. } | Link::Sidecar { mac }) => mac.clone(),
            None => None,
        };
        let of_pod = if card == names::PRIMARY { pod_ips } else { &[] };
        let ips: Vec<String> = match interface.binding {
            // The plugin's use of the addresses is unknown, but clients find the guest by them.
            Binding::Masquerade
            | Binding::ManagedTap
            | Binding::Tap
            | Binding::Sidecar
            | Binding::Sriov
            | Binding::Passt => of_pod.to_vec(),
            // Addresses of the other IP version stay with the pod.
            Binding::Bridge => of_pod.iter().filter(|ip| !ip.contains(':')).cloned().collect(),
        };
        let many = machine.network_multi_queue
            && interface.model == Nic::Virtio
            && interface.binding != Binding::Passt;
        InterfaceStatus {
            ip_address: ips.first().cloned(),
            ip_addresses: ips,
            mac,
            name: Some(interface.name.clone()),
            pod_interface_name: Some(card),
            info_source: Some("domain".into()),
            queue_count: Some(if many { i64::from(machine.cpu.count().clamp(1, 256)) } else { 1 }),
            link_state: Some(if interface.up { "up" } else { "down" }.into()),
            ..InterfaceStatus::default()
        }
    });
    each.collect()
}
