//! Situations of a VM that is off, and whose disks an offline migration moves.

use super::{BEFORE, Situation, condition, event, facts, filled, on_node, up, vm, vmi};
use crate::virt::why::Facts;
use serde_json::{Value, json};

fn migration(phase: &str, reason: &str) -> Value {
    let mut migration = json!({
        "metadata": {"name": "move-1", "uid": "m1", "creationTimestamp": BEFORE},
        "spec": {"vmiName": "web", "offline": true}, "status": {"phase": phase},
    });
    if !reason.is_empty() {
        migration["status"]["migrationState"] = json!({"failed": true, "failureReason": reason});
    }
    migration
}

/// A VM that is off, and its VMI without a guest.
fn carried(phase: &str, state: Value, migration: Value) -> Facts {
    let paused = condition("Paused", "True", "PausedByUser", "VMI was paused by user");
    let ready = condition("Ready", "False", "GuestNotRunning", "Guest VM is not reported as running");
    let mut vmi = on_node(vmi(phase, &[paused.clone(), ready])).unwrap();
    vmi["metadata"]["annotations"] = json!({"coracle.io/offline-migration": "m1"});
    vmi["status"]["migrationState"] = state;
    Facts {
        vm: vm("Halted", json!({"printableStatus": "Migrating", "conditions": [paused]})),
        vmi: Some(vmi),
        migrations: vec![migration],
        pods: up(),
        volumes: filled(),
        ..facts()
    }
}

pub(in super::super) fn of_offline() -> Vec<Situation> {
    let stopped = |migration: Value| Facts {
        vm: vm("Halted", json!({"printableStatus": "Stopped"})),
        migrations: vec![migration],
        volumes: filled(),
        ..facts()
    };
    let mut waiting = migration("Pending", "");
    let reason = "the disks of VM blue/web cannot be moved now: DataVolume disk is not filled yet";
    waiting["metadata"]["annotations"] = json!({"kubevirt.io/migrationPendingReason": reason});
    let running = json!({
        "migrationUid": "m1", "sourceNode": "n1", "targetNode": "n2", "startTimestamp": BEFORE,
        "progress": {"percent": 42},
    });
    let cdrom = "Cannot migrate VMI: PVC cd is a CD-ROM";
    vec![
        (
            "offline migration goes on",
            carried("Running", running, migration("Running", "")),
            "VM web is off, and its disks move from node n1 to n2: 42% sent",
            "",
            "$virt migrate-cancel web",
        ),
        (
            "offline migration whose VMI starts",
            carried("Scheduling", Value::Null, migration("Pending", "")),
            "VM web is off, and its offline migration move-1 waits for its turn",
            "",
            "kubectl get vmim -A",
        ),
        (
            "offline migration has failed, and its VMI goes",
            Facts {
                events: vec![event("VirtualMachineInstance", "web", "Stopped", "crashed")],
                ..carried("Failed", Value::Null, migration("Failed", cdrom))
            },
            "VM web is off: its offline migration failed, and the VMI without a guest is being removed",
            "status.migrationState.failureReason of VirtualMachineInstanceMigration move-1: Cannot migrate VMI: PVC cd is a CD-ROM",
            "virt-controller runs",
        ),
        (
            "offline migration waits for a disk",
            stopped(waiting),
            "VM web is off, and its offline migration move-1 waits for virt-controller",
            "virt-controller, annotation kubevirt.io/migrationPendingReason of VirtualMachineInstanceMigration move-1: \
             the disks of VM blue/web cannot be moved now: DataVolume disk is not filled yet",
            "$virt migrate-cancel web",
        ),
        (
            "offline migration has failed",
            stopped(migration("Failed", cdrom)),
            "VM web is off: its run strategy is Halted; its offline migration failed",
            "status.migrationState.failureReason of VirtualMachineInstanceMigration move-1: Cannot migrate VMI: PVC cd is a CD-ROM",
            "$virt start web",
        ),
        (
            "offline migration was cancelled",
            stopped(migration("Failed", "Migration failed due to being canceled")),
            "VM web is off: its run strategy is Halted; its offline migration was cancelled",
            "",
            "$virt start web",
        ),
        (
            "offline migration has succeeded",
            stopped(migration("Succeeded", "")),
            "VM web is off: its run strategy is Halted",
            "",
            "$virt start web",
        ),
    ]
}
