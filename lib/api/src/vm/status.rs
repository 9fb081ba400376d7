//! Observed state of a VM.

use crate::condition::ConditionKind;
use crate::vm::{InferFailurePolicy, RunStrategy};
use crate::vmi::{ChangedBlockTrackingStatus, ClaimSource, DataVolumeSource, Disk, MigratedVolume};
use crate::{object, string_enum};
use std::collections::BTreeMap;

object! {
    /// Observed state of a VirtualMachine.
    pub struct Status {
        /// Name of the VirtualMachineSnapshot in progress.
        pub snapshot_in_progress: Option<String> = "snapshotInProgress",
        /// Name of the VirtualMachineRestore in progress.
        pub restore_in_progress: Option<String> = "restoreInProgress",
        /// Existence of the VMI of this VM.
        pub created: Option<bool> = "created",
        /// Readiness of the VMI, equal to its Ready condition.
        pub ready: Option<bool> = "ready",
        /// Summary of the VM's state in one word, shown by `kubectl get`.
        pub printable_status: Option<PrintableStatus> = "printableStatus",
        /// Conditions of the VM, one per type, including those copied from the VMI.
        pub conditions: Vec<Condition> = "conditions",
        /// Pending requests to start or stop the VM, processed in order.
        pub state_change_requests: Vec<StateChangeRequest> = "stateChangeRequests",
        /// Pending requests to add or remove volumes.
        pub volume_requests: Vec<VolumeRequest> = "volumeRequests",
        /// Support for snapshots of each volume.
        pub volume_snapshot_statuses: Vec<VolumeSnapshotStatus> = "volumeSnapshotStatuses",
        /// Consecutive start failures and the time of the next attempt.
        pub start_failure: Option<StartFailure> = "startFailure",
        /// Request to dump the guest memory to a PersistentVolumeClaim.
        pub memory_dump_request: Option<MemoryDumpRequest> = "memoryDumpRequest",
        /// Generation of the VM spec that the current VMI was created from.
        pub observed_generation: Option<i64> = "observedGeneration",
        /// Latest generation of the VM spec.
        pub desired_generation: Option<i64> = "desiredGeneration",
        /// Run strategy that the control plane last acted on.
        pub run_strategy: Option<RunStrategy> = "runStrategy",
        /// State of an update of the VM's volumes.
        pub volume_update_state: Option<VolumeUpdateState> = "volumeUpdateState",
        /// Changed block tracking (CBT) for incremental backups.
        pub changed_block_tracking: Option<ChangedBlockTrackingStatus> = "changedBlockTracking",
        /// Instance type in use by the VM.
        pub instancetype_ref: Option<InstancetypeStatusRef> = "instancetypeRef",
        /// Preference in use by the VM.
        pub preference_ref: Option<InstancetypeStatusRef> = "preferenceRef",
    }
}

/// Condition of the VM, for example Ready.
pub type Condition = crate::condition::Condition<ConditionType>;

impl ConditionKind for ConditionType {
    const DESCRIPTION: &'static str = "Condition of the VM, for example Ready.";
}

object! {
    /// Request to start or stop the VM.
    pub struct StateChangeRequest {
        /// Action that the request asks for.
        pub action: StateChange = "action",
        /// Parameters of the action: `paused: "true"` starts the VMI paused.
        pub data: BTreeMap<String, String> = "data",
        /// UID of the VMI that the request applies to. Unset: any VMI.
        pub uid: Option<String> = "uid",
    }
}

object! {
    /// Request to add or remove a volume; exactly one of the two.
    pub struct VolumeRequest {
        /// Volume to add to the VM.
        pub add_volume_options: Option<AddVolumeOptions> = "addVolumeOptions",
        /// Volume to remove from the VM.
        pub remove_volume_options: Option<RemoveVolumeOptions> = "removeVolumeOptions",
    }
}

object! {
    /// Volume to add to the VM.
    pub struct AddVolumeOptions {
        /// Name of the volume and its disk.
        pub name: String = "name",
        /// Disk device that attaches the volume to the guest.
        pub disk: Disk = "disk",
        /// Source of the volume: a PersistentVolumeClaim or a DataVolume.
        pub volume_source: HotplugVolumeSource = "volumeSource",
        /// Dry-run mode: `All` validates the request without effect. Unset: the request takes effect.
        pub dry_run: Vec<String> = "dryRun",
    }
}

object! {
    /// Source of a hotplugged volume; exactly one of the two.
    pub struct HotplugVolumeSource {
        /// PersistentVolumeClaim (PVC) in the namespace of the VM.
        pub persistent_volume_claim: Option<ClaimSource> = "persistentVolumeClaim",
        /// DataVolume in the namespace of the VM.
        pub data_volume: Option<DataVolumeSource> = "dataVolume",
    }
}

object! {
    /// Volume to remove from the VM.
    pub struct RemoveVolumeOptions {
        /// Name of the volume to remove.
        pub name: String = "name",
        /// Dry-run mode: `All` validates the request without effect. Unset: the request takes effect.
        pub dry_run: Vec<String> = "dryRun",
    }
}

