//! What a launcher pod asks of Multus: the cards beside `eth0`, in the order of the VMI's interfaces, and the network in place
//! of the cluster's.
//!
//! Each NetworkAttachmentDefinition is named with its namespace. A name alone would be looked for in the namespace of the pod
//! for [`WANTED`], and in the namespace of Multus for [`DEFAULT`]: there, a tenant would get what an administrator keeps.

use api::machine::Machine;
use api::machine::network::Network;
use kubernetes::networks::{DEFAULT, WANTED, card, definition};
use serde_json::{Map, Value, json};

/// The annotations of the pod.
pub(super) fn annotations(machine: &Machine) -> Vec<(String, String)> {
    let mut notes = Vec::new();
    let mut wanted = Vec::new();
    for interface in &machine.interfaces {
        let Network::Multus { name, default } = &interface.network else { continue };
        let (namespace, name) = definition(name, &machine.namespace);
        if *default {
            notes.push((DEFAULT.to_owned(), format!("{namespace}/{name}")));
            continue;
        }
        let mut one = Map::new();
        one.insert("name".to_owned(), json!(name));
        one.insert("namespace".to_owned(), json!(namespace));
        one.insert("interface".to_owned(), json!(card(&interface.name)));
        if let Some(mac) = &interface.mac {
            one.insert("mac".to_owned(), json!(mac));
        }
        wanted.push(Value::Object(one));
    }
    if !wanted.is_empty() {
        notes.push((WANTED.to_owned(), Value::Array(wanted).to_string()));
    }
    notes
}
