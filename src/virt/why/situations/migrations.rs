//! Situations of a guest that migrates, or is to.

use super::{BEFORE, Situation, condition, event, on_node, pod, vmi, with_guest};
use crate::virt::why::Facts;
use serde_json::{Value, json};

/// A running VMI with this state of a migration.
fn vmi_with(state: Value) -> Option<Value> {
    let mut vmi = on_node(vmi("Running", &[])).unwrap();
    vmi["status"]["migrationState"] = state;
    Some(vmi)
}

fn migration(phase: &str, conditions: &[Value]) -> Value {
    json!({
        "metadata": {"name": "move-1", "uid": "m1", "creationTimestamp": BEFORE}, "spec": {"vmiName": "web"},
        "status": {"phase": phase, "conditions": conditions},
    })
}

/// A guest with this migration and this state of it.
fn guest(migration: Value, state: Value) -> Facts {
    Facts { vmi: vmi_with(state), migrations: vec![migration], ..with_guest(&[]) }
}

/// The target pod of the migration.
fn target(node: Option<&str>, phase: &str, more: Value) -> Vec<Value> {
    let mut target = pod(node, phase, more);
    target[0]["metadata"]["labels"] = json!({"kubevirt.io/migrationJobUID": "m1"});
    target[0]["metadata"]["name"] = json!("virt-launcher-web-y");
    target
}

