//! `mediatedDevicesConfiguration`, read strictly: the mediated devices that virt-handler creates on the cards
//! of its node.
//!
//! `mediatedDevicesTypes` is the old name of `mediatedDeviceTypes`, and is read if that is empty. Types of
//! the entries that select a node replace the types for all nodes. A node that several entries select has the
//! types of all of them.

use super::permitted::{IneffectiveEntry, TYPE};
use serde_json::Value;
use std::collections::BTreeMap;

/// Most types of one list, and most entries for selected nodes.
const ENTRIES: usize = 128;
const AT: &str = "configuration.mediatedDevicesConfiguration";

/// Types of mediated devices to create, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediatedTypes {
    everywhere: Vec<String>,
    selected: Vec<(BTreeMap<String, String>, Vec<String>)>,
}

impl MediatedTypes {
    /// Reads the mediated device types of a KubeVirt object; `None` if it leaves mediated devices alone
    /// (`enabled: false`).
    pub fn of_cluster(object: &Value) -> Option<MediatedTypes> {
        (configuration(object)["enabled"] != false).then(|| read(object).0)
    }

    /// Entries without effect in the mediated devices of a KubeVirt object, each with its reason.
    pub fn ineffective_entries(object: &Value) -> Vec<IneffectiveEntry> {
        read(object).1
    }

    /// Types of a node with these labels, each once, in the order of the object.
    pub fn of_node(&self, labels: &Value) -> Vec<&str> {
        let is_selected = |selector: &BTreeMap<String, String>| {
            selector.iter().all(|(key, value)| labels[key.as_str()] == value.as_str())
        };
        let own = self.selected.iter().filter(|(selector, _)| is_selected(selector));
        let own: Vec<&str> = own.flat_map(|(_, types)| types).map(String::as_str).collect();
        let all = if own.is_empty() { self.everywhere.iter().map(String::as_str).collect() } else { own };
        let mut once: Vec<&str> = Vec::new();
        for one in all {
            if !once.contains(&one) {
                once.push(one);
            }
        }
        once
    }

    /// True if no node gets a mediated device.
    pub fn is_empty(&self) -> bool {
        self.everywhere.is_empty() && self.selected.iter().all(|(_, types)| types.is_empty())
    }
}

fn configuration(object: &Value) -> &Value {
    &object["spec"]["configuration"]["mediatedDevicesConfiguration"]
}

fn read(object: &Value) -> (MediatedTypes, Vec<IneffectiveEntry>) {
    let mut odd = Vec::new();
    let everywhere = types(configuration(object), AT, &mut odd);
    let mut selected = Vec::new();
    let list = configuration(object)["nodeMediatedDeviceTypes"].as_array();
    for (n, entry) in list.into_iter().flatten().enumerate() {
        let at = format!("{AT}.nodeMediatedDeviceTypes[{n}]");
        if n == ENTRIES {
            odd.push(IneffectiveEntry {
                field: at,
                why: format!("only the first {ENTRIES} entries are read"),
            });
            break;
        }
        let label = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        let selector = entry["nodeSelector"].as_object();
        match selector.and_then(|map| map.iter().map(label).collect::<Option<BTreeMap<_, _>>>()) {
            Some(selector) => selected.push((selector, types(entry, &at, &mut odd))),
            None => {
                let why = "nodeSelector must be labels of nodes";
                odd.push(IneffectiveEntry { field: at, why: why.to_owned() });
            }
        }
    }
    (MediatedTypes { everywhere, selected }, odd)
}

