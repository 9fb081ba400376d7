//! What is told about a VMI's interfaces: those of the spec with their addresses. What the guest agent adds is merged by
//! whoever writes the status.

use super::names;
use api::launcher::Link;
use api::machine::{Binding, Machine, Nic};
use api::vmi::InterfaceStatus;
use std::collections::BTreeMap;

/// The interfaces of a VMI, in the order of its spec. Both bindings show the pod's addresses: behind a masquerade
/// the guest is reached there, on a bridge it has them.
pub(crate) fn status(
    machine: &Machine,
    links: &BTreeMap<String, Link>,
    pod_ips: &[String],
) -> Vec<InterfaceStatus> {
    let each = machine.interfaces.iter().map(|interface| {
        let card = names::card(interface);
        let mac = match links.get(&interface.name) {
            Some(Link::Tap { mac, .. } | Link::User { mac, .. }) => Some(mac.clone()),
            None => None,
        };
        let of_pod = if card == names::PRIMARY { pod_ips } else { &[] };
        let ips: Vec<String> = match interface.binding {
            // What a plugin does with them is not known; who looks for the guest finds it there.
            Binding::Masquerade | Binding::ManagedTap | Binding::Tap => of_pod.to_vec(),
            // The other family stays with the pod.
            Binding::Bridge => of_pod.iter().filter(|ip| !ip.contains(':')).cloned().collect(),
        };
        let many = machine.network_multi_queue && interface.model == Nic::Virtio;
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