pub(in super::super) fn of_migrations() -> Vec<Situation> {
    let cancel = "$virt migrate-cancel web";
    let none = || Value::Null;
    let handed_over = || json!({"migrationUid": "m1", "sourceNode": "n1", "targetNode": "n2"});
    let progress = json!({
        "percent": 42, "totalBytes": 4_u64 << 30, "remainingBytes": 1_503_238_553, "bytesPerSecond": 104_857_600,
        "dirtyBytesPerSecond": 1_048_576, "iteration": 2,
    });
    let running = |more: Value| {
        let mut state = handed_over();
        state["startTimestamp"] = json!(BEFORE);
        for (key, value) in more.as_object().unwrap() {
            state[key] = value.clone();
        }
        state
    };
    let unschedulable = condition("PodScheduled", "False", "Unschedulable", "0/2 nodes are available");
    let mut goes = migration("Running", &[condition("migrationAbortRequested", "True", "", "")]);
    goes["metadata"]["deletionTimestamp"] = json!(BEFORE);
    let with_pods =
        |facts: Facts, more: Vec<Value>| Facts { pods: [facts.pods.clone(), more].concat(), ..facts };
    let mut queued = migration("Pending", &[]);
    let turn = "5 live migrations of the cluster go on or come first (parallelMigrationsPerCluster)";
    queued["metadata"]["annotations"] = json!({"kubevirt.io/migrationPendingReason": turn});
    let mut failed = migration("Failed", &[]);
    failed["status"]["migrationState"] = json!({"failureReason": "no image"});
    let mut selective = migration("Scheduling", &[]);
    selective["spec"]["addedNodeSelector"] = json!({"zone": "a"});
    let cancelled = json!({
        "completed": true, "failed": true, "abortRequested": true, "abortStatus": "Succeeded",
        "failureReason": "operation aborted: migration out: canceled by client",
    });
    let mut cancelled_early = migration("Failed", &[]);
    cancelled_early["status"]["migrationState"] =
        json!({"failureReason": "Migration failed due to being canceled"});
    let mut new = migration("", &[]);
    new["status"] = none();
    vec![
        (
            "new migration",
            guest(new, none()),
            "VM web runs, and its migration move-1 waits for virt-controller, which has not looked at it yet",
            "",
            "see whether virt-controller runs",
        ),
        (
            "migration without its turn",
            // The state of an earlier migration.
            guest(migration("Pending", &[]), json!({"migrationUid": "m0", "completed": true})),
            "VM web runs, and its migration move-1 waits for its turn",
            "",
            "kubectl get vmim -A",
        ),
        (
            "migration behind others",
            guest(queued, none()),
            "VM web runs, and its migration move-1 waits for virt-controller, which has not created its target pod",
            "virt-controller, annotation kubevirt.io/migrationPendingReason of VirtualMachineInstanceMigration move-1: \
             5 live migrations of the cluster go on or come first (parallelMigrationsPerCluster)",
            "kubectl get vmim -A",
        ),
        (
            "migration without room in a quota",
            guest(
                migration(
                    "Pending",
                    &[condition("migrationRejectedByResourceQuota", "True", "", "exceeded quota: small")],
                ),
                none(),
            ),
            "VM web runs, and its migration move-1 waits for room in a ResourceQuota",
            "virt-controller, condition migrationRejectedByResourceQuota of VirtualMachineInstanceMigration move-1: exceeded quota: small",
            "kubectl describe resourcequota",
        ),
        (
            "migration behind a backup",
            guest(
                migration(
                    "Pending",
                    &[condition(
                        "migrationBlockedByBackup",
                        "True",
                        "BackupInProgress",
                        "Waiting for backup b to complete",
                    )],
                ),
                none(),
            ),
            "VM web runs, and its migration move-1 waits for the end of a backup",
            "virt-controller, condition migrationBlockedByBackup, BackupInProgress of VirtualMachineInstanceMigration move-1: Waiting for backup b to complete",
            cancel,
        ),
        (
            "migration without a node",
            with_pods(
                guest(migration("Scheduling", &[]), none()),
                target(None, "Pending", json!({"conditions": [unschedulable.clone()]})),
            ),
            "VM web runs, and its migration move-1 waits for a node: no node can take its launcher pod",
            "the scheduler, condition PodScheduled, Unschedulable of Pod virt-launcher-web-y: 0/2 nodes are available",
            "kubectl describe nodes; to cancel the migration: $virt migrate-cancel web",
        ),
        (
            "migration to a node with labels that none has",
            with_pods(
                guest(selective, none()),
                target(None, "Pending", json!({"conditions": [unschedulable]})),
            ),
            "VM web runs, and its migration move-1 waits for a node: no node can take its launcher pod",
            "the scheduler, condition PodScheduled, Unschedulable of Pod virt-launcher-web-y: 0/2 nodes are available",
            "spec.addedNodeSelector of the migration asks for a node with zone=a: kubectl get nodes -l 'zone=a'",
        ),
        (
            "migration whose target pod begins",
            with_pods(guest(migration("Scheduling", &[]), none()), target(Some("n2"), "Pending", json!({}))),
            "VM web runs, and its migration move-1 waits for the kubelet of node n2",
            "",
            "images may still be pulled",
        ),
        (
            "migration without its target pod",
            guest(migration("Scheduling", &[]), none()),
            "VM web runs, and its migration move-1 waits for its target pod",
            "",
            cancel,
        ),
        (
            "migration before the hand-over",
            with_pods(guest(migration("Scheduled", &[]), none()), target(Some("n2"), "Running", json!({}))),
            "VM web runs, and its migration move-1 waits for virt-controller to hand the VMI over to node n2",
            "",
            cancel,
        ),
        (
            "target is prepared",
            Facts {
                events: vec![
                    event("VirtualMachineInstanceMigration", "move-1", "FailedMigration", "no image"),
                    event("VirtualMachineInstance", "web", "SyncFailed", "no volume"),
                ],
                ..guest(migration("PreparingTarget", &[]), handed_over())
            },
            "VM web runs, and its migration move-1 waits for virt-handler to prepare node n2",
            "csi-provisioner, event FailedMigration of VirtualMachineInstanceMigration move-1: no image | \
             csi-provisioner, event SyncFailed of VMI web: no volume",
            "spec.nodeName=n2",
        ),
        (
            "target is ready",
            guest(migration("TargetReady", &[]), handed_over()),
            "VM web runs, and its migration move-1 waits for virt-handler on node n1 to send the guest to node n2",
            "",
            "spec.nodeName=n1",
        ),
        (
            "migrating",
            guest(migration("Running", &[]), running(json!({"progress": progress}))),
            "VM web runs, and migrates from node n1 to n2: 42% of 4 GiB sent, 1.4 GiB remain, 100 MiB/s, \
             the guest writes 1 MiB/s",
            "",
            cancel,
        ),
        (
            "migrating with the limits of a policy",
            guest(
                migration("Running", &[]),
                running(json!({
                    "progress": {"percent": 42}, "migrationPolicyName": "slow",
                    "migrationConfiguration": {"bandwidthPerMigration": "64Mi"},
                })),
            ),
            "VM web runs, and migrates from node n1 to n2: 42% sent, at most 64 MiB/s, by MigrationPolicy slow",
            "",
            cancel,
        ),
        (
            "migrating without a limit",
            guest(
                migration("Running", &[]),
                running(json!({
                    "progress": {"percent": 42}, "migrationConfiguration": {"bandwidthPerMigration": "0"},
                })),
            ),
            "VM web runs, and migrates from node n1 to n2: 42% sent",
            "",
            cancel,
        ),
        (
            "migrating by post-copy",
            guest(
                migration("Running", &[]),
                running(json!({"progress": {"percent": 90}, "mode": "PostCopy"})),
            ),
            "VM web runs, and migrates from node n1 to n2: 90% sent, post-copy: the guest runs on the target already",
            "",
            cancel,
        ),
        (
            "migrating, and the migration cannot be read",
            Facts {
                migrations: Vec::new(),
                ..guest(none(), running(json!({"progress": {"remainingBytes": 1024}})))
            },
            "VM web runs, and migrates from node n1 to n2: 1 KiB remain",
            "",
            cancel,
        ),
        (
            "migration is cancelled",
            guest(goes, running(json!({}))),
            "VM web runs, and its migration move-1 is being cancelled",
            "",
            "",
        ),
        (
            "migration cancelled by the source",
            guest(migration("Running", &[]), running(json!({"abortRequested": true}))),
            "VM web runs, and its migration move-1 is being cancelled",
            "",
            "",
        ),
        (
            "migrated",
            guest(migration("Running", &[]), running(json!({"completed": true}))),
            "VM web runs on node n1, and waits for nothing",
            "",
            "",
        ),
        (
            "failed migration",
            guest(
                failed,
                running(json!({"completed": true, "failed": true, "failureReason": "of an earlier one"})),
            ),
            "VM web runs on node n1, and waits for nothing; its last migration failed",
            "status.migrationState.failureReason of VirtualMachineInstanceMigration move-1: no image",
            "",
        ),
        (
            "failed migration whose object has gone",
            Facts {
                migrations: Vec::new(),
                ..guest(
                    none(),
                    running(json!({"completed": true, "failed": true, "failureReason": "no image"})),
                )
            },
            "VM web runs on node n1, and waits for nothing; its last migration failed",
            "status.migrationState.failureReason of VMI web: no image",
            "",
        ),
        (
            "cancelled migration",
            Facts { migrations: Vec::new(), ..guest(none(), running(cancelled)) },
            "VM web runs on node n1, and waits for nothing; its last migration was cancelled",
            "",
            "",
        ),
        (
            "migration cancelled before its guest was sent",
            guest(cancelled_early, none()),
            "VM web runs on node n1, and waits for nothing; its last migration was cancelled",
            "",
            "",
        ),
        (
            "migrated after a failure",
            guest(migration("Succeeded", &[]), running(json!({"completed": true, "failed": true}))),
            "VM web runs on node n1, and waits for nothing",
            "",
            "",
        ),
        (
            "migration of a guest that has ended",
            Facts {
                vmi: {
                    let mut vmi = vmi_with(handed_over()).unwrap();
                    vmi["status"]["phase"] = json!("Succeeded");
                    Some(vmi)
                },
                ..guest(migration("Running", &[]), none())
            },
            "VM web has been shut down",
            "",
            "",
        ),
    ]
}
