//! List of VMs and VMIs, joined by name, in the state that the page has; a change is one row. Pure.

use super::row::{Row, VmPart, VmiPart, text};
use cluster_model::objects::Kind;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Namespace and name of a row.
type Key = (String, String);

/// All rows of the list, by key.
#[derive(Debug, Default)]
pub(super) struct List(BTreeMap<Key, (Option<VmPart>, Option<VmiPart>)>);

/// Effect of an object's change on the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// The row is new or has changed.
    Is(Row),
    /// The row was removed.
    Gone(Key),
}

impl List {
    /// Notes a new or changed object. `None` if its row is unchanged.
    pub(super) fn put(&mut self, kind: Kind, object: &Value) -> Option<Change> {
        self.change(kind, object, true)
    }

    /// Notes a deleted object.
    pub(super) fn remove(&mut self, kind: Kind, object: &Value) -> Option<Change> {
        self.change(kind, object, false)
    }

    /// All rows, ordered by namespace and name.
    pub(super) fn rows(&self) -> Vec<Row> {
        self.0.keys().filter_map(|key| self.row(key)).collect()
    }

    fn row(&self, key: &Key) -> Option<Row> {
        let (vm, vmi) = self.0.get(key)?;
        Some(Row::new(&key.0, &key.1, vm.as_ref(), vmi.as_ref()))
    }

    fn change(&mut self, kind: Kind, object: &Value, is_there: bool) -> Option<Change> {
        let key = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        if key.1.is_empty() {
            return None;
        }
        let before = self.row(&key);
        let entry = self.0.entry(key.clone()).or_default();
        match kind {
            Kind::VirtualMachine => entry.0 = is_there.then(|| VmPart::from_object(object)),
            _ => entry.1 = is_there.then(|| VmiPart::from_object(object)),
        }
        if *entry == (None, None) {
            self.0.remove(&key);
        }
        match (self.row(&key), before) {
            (Some(now), before) => (before.as_ref() != Some(&now)).then_some(Change::Is(now)),
            (None, Some(_)) => Some(Change::Gone(key)),
            (None, None) => None,
        }
    }
}

impl Change {
    /// Namespace and name of the row.
    pub(super) fn key(&self) -> Key {
        match self {
            Change::Is(row) => (row.namespace.clone(), row.name.clone()),
            Change::Gone(key) => key.clone(),
        }
    }

    /// The change as JSON for the page.
    pub(super) fn value(&self) -> Value {
        match self {
            Change::Is(row) => json!({ "row": row }),
            Change::Gone((namespace, name)) => json!({"gone": {"namespace": namespace, "name": name}}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VM: Kind = Kind::VirtualMachine;
    const VMI: Kind = Kind::VirtualMachineInstance;

    fn object(name: &str, status: &Value) -> Value {
        json!({"metadata": {"namespace": "blue", "name": name}, "status": status})
    }

    #[test]
    fn a_vm_and_its_vmi_are_one_line() {
        let mut list = List::default();
        let vm = object("web", &json!({"printableStatus": "Running"}));
        let vmi = object("web", &json!({"phase": "Running", "nodeName": "n1"}));
        assert!(matches!(list.put(VM, &vm), Some(Change::Is(row)) if row.node.is_empty()));
        assert!(matches!(list.put(VMI, &vmi), Some(Change::Is(row)) if row.node == "n1" && row.kind == "VM"));
        assert_eq!(list.rows().len(), 1);
        assert!(matches!(list.remove(VMI, &vmi), Some(Change::Is(row)) if row.node.is_empty()));
        let gone = list.remove(VM, &vm).unwrap();
        assert_eq!(gone.value(), json!({"gone": {"namespace": "blue", "name": "web"}}));
        assert_eq!(gone.key(), ("blue".to_owned(), "web".to_owned()));
        assert!(list.rows().is_empty() && list.remove(VM, &vm).is_none());
    }

    #[test]
    fn what_changes_no_line_is_not_told() {
        let mut list = List::default();
        let mut vm = object("web", &json!({"printableStatus": "Running"}));
        assert!(list.put(VM, &vm).is_some());
        vm["metadata"]["resourceVersion"] = json!("7");
        vm["status"]["observedGeneration"] = json!(4);
        assert_eq!(list.put(VM, &vm), None);
        assert_eq!(list.put(VM, &json!({})), None);
        assert_eq!(list.put(VM, &json!({"metadata": {"name": 7}})), None);
    }
}
