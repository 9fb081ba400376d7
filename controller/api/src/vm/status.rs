//! How it is with a machine.

use crate::vm::{InferFailurePolicy, RunStrategy};
use crate::vmi::{ChangedBlockTrackingStatus, ClaimSource, DataVolumeSource, Disk, MigratedVolume};
use crate::{object, words};
use std::collections::BTreeMap;

object! {
    /// How it is with a machine.
    pub struct Status {
        /// The snapshot that is being made.
        pub snapshot_in_progress: Option<String> = "snapshotInProgress",
        /// The restore that is under way.
        pub restore_in_progress: Option<String> = "restoreInProgress",
        /// There is an instance.
        pub created: Option<bool> = "created",
        /// The instance is ready.
        pub ready: Option<bool> = "ready",
        /// How it is, in a word.
        pub printable_status: Option<PrintableStatus> = "printableStatus",
        /// What is true or false of it, by type; those of the instance are among them.
        pub conditions: Vec<Condition> = "conditions",
        /// What somebody wants done, in order.
        pub state_change_requests: Vec<StateChangeRequest> = "stateChangeRequests",
        /// Volumes that somebody wants added or removed.
        pub volume_requests: Vec<VolumeRequest> = "volumeRequests",
        /// Which volumes can be kept as they are at a moment.
        pub volume_snapshot_statuses: Vec<VolumeSnapshotStatus> = "volumeSnapshotStatuses",
        /// How often it failed to start, and when it is tried again.
        pub start_failure: Option<StartFailure> = "startFailure",
        /// Someone wants the memory written to a claim.
        pub memory_dump_request: Option<MemoryDumpRequest> = "memoryDumpRequest",
        /// The generation of the machine that its instance was made from.
        pub observed_generation: Option<i64> = "observedGeneration",
        /// The generation of the machine that is wanted.
        pub desired_generation: Option<i64> = "desiredGeneration",
        /// When it runs, as it was last carried out.
        pub run_strategy: Option<RunStrategy> = "runStrategy",
        /// How a change of volumes goes.
        pub volume_update_state: Option<VolumeUpdateState> = "volumeUpdateState",
        /// Whether changes are tracked for backups.
        pub changed_block_tracking: Option<ChangedBlockTrackingStatus> = "changedBlockTracking",
        /// The instance type that is in use.
        pub instancetype_ref: Option<InstancetypeStatusRef> = "instancetypeRef",
        /// The preference that is in use.
        pub preference_ref: Option<InstancetypeStatusRef> = "preferenceRef",
    }
}

object! {
    /// One thing that is true or false of a machine.
    pub struct Condition by "type" {
        /// What it is about.
        pub r#type: ConditionType = "type",
        /// `True`, `False` or `Unknown`.
        pub status: String = "status",
        /// When it was last looked at; RFC 3339.
        pub last_probe_time: Option<String> = "lastProbeTime",
        /// Since when it is so; RFC 3339.
        pub last_transition_time: Option<String> = "lastTransitionTime",
        /// A word for it.
        pub reason: Option<String> = "reason",
        /// A sentence for it.
        pub message: Option<String> = "message",
    }
}

object! {
    /// Someone wants it started or stopped.
    pub struct StateChangeRequest {
        /// What is to be done.
        pub action: StateChange = "action",
        /// How it is to be done: `paused` is `true` where it starts paused.
        pub data: BTreeMap<String, String> = "data",
        /// The instance that is meant.
        pub uid: Option<String> = "uid",
    }
}

object! {
    /// Someone wants a volume added or removed.
    pub struct VolumeRequest {
        /// One to add.
        pub add_volume_options: Option<AddVolumeOptions> = "addVolumeOptions",
        /// One to remove.
        pub remove_volume_options: Option<RemoveVolumeOptions> = "removeVolumeOptions",
    }
}

object! {
    /// A volume to add.
    pub struct AddVolumeOptions {
        /// Its name.
        pub name: String = "name",
        /// How the guest sees it.
        pub disk: Disk = "disk",
        /// Where its bytes are.
        pub volume_source: HotplugVolumeSource = "volumeSource",
        /// `All` where nothing is to be done.
        pub dry_run: Vec<String> = "dryRun",
    }
}

object! {
    /// Where the bytes of an added volume are.
    pub struct HotplugVolumeSource {
        /// A claim.
        pub persistent_volume_claim: Option<ClaimSource> = "persistentVolumeClaim",
        /// A DataVolume's claim.
        pub data_volume: Option<DataVolumeSource> = "dataVolume",
    }
}

object! {
    /// A volume to remove.
    pub struct RemoveVolumeOptions {
        /// Its name.
        pub name: String = "name",
        /// `All` where nothing is to be done.
        pub dry_run: Vec<String> = "dryRun",
    }
}

object! {
    /// Whether a volume can be kept as it is at a moment.
    pub struct VolumeSnapshotStatus {
        /// The volume.
        pub name: String = "name",
        /// Whether it can.
        pub enabled: bool = "enabled",
        /// A word for it.
        pub reason: Option<String> = "reason",
    }
}

object! {
    /// How often it failed to start, and when it is tried again.
    pub struct StartFailure {
        /// How often in a row.
        pub consecutive_fail_count: Option<i64> = "consecutiveFailCount",
        /// The instance that failed last.
        pub last_failed_vmi_uid: Option<String> = "lastFailedVMIUID",
        /// When it is tried again; RFC 3339.
        pub retry_after_timestamp: Option<String> = "retryAfterTimestamp",
    }
}

object! {
    /// Someone wants the memory written to a claim.
    pub struct MemoryDumpRequest {
        /// The claim's name.
        pub claim_name: String = "claimName",
        /// How far it is.
        pub phase: MemoryDumpPhase = "phase",
        /// The claim is to be let go.
        pub remove: Option<bool> = "remove",
        /// When it began; RFC 3339.
        pub start_timestamp: Option<String> = "startTimestamp",
        /// When it ended; RFC 3339.
        pub end_timestamp: Option<String> = "endTimestamp",
        /// The file in the claim.
        pub file_name: Option<String> = "fileName",
        /// A sentence for it.
        pub message: Option<String> = "message",
    }
}

object! {
    /// How a change of volumes goes.
    pub struct VolumeUpdateState {
        /// How the move of volumes goes.
        pub volume_migration_state: Option<VolumeMigrationState> = "volumeMigrationState",
    }
}

object! {
    /// How the move of volumes goes.
    pub struct VolumeMigrationState {
        /// The volumes that move.
        pub migrated_volumes: Vec<MigratedVolume> = "migratedVolumes",
    }
}

object! {
    /// Which instance type or preference is in use.
    pub struct InstancetypeStatusRef {
        /// Its name.
        pub name: Option<String> = "name",
        /// Its kind.
        pub kind: Option<String> = "kind",
        /// The copy of it that is in use.
        pub controller_revision_ref: Option<ControllerRevisionRef> = "controllerRevisionRef",
        /// The volume whose labels named it.
        pub infer_from_volume: Option<String> = "inferFromVolume",
        /// What happened when they did not.
        pub infer_from_volume_failure_policy: Option<InferFailurePolicy> = "inferFromVolumeFailurePolicy",
    }
}

object! {
    /// The copy of it that is in use.
    pub struct ControllerRevisionRef {
        /// Its name.
        pub name: Option<String> = "name",
    }
}

words! {
    /// How it is, in a word for people.
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
