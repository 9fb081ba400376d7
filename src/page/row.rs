//! Row of the list of VMs: columns from a VM and its VMI, and the actions that apply to them. Pure.

use super::power::Verb;
use crate::virt::json::{self, condition, list};
use cluster_model::objects::is_whole;
use serde::Serialize;
use serde_json::Value;

/// Row of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    pub(super) namespace: String,
    pub(super) name: String,
    /// `VM`, or `VMI` for one without a VM.
    pub(super) kind: &'static str,
    /// Printable status: `Running`, `Stopped`, `Provisioning`, …
    pub(super) status: String,
    /// True if the condition Ready is.
    pub(super) ready: bool,
    pub(super) node: String,
    /// First IP address of the guest.
    pub(super) address: String,
    /// Creation time, as the API server writes it.
    pub(super) created: String,
    /// True if console and screen can be opened.
    pub(super) runs: bool,
    /// Actions that apply in this state.
    pub(super) verbs: Vec<&'static str>,
}

/// Fields of a VM that its row shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct VmPart {
    status: String,
    ready: bool,
    created: String,
    strategy: String,
    is_deleted: bool,
}

/// Fields of a VMI that its row shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct VmiPart {
    phase: String,
    ready: bool,
    paused: bool,
    created: String,
    node: String,
    address: String,
    is_deleted: bool,
}

/// The text at a JSON pointer as one printable line; empty if it is missing.
pub(super) fn text(object: &Value, pointer: &str) -> String {
    json::text(object, pointer).map_or_else(String::new, printable::line)
}

/// The same, or `Unknown` for an object of which the metadata alone are read.
fn known(object: &Value, pointer: &str) -> String {
    if is_whole(object) { text(object, pointer) } else { "Unknown".to_owned() }
}

/// The run strategy of a VM; `running` is its deprecated form.
pub(super) fn strategy(vm: &Value) -> String {
    match vm.pointer("/spec/running").and_then(Value::as_bool) {
        Some(true) => "Always".to_owned(),
        Some(false) => "Halted".to_owned(),
        None => text(vm, "/spec/runStrategy"),
    }
}

impl VmPart {
    /// The fields of a VM object.
    pub(super) fn from_object(vm: &Value) -> VmPart {
        VmPart {
            status: known(vm, "/status/printableStatus"),
            ready: vm.pointer("/status/ready").and_then(Value::as_bool) == Some(true),
            created: text(vm, "/metadata/creationTimestamp"),
            strategy: strategy(vm),
            is_deleted: vm.pointer("/metadata/deletionTimestamp").is_some(),
        }
    }
}

