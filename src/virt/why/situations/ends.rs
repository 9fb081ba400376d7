//! Situations of a guest that has ended, or is being stopped.

use super::{BEFORE, Situation, compute, condition, facts, pod, vm, vmi, with_guest};
use crate::virt::why::Facts;
use serde_json::{Value, json};

fn deleted(object: Option<Value>) -> Value {
    let mut object = object.unwrap();
    object["metadata"]["deletionTimestamp"] = json!(BEFORE);
    object
}

pub(in super::super) fn of_ends() -> Vec<Situation> {
    let mut leaves = deleted(vmi("Running", &[]));
    leaves["spec"]["terminationGracePeriodSeconds"] = json!(180);
    let mut failed = vmi("Failed", &[]).unwrap();
    failed["status"]["reason"] = json!("Evicted");
    let refused = "admission webhook \"keep.example.com\" denied the request";
    let kept = json!({"conditions": [condition("Failure", "True", "FailedDelete", refused)]});
    let of_vmi = format!("virt-controller, condition Failure, FailedDelete of VM web: {refused}").leak();
    let of_pod =
        format!("virt-controller, condition Synchronized, FailedDelete of VMI web: {refused}").leak();
    vec![
        (
            "stopping",
            Facts { vmi: Some(leaves), ..with_guest(&[]) },
            "VMI web is being stopped: the guest has 180 s to shut down",
            "",
            "$virt stop web --force --grace-period=0",
        ),
        (
            "its VMI is kept",
            Facts { vm: vm("Halted", kept.clone()), ..with_guest(&[]) },
            "virt-controller cannot delete VMI web",
            of_vmi,
            "admission policy or webhook",
        ),
        (
            "deleted, and its VMI is kept",
            Facts { vm: Some(deleted(vm("Always", kept))), ..with_guest(&[]) },
            "VM web is being deleted, and its VMI has to stop first: virt-controller cannot delete VMI web",
            of_vmi,
            "admission policy or webhook",
        ),
        (
            "its pod is kept",
            Facts {
                vmi: Some(deleted(vmi(
                    "Failed",
                    &[condition("Synchronized", "False", "FailedDelete", refused)],
                ))),
                ..with_guest(&[])
            },
            "virt-controller cannot delete the launcher pod of VMI web",
            of_pod,
            "admission policy or webhook",
        ),
        (
            "evicted before it ran",
            Facts {
                vmi: vmi("Failed", &[condition("Synchronized", "False", "Evicted", "low on memory")]),
                pods: pod(None, "Failed", compute(json!({}))),
                ..with_guest(&[])
            },
            "VM web has failed",
            "virt-controller, condition Synchronized, Evicted of VMI web: low on memory",
            "kubectl logs virt-launcher-web-x -n blue",
        ),
        (
            "failed alone",
            Facts {
                vm: None,
                vmi: Some(failed),
                pods: pod(
                    Some("n1"),
                    "Failed",
                    json!({"reason": "Evicted", "message": "The node was low on memory"}),
                ),
                node: None,
                ..facts()
            },
            "VM web has failed",
            "status.reason of VMI web: Evicted | status of Pod virt-launcher-web-x, Evicted: The node was low on memory",
            "kubectl logs virt-launcher-web-x -n blue",
        ),
        (
            "shut down, and not started again",
            Facts {
                vm: vm("RerunOnFailure", json!({"printableStatus": "Stopped"})),
                vmi: vmi("Succeeded", &[]),
                ..facts()
            },
            "VM web has been shut down",
            "",
            "",
        ),
    ]
}
