//! Situations of a VM whose volumes go to other PVCs (`updateVolumesStrategy: Migration`).

use super::{BEFORE, Situation, condition, event, facts, filled, vm, vmi, with_guest};
use crate::virt::why::Facts;
use serde_json::{Value, json};

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
    let restart = |message: &str| condition("RestartRequired", "True", "RestartRequired", message);
    // The VM names `disk`, and the guest runs on another PVC.
    let misplaced = |strategy: Option<&str>, conditions: &[Value], vmi_conditions: &[Value]| {
        let mut facts = with_guest(vmi_conditions);
        let vm = facts.vm.as_mut().unwrap();
        vm["status"]["conditions"] = json!(conditions);
        vm["spec"]["updateVolumesStrategy"] = json!(strategy);
        vm["spec"]["dataVolumeTemplates"] =
            json!([{"metadata": {"name": "other"}}, {"metadata": {"name": "disk"}}]);
        facts.vmi.as_mut().unwrap()["spec"]["volumes"] =
            json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk-moved-abcde"}}]);
        facts
    };
    let recovery = condition("ManualRecoveryRequired", "True", "ManualRecoveryRequired", moved);
    let underway = condition("VolumesChange", "True", "", "migrate volumes");
    let mut update = json!({
        "metadata": {"name": "move-1", "uid": "m1", "creationTimestamp": BEFORE, "labels": {"kubevirt.io/volume-update-migration": "web"}},
        "spec": {"vmiName": "web"}, "status": {"phase": "Pending"},
    });
    update["metadata"]["annotations"] = json!({"kubevirt.io/migrationPendingReason": "no volume yet"});
    let moved_pvc = json!({"metadata": {"annotations": {"coracle.io/moved-to": "disk-moved-abcde"}}, "status": {"phase": "Bound"}});
    let mut off_misplaced =
        Facts { vm: vm("Always", json!({"conditions": [recovery.clone()]})), volumes: filled(), ..facts() };
    off_misplaced.volumes[0].pvc = Some(moved_pvc);
    let broken = json!({"conditions": [recovery.clone()], "volumeUpdateState": {"volumeMigrationState": {"migratedVolumes": [
        {"volumeName": "root", "sourcePVCInfo": {"claimName": "before"}, "destinationPVCInfo": {"claimName": "disk"}},
    ]}}});
    vec![
        (
            "a restart is refused, since the disk is on another PVC",
            misplaced(None, &[restart("a non-live-updatable field was changed"), recovery], &[]),
            "VM web runs on node n1, and could not start again: a volume names a PVC that its disk is not on",
            "virt-controller, condition ManualRecoveryRequired, ManualRecoveryRequired of VM web: a live migration has copied PVC \
             blue/disk into PVC disk-moved-abcde",
            r#""value":{"name":"root","persistentVolumeClaim":{"claimName":"disk-moved-abcde"}}},{"op":"remove","path":"/spec/dataVolumeTemplates/1"}]'"#,
        ),
        (
            "a restart is refused, since an update of the volumes does not begin",
            misplaced(Some("Migration"), &[restart("PVC disk is in use")], &[]),
            "VM web runs on node n1, and changes of it wait for a restart",
            "virt-controller, condition RestartRequired, RestartRequired of VM web: PVC disk is in use",
            "what they have, run this, and then $virt restart web:\nkubectl patch vm web -n blue --type=json -p \
             '[{\"op\":\"remove\",\"path\":\"/spec/updateVolumesStrategy\"}]'",
        ),
        (
            "an update of the volumes has not begun, and can be taken back",
            misplaced(Some("Migration"), &[], std::slice::from_ref(&underway)),
            "VM web runs, and the move of its volumes waits for virt-controller to create a migration",
            "virt-controller, condition VolumesChange of VMI web: migrate volumes",
            r#""value":{"name":"root","persistentVolumeClaim":{"claimName":"disk-moved-abcde"}}"#,
        ),
        (
            "an update of the volumes waits, and its migration would come again",
            Facts { migrations: vec![update], ..misplaced(Some("Migration"), &[], &[underway]) },
            "VM web runs, and its migration move-1 waits for virt-controller, which has not created its target pod",
            "virt-controller, annotation kubevirt.io/migrationPendingReason of VirtualMachineInstanceMigration move-1: no volume yet",
            "if the migration is cancelled alone, another one begins:\nkubectl patch vm web",
        ),
        (
            "a VM that is off names a PVC that has moved",
            off_misplaced,
            "VM web does not start: a volume names a PVC that its disk is not on",
            "virt-controller, condition ManualRecoveryRequired, ManualRecoveryRequired of VM web: a live migration has copied PVC \
             blue/disk into PVC disk-moved-abcde",
            r#""value":{"name":"root","persistentVolumeClaim":{"claimName":"disk-moved-abcde"}}"#,
        ),
        (
            "a VM whose guest has ended during an update of its volumes",
            Facts { vm: vm("Always", broken), volumes: filled(), ..facts() },
            "VM web does not start: a volume names a PVC that its disk is not on",
            "virt-controller, condition ManualRecoveryRequired, ManualRecoveryRequired of VM web: a live migration has copied PVC \
             blue/disk into PVC disk-moved-abcde",
            r#""value":{"name":"root","persistentVolumeClaim":{"claimName":"before"}}"#,
        ),
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
