//! The ports of the compute container: those that the interfaces of the VMI name. Kubernetes forwards them whether they are
//! named or not; a Service finds a port by its name here (`targetPort: web`), and so do meshes and monitors. A range has no
//! name, and a container no ranges.

use api::machine::{Machine, Protocol};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The ports, each once.
pub(super) fn ports(machine: &Machine) -> Vec<Value> {
    let mut names = BTreeSet::new();
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    let all = machine.interfaces.iter().flat_map(|interface| &interface.ports);
    for port in all.filter(|port| port.number == port.last) {
        let protocol = match port.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
        };
        let name = port.name.as_deref().filter(|name| names.insert(*name));
        // A port without a name of its own that is there already says nothing new.
        if !known.insert((port.number, protocol)) && name.is_none() {
            continue;
        }
        let mut fields = Map::new();
        super::insert_unless_empty(&mut fields, "name", json!(name));
        super::insert_unless_empty(&mut fields, "containerPort", json!(port.number));
        super::insert_unless_empty(&mut fields, "protocol", json!(protocol));
        found.push(Value::Object(fields));
    }
    found
}