object! {
    /// Support for snapshots of a volume.
    pub struct VolumeSnapshotStatus {
        /// Name of the volume in the VMI template.
        pub name: String = "name",
        /// Support of the volume's storage for snapshots.
        pub enabled: bool = "enabled",
        /// Reason for missing support of snapshots.
        pub reason: Option<String> = "reason",
    }
}

object! {
    /// Consecutive start failures of the VM and the time of the next attempt.
    pub struct StartFailure {
        /// Number of consecutive failures to start a VMI.
        pub consecutive_fail_count: Option<i64> = "consecutiveFailCount",
        /// UID of the VMI that failed last.
        pub last_failed_vmi_uid: Option<String> = "lastFailedVMIUID",
        /// Earliest time of the next attempt (RFC 3339).
        pub retry_after_timestamp: Option<String> = "retryAfterTimestamp",
    }
}

object! {
    /// Request to dump the guest memory to a PersistentVolumeClaim.
    pub struct MemoryDumpRequest {
        /// Name of the PersistentVolumeClaim that receives the dump.
        pub claim_name: String = "claimName",
        /// Phase of the memory dump.
        pub phase: MemoryDumpPhase = "phase",
        /// Request to detach the PersistentVolumeClaim from the VM. Default: false.
        pub remove: Option<bool> = "remove",
        /// Start time of the dump (RFC 3339).
        pub start_timestamp: Option<String> = "startTimestamp",
        /// End time of the dump (RFC 3339).
        pub end_timestamp: Option<String> = "endTimestamp",
        /// Name of the dump file on the PersistentVolumeClaim.
        pub file_name: Option<String> = "fileName",
        /// Message about the phase, for people.
        pub message: Option<String> = "message",
    }
}

object! {
    /// State of an update of the VM's volumes.
    pub struct VolumeUpdateState {
        /// State of a migration of volumes.
        pub volume_migration_state: Option<VolumeMigrationState> = "volumeMigrationState",
    }
}

object! {
    /// State of a migration of volumes to other PersistentVolumeClaims.
    pub struct VolumeMigrationState {
        /// Volumes in migration, each with source and destination.
        pub migrated_volumes: Vec<MigratedVolume> = "migratedVolumes",
    }
}

object! {
    /// Instance type or preference in use by the VM.
    pub struct InstancetypeStatusRef {
        /// Name of the instance type or preference.
        pub name: Option<String> = "name",
        /// Kind of the instance type or preference, namespaced or cluster-wide.
        pub kind: Option<String> = "kind",
        /// ControllerRevision with the instance type or preference in use.
        pub controller_revision_ref: Option<ControllerRevisionRef> = "controllerRevisionRef",
        /// Name of the volume that the reference was inferred from.
        pub infer_from_volume: Option<String> = "inferFromVolume",
        /// Reaction if the volume names no instance type or preference.
        pub infer_from_volume_failure_policy: Option<InferFailurePolicy> = "inferFromVolumeFailurePolicy",
    }
}

object! {
    /// Reference to a ControllerRevision.
    pub struct ControllerRevisionRef {
        /// Name of the ControllerRevision in the namespace of the VM.
        pub name: Option<String> = "name",
    }
}

string_enum! {
    /// Summary of a VM's state in one word.
    pub enum PrintableStatus {
        Terminating = "Terminating",
        Stopping = "Stopping",
        Migrating = "Migrating",
        Paused = "Paused",
        Running = "Running",
        ErrorPvcNotFound = "ErrorPvcNotFound",
        DataVolumeError = "DataVolumeError",
        ErrorUnschedulable = "ErrorUnschedulable",
        Provisioning = "Provisioning",
        WaitingForVolumeBinding = "WaitingForVolumeBinding",
        ErrImagePull = "ErrImagePull",
        ImagePullBackOff = "ImagePullBackOff",
        Starting = "Starting",
        CrashLoopBackOff = "CrashLoopBackOff",
        Stopped = "Stopped",
        WaitingForReceiver = "WaitingForReceiver",
        Unknown = "Unknown",
    }
}

string_enum! {
    /// Type of a VM condition, including those copied from the VMI.
    pub enum ConditionType {
        Failure = "Failure",
        Ready = "Ready",
        Paused = "Paused",
        RestartRequired = "RestartRequired",
        ManualRecoveryRequired = "ManualRecoveryRequired",
    }
}

string_enum! {
    /// Action that a request asks for.
    pub enum StateChange {
        Start = "Start",
        Stop = "Stop",
    }
}

string_enum! {
    /// Phase of a memory dump.
    pub enum MemoryDumpPhase {
        Associating = "Associating",
        InProgress = "InProgress",
        Unmounting = "Unmounting",
        Completed = "Completed",
        Dissociating = "Dissociating",
        Failed = "Failed",
    }
}
