//! How it is with a machine.

use crate::vm::{InferFailurePolicy, RunStrategy};
use crate::vmi::{ChangedBlockTrackingStatus, ClaimSource, DataVolumeSource, Disk, MigratedVolume};
use crate::{object, words};
use std::collections::BTreeMap;

object! {
    /// How it is with a machine.
    #[allow(missing_docs)]
    pub struct Status {
        pub snapshot_in_progress: Option<String> = "snapshotInProgress",
        pub restore_in_progress: Option<String> = "restoreInProgress",
        pub created: Option<bool> = "created",
        pub ready: Option<bool> = "ready",
        pub printable_status: Option<PrintableStatus> = "printableStatus",
        /// By type.
        pub conditions: Vec<Condition> = "conditions",
        pub state_change_requests: Vec<StateChangeRequest> = "stateChangeRequests",
        pub volume_requests: Vec<VolumeRequest> = "volumeRequests",
        pub volume_snapshot_statuses: Vec<VolumeSnapshotStatus> = "volumeSnapshotStatuses",
        pub start_failure: Option<StartFailure> = "startFailure",
        pub memory_dump_request: Option<MemoryDumpRequest> = "memoryDumpRequest",
        pub observed_generation: Option<i64> = "observedGeneration",
        pub desired_generation: Option<i64> = "desiredGeneration",
        pub run_strategy: Option<RunStrategy> = "runStrategy",
        pub volume_update_state: Option<VolumeUpdateState> = "volumeUpdateState",
        pub changed_block_tracking: Option<ChangedBlockTrackingStatus> = "changedBlockTracking",
        pub instancetype_ref: Option<InstancetypeStatusRef> = "instancetypeRef",
        pub preference_ref: Option<InstancetypeStatusRef> = "preferenceRef",
    }
}

object! {
    /// One thing that is true or false of a machine.
    #[allow(missing_docs)]
    pub struct Condition {
        pub r#type: ConditionType = "type",
        pub status: String = "status",
        /// RFC 3339.
        pub last_probe_time: Option<String> = "lastProbeTime",
        /// RFC 3339.
        pub last_transition_time: Option<String> = "lastTransitionTime",
        /// A word for it.
        pub reason: Option<String> = "reason",
        /// A sentence for it.
        pub message: Option<String> = "message",
    }
}

object! {
    /// Someone wants it started or stopped.
    #[allow(missing_docs)]
    pub struct StateChangeRequest {
        /// What it does; not said is `reset`.
        pub action: StateChange = "action",
        pub data: BTreeMap<String, String> = "data",
        pub uid: Option<String> = "uid",
    }
}

object! {
    /// Someone wants a volume added or removed.
    #[allow(missing_docs)]
    pub struct VolumeRequest {
        pub add_volume_options: Option<AddVolumeOptions> = "addVolumeOptions",
        pub remove_volume_options: Option<RemoveVolumeOptions> = "removeVolumeOptions",
    }
}

object! {
    /// A volume to add.
    #[allow(missing_docs)]
    pub struct AddVolumeOptions {
        pub name: String = "name",
        pub disk: Disk = "disk",
        pub volume_source: HotplugVolumeSource = "volumeSource",
        pub dry_run: Vec<String> = "dryRun",
    }
}

object! {
    /// Where the bytes of an added volume are.
    #[allow(missing_docs)]
    pub struct HotplugVolumeSource {
        pub persistent_volume_claim: Option<ClaimSource> = "persistentVolumeClaim",
        pub data_volume: Option<DataVolumeSource> = "dataVolume",
    }
}

object! {
    /// A volume to remove.
    #[allow(missing_docs)]
    pub struct RemoveVolumeOptions {
        pub name: String = "name",
        pub dry_run: Vec<String> = "dryRun",
    }
}

object! {
    /// Whether a volume can be kept as it is at a moment.
    #[allow(missing_docs)]
    pub struct VolumeSnapshotStatus {
        pub name: String = "name",
        /// Whether it is on; not said is on, where the whole stands there.
        pub enabled: bool = "enabled",
        /// A word for it.
        pub reason: Option<String> = "reason",
    }
}

object! {
    /// How often it failed to start, and when it is tried again.
    #[allow(missing_docs)]
    pub struct StartFailure {
        pub consecutive_fail_count: Option<i64> = "consecutiveFailCount",
        pub last_failed_vmi_uid: Option<String> = "lastFailedVMIUID",
        pub retry_after_timestamp: Option<String> = "retryAfterTimestamp",
    }
}

object! {
    /// Someone wants the memory written to a claim.
    #[allow(missing_docs)]
    pub struct MemoryDumpRequest {
        /// The claim's name.
        pub claim_name: String = "claimName",
        pub phase: MemoryDumpPhase = "phase",
        pub remove: Option<bool> = "remove",
        /// RFC 3339.
        pub start_timestamp: Option<String> = "startTimestamp",
        /// RFC 3339.
        pub end_timestamp: Option<String> = "endTimestamp",
        pub file_name: Option<String> = "fileName",
        /// A sentence for it.
        pub message: Option<String> = "message",
    }
}

object! {
    /// How a change of volumes goes.
    #[allow(missing_docs)]
    pub struct VolumeUpdateState {
        pub volume_migration_state: Option<VolumeMigrationState> = "volumeMigrationState",
    }
}

object! {
    /// How the move of volumes goes.
    #[allow(missing_docs)]
    pub struct VolumeMigrationState {
        pub migrated_volumes: Vec<MigratedVolume> = "migratedVolumes",
    }
}

object! {
    /// Which instance type or preference is in use.
    #[allow(missing_docs)]
    pub struct InstancetypeStatusRef {
        pub name: Option<String> = "name",
        pub kind: Option<String> = "kind",
        pub controller_revision_ref: Option<ControllerRevisionRef> = "controllerRevisionRef",
        pub infer_from_volume: Option<String> = "inferFromVolume",
        pub infer_from_volume_failure_policy: Option<InferFailurePolicy> = "inferFromVolumeFailurePolicy",
    }
}

object! {
    /// The copy of it that is in use.
    #[allow(missing_docs)]
    pub struct ControllerRevisionRef {
        pub name: Option<String> = "name",
    }
}

words! {
    /// A word for people.
    #[allow(missing_docs)]
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

words! {
    /// What a condition is about; those of the instance are copied.
    #[allow(missing_docs)]
    pub enum ConditionType {
        Failure = "Failure",
        Ready = "Ready",
        Paused = "Paused",
        RestartRequired = "RestartRequired",
        ManualRecoveryRequired = "ManualRecoveryRequired",
    }
}

words! {
    /// What is wanted.
    #[allow(missing_docs)]
    pub enum StateChange {
        Start = "Start",
        Stop = "Stop",
    }
}

words! {
    /// How far a dump is.
    #[allow(missing_docs)]
    pub enum MemoryDumpPhase {
        Associating = "Associating",
        InProgress = "InProgress",
        Unmounting = "Unmounting",
        Completed = "Completed",
        Dissociating = "Dissociating",
        Failed = "Failed",
    }
}
