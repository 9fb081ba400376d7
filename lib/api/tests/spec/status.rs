//! Every field of the status of a VM and of a VMI is written by a component of ours, or belongs to a feature that is named
//! here: a field that is in the schema alone tells people nothing.

use api::crd::KINDS;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

/// What becomes of a field.
enum Is {
    /// A file of this repository writes it, by this word.
    Written(&'static str, &'static str),
    /// It belongs to a feature that is not there.
    Of(&'static str),
}
use Is::{Of, Written};

const CONTROLLER_VMI: &str = "virt-controller/src/vmi/outcome.rs";
const CONTROLLER_VM: &str = "virt-controller/src/vm/status.rs";
const CONDITIONS: &str = "cluster-model/src/conditions.rs";
const HANDLER: &str = "virt-handler/src/vmi/status.rs";
const HAND_OVER: &str = "virt-controller/src/migration/hand_over.rs";
const MIGRATING: &str = "virt-controller/src/vmi/migrating.rs";
const KEEPER: &str = "virt-handler/src/vmi/keeper/migration.rs";
const CBT: Is = Of("changed block tracking and VirtualMachineBackup");
const DUMP: Is = Of("memory dumps");
const HOTPLUG: Is = Of("hotplug of volumes");

/// By kind and path; one with a point at its end is about all below it.
const VMI: &[(&str, Is)] = &[
    ("activePods", Written(CONTROLLER_VMI, "active_pods")),
    ("changedBlockTracking.", CBT),
    ("conditions[].lastProbeTime", Of("nothing: upstream leaves it empty")),
    ("conditions[].lastTransitionTime", Written(CONDITIONS, "condition.last_transition_time =")),
    ("conditions[].message", Written(CONDITIONS, "condition.message) =")),
    ("conditions[].reason", Written(CONDITIONS, "(condition.reason,")),
    ("conditions[].status", Written(CONDITIONS, "&mut condition.status")),
    ("conditions[].type", Written(CONDITIONS, "r#type: kind")),
    ("currentCPUTopology.cores", Written(HANDLER, "cores: Some")),
    ("currentCPUTopology.sockets", Written(HANDLER, "sockets: Some")),
    ("currentCPUTopology.threads", Written(HANDLER, "threads: Some")),
    ("deviceStatus.", Written("cluster-model/src/claimed.rs", "resource_claim_name: Some")),
    ("evacuationNodeName", Written("virt-api/admission/src/evictions.rs", "{EVACUATION: node}")),
    ("fsFreezeStatus", Written(HANDLER, "fs_freeze_status =")),
    ("guestOSInfo.id", Written(HANDLER, "id: said")),
    ("guestOSInfo.kernelRelease", Written(HANDLER, "kernel_release: said")),
    ("guestOSInfo.kernelVersion", Written(HANDLER, "kernel_version: said")),
    ("guestOSInfo.machine", Written(HANDLER, "machine: said")),
    ("guestOSInfo.name", Written(HANDLER, "name: said")),
    ("guestOSInfo.prettyName", Written(HANDLER, "pretty_name: said")),
    ("guestOSInfo.version", Written(HANDLER, "version: said")),
    ("guestOSInfo.versionId", Written(HANDLER, "version_id: said")),
    ("interfaces[].infoSource", Written("virt-handler/src/network/status.rs", "info_source: Some")),
    ("interfaces[].interfaceName", Written("virt-handler/src/vmi/interfaces.rs", "interface_name: Some")),
    ("interfaces[].ipAddress", Written("virt-handler/src/network/status.rs", "ip_address:")),
    ("interfaces[].ipAddresses", Written("virt-handler/src/network/status.rs", "ip_addresses:")),
    ("interfaces[].linkState", Written("virt-handler/src/network/status.rs", "link_state: Some")),
    ("interfaces[].mac", Written("virt-handler/src/network/status.rs", "mac,")),
    ("interfaces[].name", Written("virt-handler/src/network/status.rs", "name: Some")),
    (
        "interfaces[].podInterfaceName",
        Written("virt-handler/src/network/status.rs", "pod_interface_name: Some"),
    ),
    ("interfaces[].queueCount", Written("virt-handler/src/network/status.rs", "queue_count: Some")),
    ("kernelBootStatus.initrdInfo.checksum", Written(HANDLER, "initrd_info: found")),
    ("kernelBootStatus.kernelInfo.checksum", Written(HANDLER, "kernel_info: Some")),
    ("launcherContainerImageVersion", Written(CONTROLLER_VMI, "launcher_container_image_version.clone_from")),
    ("machine.type", Written(HANDLER, "new.machine =")),
    ("memory.guestAtBoot", Written(HANDLER, "guest_at_boot =")),
    ("memory.guestCurrent", Written(HANDLER, "guest_current =")),
    ("memory.guestRequested", Written(HANDLER, "guest_requested =")),
    ("memory.memoryOverhead", Written(CONTROLLER_VMI, "memory_overhead =")),
    ("migratedVolumes[].", Written("virt-controller/src/migration/copied_claims.rs", "MigratedVolume {")),
    ("migrationMethod", Written(HANDLER, "migration_method =")),
    ("migrationState.abortRequested", Written(MIGRATING, "abort_requested: Some")),
    ("migrationState.abortStatus", Written(KEEPER, "abort_status =")),
    ("migrationState.completed", Written(MIGRATING, "completed: Some")),
    ("migrationState.endTimestamp", Written(KEEPER, "end_timestamp =")),
    ("migrationState.failed", Written(KEEPER, "new.failed")),
    ("migrationState.failureReason", Written(KEEPER, "failure_reason =")),
    ("migrationState.migrationConfiguration.", Written(HAND_OVER, "migration_configuration: Some")),
    ("migrationState.migrationNetworkType", Of("a network for migrations")),
    ("migrationState.migrationPolicyName", Written(HAND_OVER, "migration_policy_name:")),
    ("migrationState.migrationUid", Written(HAND_OVER, "migration_uid:")),
    ("migrationState.mode", Written(KEEPER, "new.mode =")),
    ("migrationState.progress.", Written(KEEPER, "new.progress =")),
    ("migrationState.sourceCertificate", Written(KEEPER, "source_certificate =")),
    ("migrationState.sourceNode", Written(HAND_OVER, "source_node:")),
    ("migrationState.sourcePersistentStatePVCName", Of("migration of state PVCs")),
    ("migrationState.sourcePod", Written(HAND_OVER, "source_pod:")),
    ("migrationState.sourceState.", Of("migration between clusters")),
    ("migrationState.startTimestamp", Written(KEEPER, "start_timestamp.get_or_insert")),
    ("migrationState.targetAttachmentPodUID", Of("hotplug of volumes")),
    ("migrationState.targetCPUSet", Of("migration with dedicated CPUs")),
    ("migrationState.targetCertificate", Written(KEEPER, "target_certificate =")),
    (
        "migrationState.targetDirectMigrationNodePorts",
        Written(KEEPER, "target_direct_migration_node_ports ="),
    ),
    ("migrationState.targetFailureReason", Written(KEEPER, "target_failure_reason =")),
    (
        "migrationState.targetMemoryOverhead",
        Of("nothing: status.memory has that of the target once the guest is there"),
    ),
    ("migrationState.targetNode", Written(HAND_OVER, "target_node:")),
    ("migrationState.targetNodeAddress", Written(KEEPER, "target_node_address =")),
    ("migrationState.targetNodeDomainDetected", Written(KEEPER, "target_node_domain_detected =")),
    ("migrationState.targetNodeDomainReadyTimestamp", Written(KEEPER, "target_node_domain_ready_timestamp")),
    ("migrationState.targetNodeTopology", Of("migration with dedicated CPUs")),
    ("migrationState.targetPersistentStatePVCName", Of("migration of state PVCs")),
    ("migrationState.targetPod", Written(HAND_OVER, "target_pod:")),
    ("migrationState.targetState.", Of("migration between clusters")),
    ("migrationTransport", Written(CONTROLLER_VMI, "migration_transport =")),
    ("nodeName", Written(CONTROLLER_VMI, "node_name =")),
    ("phase", Written(HANDLER, "new.phase =")),
    ("phaseTransitionTimestamps[].phase", Written(HANDLER, "phase: Some")),
    (
        "phaseTransitionTimestamps[].phaseTransitionTimestamp",
        Written(HANDLER, "phase_transition_timestamp: Some"),
    ),
    ("qosClass", Written(CONTROLLER_VMI, "qos_class.clone_from")),
    ("reason", Written(HANDLER, "new.reason =")),
    ("runtimeUser", Written(CONTROLLER_VMI, "runtime_user:")),
    ("selinuxContext", Written(HANDLER, "selinux_context.")),
    ("topologyHints.tscFrequency", Written(CONTROLLER_VMI, "topology_hints.")),
    (
        "virtualMachineRevisionName",
        Written("virt-controller/src/vm/mod.rs", "virtual_machine_revision_name ="),
    ),
    ("volumeStatus[].containerDiskVolume.", Of("images of a migration by their digests")),
    ("volumeStatus[].hotplugVolume.", HOTPLUG),
    ("volumeStatus[].memoryDumpVolume.", DUMP),
    ("volumeStatus[].message", HOTPLUG),
    ("volumeStatus[].name", Written("virt-controller/src/vmi/volumes.rs", "name: volume")),
    (
        "volumeStatus[].persistentVolumeClaimInfo.accessModes",
        Written("virt-controller/src/vmi/volumes.rs", "access_modes:"),
    ),
    (
        "volumeStatus[].persistentVolumeClaimInfo.capacity",
        Written("virt-controller/src/vmi/volumes.rs", "capacity:"),
    ),
    (
        "volumeStatus[].persistentVolumeClaimInfo.claimName",
        Written("virt-controller/src/vmi/volumes.rs", "claim_name: Some"),
    ),
    (
        "volumeStatus[].persistentVolumeClaimInfo.filesystemOverhead",
        Written("virt-controller/src/vmi/volumes.rs", "filesystem_overhead:"),
    ),
    (
        "volumeStatus[].persistentVolumeClaimInfo.preallocated",
        Written("virt-controller/src/vmi/volumes.rs", "preallocated:"),
    ),
    (
        "volumeStatus[].persistentVolumeClaimInfo.requests",
        Written("virt-controller/src/vmi/volumes.rs", "requests:"),
    ),
    (
        "volumeStatus[].persistentVolumeClaimInfo.volumeMode",
        Written("virt-controller/src/vmi/volumes.rs", "volume_mode: Some"),
    ),
    ("volumeStatus[].phase", HOTPLUG),
    ("volumeStatus[].reason", HOTPLUG),
    ("volumeStatus[].size", Written(HANDLER, "known.size = size")),
    ("volumeStatus[].target", Written(HANDLER, "target.")),
    ("VSOCKCID", Written(CONTROLLER_VMI, "vsock_cid =")),
];

const VM: &[(&str, Is)] = &[
    ("changedBlockTracking.", CBT),
    ("conditions[].lastProbeTime", Of("nothing: upstream leaves it empty")),
    ("conditions[].lastTransitionTime", Written(CONDITIONS, "condition.last_transition_time =")),
    ("conditions[].message", Written(CONDITIONS, "condition.message) =")),
    ("conditions[].reason", Written(CONDITIONS, "(condition.reason,")),
    ("conditions[].status", Written(CONDITIONS, "&mut condition.status")),
    ("conditions[].type", Written(CONDITIONS, "r#type: kind")),
    ("created", Written(CONTROLLER_VM, "status.created =")),
    ("desiredGeneration", Written(CONTROLLER_VM, "desired_generation =")),
    (
        "instancetypeRef.controllerRevisionRef.name",
        Written("virt-controller/src/vm/sizes.rs", "name: Some(revision"),
    ),
    ("instancetypeRef.inferFromVolume", Of("nothing: what was inferred is in the spec")),
    ("instancetypeRef.inferFromVolumeFailurePolicy", Of("nothing: what was inferred is in the spec")),
    ("instancetypeRef.kind", Written("virt-controller/src/vm/sizes.rs", "kind: Some")),
    ("instancetypeRef.name", Written("virt-controller/src/vm/sizes.rs", "name: Some(matcher")),
    ("memoryDumpRequest.", DUMP),
    ("observedGeneration", Written(CONTROLLER_VM, "observed_generation =")),
    (
        "preferenceRef.controllerRevisionRef.name",
        Written("virt-controller/src/vm/sizes.rs", "name: Some(revision"),
    ),
    ("preferenceRef.inferFromVolume", Of("nothing: what was inferred is in the spec")),
    ("preferenceRef.inferFromVolumeFailurePolicy", Of("nothing: what was inferred is in the spec")),
    ("preferenceRef.kind", Written("virt-controller/src/vm/sizes.rs", "kind: Some")),
    ("preferenceRef.name", Written("virt-controller/src/vm/sizes.rs", "name: Some(matcher")),
    ("printableStatus", Written(CONTROLLER_VM, "printable_status =")),
    ("ready", Written(CONTROLLER_VM, "status.ready =")),
    ("restoreInProgress", Of("VirtualMachineRestore")),
    ("runStrategy", Written(CONTROLLER_VM, "run_strategy =")),
    ("snapshotInProgress", Of("VirtualMachineSnapshot")),
    (
        "startFailure.consecutiveFailCount",
        Written("virt-controller/src/vm/failure.rs", "consecutive_fail_count:"),
    ),
    ("startFailure.lastFailedVMIUID", Written("virt-controller/src/vm/failure.rs", "last_failed_vmi_uid:")),
    (
        "startFailure.retryAfterTimestamp",
        Written("virt-controller/src/vm/failure.rs", "retry_after_timestamp:"),
    ),
    ("stateChangeRequests[].action", Written("virt-api/subresources/src/lifecycle/mod.rs", "action")),
    ("stateChangeRequests[].data", Written("virt-api/subresources/src/lifecycle/mod.rs", "data")),
    ("stateChangeRequests[].uid", Written("virt-api/subresources/src/lifecycle/mod.rs", "uid")),
    ("volumeRequests[].", HOTPLUG),
    ("volumeSnapshotStatuses[].", Of("VirtualMachineSnapshot")),
    ("volumeUpdateState.", Of("volume migration")),
];

#[test]
fn every_field_of_a_status_is_written_or_belongs_to_a_feature_that_is_named() {
    let mut faults = Vec::new();
    for (singular, table) in [("virtualmachineinstance", VMI), ("virtualmachine", VM)] {
        let kind = KINDS.iter().find(|kind| kind.singular == singular).unwrap();
        let schema = kind.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        let mut fields = Vec::new();
        leaves(&schema["properties"]["status"], "", &mut fields);
        assert!(fields.len() > 20, "{singular}: {fields:?}");
        let mut met: BTreeMap<&str, usize> = table.iter().map(|(path, _)| (*path, 0)).collect();
        for field in &fields {
            let of = |path: &str| field == path || path.ends_with('.') && field.starts_with(path);
            match table.iter().find(|(path, _)| of(path)) {
                Some((path, _)) => *met.entry(path).or_default() += 1,
                None => faults.push(format!("{singular}: status.{field} is not in the table")),
            }
        }
        let unmet = met.into_iter().filter(|(_, count)| *count == 0);
        faults.extend(unmet.map(|(path, _)| format!("{singular}: there is no status.{path}")));
        for (path, is) in table {
            match is {
                Of(feature) => assert!(!feature.is_empty(), "{path}"),
                Written(file, word) => {
                    let text =
                        fs::read_to_string(format!("{}/../../controller/{file}", env!("CARGO_MANIFEST_DIR")))
                            .unwrap();
                    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                    let writes = |line: &str| !line.trim_start().starts_with("//") && line.contains(word);
                    if !code.lines().any(writes) {
                        faults.push(format!("{singular}: {file} does not write status.{path} ('{word}')"));
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The paths of all fields that hold no further ones.
fn leaves(schema: &Value, path: &str, all: &mut Vec<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, field) in properties {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            leaves(field, &path, all);
        }
    } else if schema.get("items").is_some_and(|items| items.get("properties").is_some()) {
        leaves(&schema["items"], &format!("{path}[]"), all);
    } else {
        all.push(path.to_owned());
    }
}
