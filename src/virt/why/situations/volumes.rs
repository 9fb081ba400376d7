//! Situations of a VM whose volumes go to other PVCs (`updateVolumesStrategy: Migration`).

use super::{Situation, condition, event, facts, filled, vm, vmi, with_guest};
use crate::virt::why::Facts;
use serde_json::json;

pub(in super::super) fn of_volumes() -> Vec<Situation> {
    let change = |status: &str, reason: &str, message: &str| {
        with_guest(&[condition("VolumesChange", status, reason, message)])
    };
    let failed = json!({"metadata": {"name": "move-1"}, "status": {
        "phase": "Failed", "migrationState": {"failureReason": "target is full"},
    }});
    let mut earlier = event("VirtualMachineInstance", "web", "Migrated", "of a VMI that was deleted");
    earlier.uid = "u0".to_owned();
    let mut own = event("VirtualMachineInstance", "web", "SyncFailed", "no such machine type");
    own.uid = "u1".to_owned();
    let moved = "a live migration has copied PVC blue/disk into PVC disk-moved-abcde";
    vec![
        (
            "a PVC of the move is missing",
            change("False", "", "One of the destination volumes doesn't exist: roomy"),
            "VM web runs, and the move of its volumes waits for their PVCs",
            "virt-controller, condition VolumesChange of VMI web: One of the destination volumes doesn't exist: roomy",
            "create the PVC",
        ),
        (
            "the move of volumes failed, and is tried again",
            Facts { migrations: vec![failed], ..change("True", "", "migrate volumes") },
            "VM web runs, and the move of its volumes waits for virt-controller to create a migration",
            "virt-controller, condition VolumesChange of VMI web: migrate volumes | \
             status.migrationState.failureReason of VirtualMachineInstanceMigration move-1: target is full",
            "comes after a pause",
        ),
        (
            "the move of volumes was taken back",
            change(
                "False",
                "VolumesChangeCancellation",
                "the volumes are on the PVCs that the VM names again",
            ),
            "VM web runs on node n1, and waits for nothing",
            "",
            "",
        ),
        (
            "a volume names a PVC that its disk has left",
            Facts {
                vm: vm(
                    "Always",
                    json!({
                        "startFailure": {"consecutiveFailCount": 1},
                        "conditions": [condition("ManualRecoveryRequired", "True", "PVCMoved", moved)],
                    }),
                ),
                volumes: filled(),
                ..facts()
            },
            "VM web does not start: a volume names a PVC that its disk is not on",
            "virt-controller, condition ManualRecoveryRequired, PVCMoved of VM web: a live migration has copied PVC blue/disk into PVC \
             disk-moved-abcde",
            "kubectl edit vm web",
        ),
        (
            "a warning about an earlier VMI of the name",
            Facts { vmi: vmi("Pending", &[]), volumes: filled(), events: vec![earlier, own], ..facts() },
            "VM web waits for virt-controller to create its launcher pod",
            "csi-provisioner, event SyncFailed of VMI web: no such machine type",
            "virt-controller runs",
        ),
    ]
}