/// Types of a list that are valid names: of a type's folder, or the driver's name with `_` for each blank.
fn types(said: &Value, at: &str, odd: &mut Vec<IneffectiveEntry>) -> Vec<String> {
    let list = |name: &'static str| Some((name, said[name].as_array().filter(|list| !list.is_empty())?));
    let Some((name, list)) = list("mediatedDeviceTypes").or_else(|| list("mediatedDevicesTypes")) else {
        return Vec::new();
    };
    let mut types = Vec::new();
    for (n, entry) in list.iter().enumerate() {
        let text = entry.as_str().unwrap_or_default();
        let is_name = (1..=TYPE).contains(&text.len()) && !text.chars().any(char::is_control);
        let why = match is_name {
            _ if n >= ENTRIES => format!("only the first {ENTRIES} types are read"),
            true => {
                types.push(text.replace(' ', "_"));
                continue;
            }
            false => {
                "must be the name of a mediated device type, for example nvidia-222 or GRID T4-1Q".to_owned()
            }
        };
        odd.push(IneffectiveEntry { field: format!("{at}.{name}[{n}]"), why });
        if n >= ENTRIES {
            break;
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(said: &Value) -> Value {
        json!({"spec": {"configuration": {"mediatedDevicesConfiguration": said}}})
    }

    #[test]
    fn a_node_has_the_types_it_is_selected_for_or_those_of_all() {
        let said = object(&json!({
            "mediatedDeviceTypes": ["nvidia-222", "GRID T4-1Q", "nvidia-222"],
            "nodeMediatedDeviceTypes": [
                {"nodeSelector": {"gpu": "t4"}, "mediatedDeviceTypes": ["nvidia-230"]},
                {"nodeSelector": {"gpu": "t4", "zone": "a"}, "mediatedDevicesTypes": ["nvidia-231", "nvidia-230"]},
                {"nodeSelector": {"gpu": "none"}},
            ],
        }));
        let types = MediatedTypes::of_cluster(&said).unwrap();
        assert_eq!(MediatedTypes::ineffective_entries(&said), []);
        assert_eq!(types.of_node(&json!({})), ["nvidia-222", "GRID_T4-1Q"]);
        assert_eq!(types.of_node(&json!({"gpu": "t4"})), ["nvidia-230"]);
        assert_eq!(types.of_node(&json!({"gpu": "t4", "zone": "a"})), ["nvidia-230", "nvidia-231"]);
        assert_eq!(types.of_node(&json!({"gpu": "none"})), ["nvidia-222", "GRID_T4-1Q"]);
        assert!(!types.is_empty());
        let old = object(&json!({"mediatedDevicesTypes": ["a"], "mediatedDeviceTypes": []}));
        assert_eq!(MediatedTypes::of_cluster(&old).unwrap().of_node(&Value::Null), ["a"]);
    }

    #[test]
    fn nothing_is_touched_where_it_is_switched_off() {
        let said = |said: &Value| MediatedTypes::of_cluster(&object(said));
        assert_eq!(said(&json!({"enabled": false, "mediatedDeviceTypes": ["a"]})), None);
        assert_eq!(said(&Value::Null), Some(MediatedTypes::default()));
        assert!(said(&json!({"enabled": true, "mediatedDeviceTypes": ["a"]})).is_some());
    }

    #[test]
    fn an_entry_that_is_wrong_is_named() {
        let many: Vec<String> = (0..=ENTRIES).map(|n| format!("t{n}")).collect();
        for (said, field) in [
            (json!({"mediatedDeviceTypes": ["a", ""]}), "mediatedDeviceTypes[1]"),
            (json!({"mediatedDevicesTypes": ["a\nb"]}), "mediatedDevicesTypes[0]"),
            (json!({"mediatedDeviceTypes": many}), "mediatedDeviceTypes[128]"),
            (
                json!({"nodeMediatedDeviceTypes": [{"mediatedDeviceTypes": ["a"]}]}),
                "nodeMediatedDeviceTypes[0]",
            ),
            (json!({"nodeMediatedDeviceTypes": [{"nodeSelector": {"a": 7}}]}), "nodeMediatedDeviceTypes[0]"),
            (
                json!({"nodeMediatedDeviceTypes": [{"nodeSelector": {"a": "b"}, "mediatedDeviceTypes": [7]}]}),
                "nodeMediatedDeviceTypes[0].mediatedDeviceTypes[0]",
            ),
        ] {
            let odd = MediatedTypes::ineffective_entries(&object(&said));
            let fields: Vec<&str> = odd.iter().map(|odd| odd.field.as_str()).collect();
            assert_eq!(fields, [format!("{AT}.{field}")], "{said}");
        }
    }
}
