//! Networks that a launcher pod requests from Multus: the interfaces beside `eth0`, in the order of the
//! VMI's, and the network in place of the cluster's default.
//!
//! Each NetworkAttachmentDefinition is named with its namespace. Multus would look for a bare name in the
//! namespace of the pod for [`WANTED`], and in its own namespace for [`DEFAULT`]. There, a tenant would get a
//! network that is reserved for administrators.

use api::machine::network::Network;
use api::machine::{Binding, Machine};
use cluster_model::networks::{DEFAULT, WANTED, card, definition};
use cluster_model::objects::{Key, Kind};
use cluster_model::plan::NetworkAttachment;
use serde_json::{Map, Value, json};

/// The annotations of the pod.
pub(super) fn annotations(machine: &Machine) -> Vec<(String, String)> {
    let mut notes = Vec::new();
    let mut wanted = Vec::new();
    for interface in &machine.interfaces {
        if let Network::Multus { name, default } = &interface.network {
            let (namespace, name) = definition(name, &machine.namespace);
            if *default {
                notes.push((DEFAULT.to_owned(), format!("{namespace}/{name}")));
            } else {
                let mut one = Map::new();
                one.insert("name".to_owned(), json!(name));
                one.insert("namespace".to_owned(), json!(namespace));
                one.insert("interface".to_owned(), json!(card(&interface.name)));
                if let Some(mac) = &interface.mac {
                    one.insert("mac".to_owned(), json!(mac));
                }
                wanted.push(Value::Object(one));
            }
        }
        // A binding plugin prepares the card, so it comes behind it, and is told which it is.
        if let Some(name) = interface.plugin.as_ref().and_then(|plugin| plugin.definition.as_deref()) {
            let (namespace, name) = definition(name, &machine.namespace);
            let network = json!({"logicNetworkName": interface.name});
            wanted.push(json!({"name": name, "namespace": namespace, "cni-args": network}));
        }
    }
    if !wanted.is_empty() {
        notes.push((WANTED.to_owned(), Value::Array(wanted).to_string()));
    }
    notes
}

/// The networks whose definitions may name a resource, of which the launcher gets a device.
pub(crate) fn on_networks(machine: &Machine) -> Vec<NetworkAttachment> {
    let each = machine.interfaces.iter().filter_map(|interface| match &interface.network {
        Network::Multus { name, .. } => {
            let (namespace, definition) = definition(name, &machine.namespace);
            Some(NetworkAttachment {
                name: interface.name.clone(),
                definition: Key::new(Kind::NetworkAttachmentDefinition, namespace, definition),
                needs_device: interface.binding == Binding::Sriov,
            })
        }
        Network::Pod { .. } => None,
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::machine::Settings;
    use api::vmi::VirtualMachineInstance;

    #[test]
    fn a_binding_plugin_prepares_the_card_behind_it() {
        let vmi: VirtualMachineInstance = api::wire::read(json!({
            "metadata": {"name": "a", "namespace": "n"},
            "spec": {
                "domain": {
                    "memory": {"guest": "128Mi"},
                    "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                    "devices": {"interfaces": [
                        {"name": "default", "binding": {"name": "managed"}},
                        {"name": "blue", "binding": {"name": "macvtap"}},
                    ]}
                },
                "networks": [{"name": "default", "pod": {}}, {"name": "blue", "multus": {"networkName": "lan"}}]
            }
        }))
        .unwrap();
        let plugins = json!({
            "managed": {"domainAttachmentType": "managedTap", "networkAttachmentDefinition": "dhcp"},
            "macvtap": {"domainAttachmentType": "tap", "networkAttachmentDefinition": "shared/tap"},
        });
        let settings =
            Settings::of_cluster(&json!({"spec": {"configuration": {"network": {"binding": plugins}}}}));
        let machine = Machine::check(&vmi, &settings).unwrap();
        let notes = annotations(&machine);
        let [(key, text)] = notes.as_slice() else { panic!("{notes:?}") };
        assert_eq!(key, WANTED);
        let wanted = json!([
            {"name": "dhcp", "namespace": "n", "cni-args": {"logicNetworkName": "default"}},
            {"name": "lan", "namespace": "n", "interface": "pod16477688c0e"},
            {"name": "tap", "namespace": "shared", "cni-args": {"logicNetworkName": "blue"}},
        ]);
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), wanted);
    }
}