impl VmiPart {
    /// The fields of a VMI object.
    pub(super) fn from_object(vmi: &Value) -> VmiPart {
        let has = |kind: &str| condition(vmi, kind, "True").is_some();
        let mut addresses = list(vmi, "/status/interfaces").map(|interface| text(interface, "/ipAddress"));
        VmiPart {
            phase: known(vmi, "/status/phase"),
            ready: has("Ready"),
            paused: has("Paused"),
            created: text(vmi, "/metadata/creationTimestamp"),
            node: text(vmi, "/status/nodeName"),
            address: addresses.find(|address| !address.is_empty()).unwrap_or_default(),
            is_deleted: vmi.pointer("/metadata/deletionTimestamp").is_some(),
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    fn runs(&self) -> bool {
        self.phase == "Running"
    }
}

impl Row {
    /// The row of a VM and its VMI, one of which may be missing.
    pub(super) fn new(namespace: &str, name: &str, vm: Option<&VmPart>, vmi: Option<&VmiPart>) -> Row {
        let running = vmi.filter(|vmi| !vmi.has_ended());
        let status = match (vm, vmi) {
            (Some(vm), _) if !vm.status.is_empty() => vm.status.clone(),
            (Some(vm), _) if vm.is_deleted => "Terminating".to_owned(),
            (Some(_), None) => "Stopped".to_owned(),
            (_, Some(vmi)) if vmi.is_deleted => "Terminating".to_owned(),
            (_, Some(vmi)) if vmi.paused => "Paused".to_owned(),
            (_, Some(vmi)) if vmi.phase.is_empty() => "Pending".to_owned(),
            (_, Some(vmi)) => vmi.phase.clone(),
            (None, None) => String::new(),
        };
        Row {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            kind: if vm.is_some() { "VM" } else { "VMI" },
            status,
            ready: vm.map_or(vmi.is_some_and(|vmi| vmi.ready), |vm| vm.ready),
            node: running.map_or_else(String::new, |vmi| vmi.node.clone()),
            address: running.map_or_else(String::new, |vmi| vmi.address.clone()),
            created: vm.map(|vm| &vm.created).or(vmi.map(|vmi| &vmi.created)).cloned().unwrap_or_default(),
            runs: vmi.is_some_and(VmiPart::runs),
            verbs: verbs(vm, vmi).into_iter().map(Verb::word).collect(),
        }
    }
}

/// Actions that apply in this state. Permissions are checked by the API server when an action is requested.
fn verbs(vm: Option<&VmPart>, vmi: Option<&VmiPart>) -> Vec<Verb> {
    let mut verbs = Vec::new();
    let is_there = vmi.is_some_and(|vmi| !vmi.has_ended() && !vmi.is_deleted);
    if let Some(vm) = vm.filter(|vm| !vm.is_deleted) {
        // virt-controller is about to start a VM that always runs.
        let waits = ["Always", "Once"].contains(&vm.strategy.as_str());
        match is_there {
            true => verbs.extend([Verb::Stop, Verb::Restart]),
            false if waits => verbs.push(Verb::Stop),
            false => verbs.push(Verb::Start),
        }
    }
    if let Some(vmi) = vmi.filter(|vmi| vmi.runs() && !vmi.is_deleted) {
        match vmi.paused {
            true => verbs.push(Verb::Unpause),
            false => verbs.extend([Verb::Pause, Verb::SoftReboot]),
        }
    }
    verbs
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn vm(strategy: &str, status: &str) -> VmPart {
        VmPart::from_object(&json!({
            "metadata": {"creationTimestamp": "2026-09-01T10:00:00Z"},
            "spec": {"runStrategy": strategy},
            "status": {"printableStatus": status, "ready": status == "Running"},
        }))
    }

    fn vmi(phase: &str, paused: bool) -> VmiPart {
        VmiPart::from_object(&json!({
            "status": {
                "phase": phase, "nodeName": "n1",
                "interfaces": [{"name": "a"}, {"ipAddress": "10.0.0.7"}],
                "conditions": [{"type": "Paused", "status": if paused { "True" } else { "False" }}, 7],
            },
        }))
    }

    #[test]
    fn what_can_be_done_follows_what_is_there() {
        let (off, on) = (vm("Halted", "Stopped"), vm("Always", "Running"));
        let (runs, paused, ended) = (vmi("Running", false), vmi("Running", true), vmi("Succeeded", false));
        let (pending, manual) = (vmi("Scheduling", false), vm("Manual", "Stopped"));
        for (vm, vmi, wanted) in [
            (Some(&off), None, "start"),
            (Some(&on), Some(&runs), "stop restart pause soft-reboot"),
            (Some(&on), Some(&paused), "stop restart unpause"),
            (Some(&on), None, "stop"),
            (Some(&on), Some(&pending), "stop restart"),
            (Some(&manual), Some(&ended), "start"),
            (None, Some(&runs), "pause soft-reboot"),
            (None, Some(&ended), ""),
        ] {
            assert_eq!(Row::new("blue", "web", vm, vmi).verbs.join(" "), wanted, "{vm:?} {vmi:?}");
        }
    }

    #[test]
    fn a_line_has_what_people_ask_for() {
        let row = Row::new("blue", "web", Some(&vm("Always", "Running")), Some(&vmi("Running", false)));
        assert_eq!(
            serde_json::to_value(&row).unwrap(),
            json!({
                "namespace": "blue", "name": "web", "kind": "VM", "status": "Running", "ready": true,
                "node": "n1", "address": "10.0.0.7", "created": "2026-09-01T10:00:00Z", "runs": true,
                "verbs": ["stop", "restart", "pause", "soft-reboot"],
            })
        );
        let alone = Row::new("blue", "x", None, Some(&vmi("Failed", false)));
        assert_eq!((alone.kind, alone.status.as_str(), alone.node.as_str()), ("VMI", "Failed", ""));
        assert_eq!(Row::new("blue", "x", Some(&VmPart::default()), None).status, "Stopped");
    }

    #[test]
    fn objects_that_are_otherwise_make_a_line_all_the_same() {
        let odd =
            json!({"spec": {"running": "yes"}, "status": {"phase": 3, "conditions": "x", "interfaces": [1]}});
        assert_eq!(VmiPart::from_object(&odd), VmiPart::default());
        assert_eq!(VmPart::from_object(&odd), VmPart::default());
        let alone = json!({"metadata": {"name": "a"}, "metadataAlone": true});
        let (vm, vmi) = (VmPart::from_object(&alone), VmiPart::from_object(&alone));
        for (vm, vmi) in [(Some(&vm), None), (None, Some(&vmi)), (Some(&vm), Some(&vmi))] {
            assert_eq!(Row::new("blue", "a", vm, vmi).status, "Unknown");
        }
        assert_eq!(strategy(&json!({"spec": {"running": true}})), "Always");
        assert_eq!(text(&json!({"a": "b\u{1b}[31m\nc"}), "/a"), "b [31m c");
    }
}
