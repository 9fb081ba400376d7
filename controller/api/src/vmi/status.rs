//! How it is with an instance.

use crate::quantity::Quantity;
use crate::vmi::{MachineType, MigratedVolume, MigrationState, VolumeStatus};
use crate::{object, words};
use std::collections::BTreeMap;

object! {
    /// Whether changes are tracked for backups.
    #[allow(missing_docs)]
    pub struct ChangedBlockTrackingStatus {
        pub state: ChangedBlockTrackingState = "state",
        pub backup_status: Option<BackupStatus> = "backupStatus",
    }
}

object! {
    /// How a backup goes.
    #[allow(missing_docs)]
    pub struct BackupStatus {
        pub backup_name: Option<String> = "backupName",
        /// RFC 3339.
        pub start_timestamp: Option<String> = "startTimestamp",
        /// RFC 3339.
        pub end_timestamp: Option<String> = "endTimestamp",
        pub completed: Option<bool> = "completed",
        pub failed: Option<bool> = "failed",
        pub backup_msg: Option<String> = "backupMsg",
        pub checkpoint_name: Option<String> = "checkpointName",
        pub volumes: Vec<BackupVolume> = "volumes",
        pub quiesce_status: Option<String> = "quiesceStatus",
    }
}

object! {
    /// A volume in a backup.
    #[allow(missing_docs)]
    pub struct BackupVolume {
        pub volume_name: String = "volumeName",
    }
}

object! {
    /// How it is with an instance.
    #[allow(missing_docs)]
    pub struct Status {
        pub node_name: Option<String> = "nodeName",
        /// A word for it.
        pub reason: Option<String> = "reason",
        /// By type.
        pub conditions: Vec<Condition> = "conditions",
        pub phase: Option<Phase> = "phase",
        pub phase_transition_timestamps: Vec<PhaseTransition> = "phaseTransitionTimestamps",
        pub interfaces: Vec<InterfaceStatus> = "interfaces",
        pub guest_os_info: Option<GuestOsInfo> = "guestOSInfo",
        pub migration_state: Option<MigrationState> = "migrationState",
        pub migration_method: Option<MigrationMethod> = "migrationMethod",
        pub migration_transport: Option<MigrationTransport> = "migrationTransport",
        pub qos_class: Option<String> = "qosClass",
        pub launcher_container_image_version: Option<String> = "launcherContainerImageVersion",
        pub evacuation_node_name: Option<String> = "evacuationNodeName",
        pub active_pods: BTreeMap<String, String> = "activePods",
        pub volume_status: Vec<VolumeStatus> = "volumeStatus",
        pub kernel_boot_status: Option<KernelBootStatus> = "kernelBootStatus",
        pub fs_freeze_status: Option<String> = "fsFreezeStatus",
        pub topology_hints: Option<TopologyHints> = "topologyHints",
        pub virtual_machine_revision_name: Option<String> = "virtualMachineRevisionName",
        pub runtime_user: u64 = "runtimeUser",
        pub vsock_cid: Option<u32> = "VSOCKCID",
        pub selinux_context: Option<String> = "selinuxContext",
        pub machine: Option<MachineType> = "machine",
        pub current_cpu_topology: Option<CpuTopology> = "currentCPUTopology",
        pub memory: Option<MemoryStatus> = "memory",
        pub migrated_volumes: Vec<MigratedVolume> = "migratedVolumes",
        pub changed_block_tracking: Option<ChangedBlockTrackingStatus> = "changedBlockTracking",
    }
}

object! {
    /// One thing that is true or false of an instance.
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
    /// When a phase began.
    #[allow(missing_docs)]
    pub struct PhaseTransition {
        pub phase: Option<Phase> = "phase",
        pub phase_transition_timestamp: Option<String> = "phaseTransitionTimestamp",
    }
}

object! {
    /// An interface as it is.
    #[allow(missing_docs)]
    pub struct InterfaceStatus {
        pub ip_address: Option<String> = "ipAddress",
        pub mac: Option<String> = "mac",
        pub name: Option<String> = "name",
        pub ip_addresses: Vec<String> = "ipAddresses",
        pub pod_interface_name: Option<String> = "podInterfaceName",
        pub interface_name: Option<String> = "interfaceName",
        pub info_source: Option<String> = "infoSource",
        pub queue_count: Option<i64> = "queueCount",
        pub link_state: Option<String> = "linkState",
    }
}

object! {
    /// What system the guest runs.
    #[allow(missing_docs)]
    pub struct GuestOsInfo {
        pub name: Option<String> = "name",
        pub kernel_release: Option<String> = "kernelRelease",
        pub version: Option<String> = "version",
        pub pretty_name: Option<String> = "prettyName",
        pub version_id: Option<String> = "versionId",
        pub kernel_version: Option<String> = "kernelVersion",
        pub machine: Option<String> = "machine",
        pub id: Option<String> = "id",
    }
}

object! {
    /// What a kernel boot started.
    #[allow(missing_docs)]
    pub struct KernelBootStatus {
        pub kernel_info: Option<Checksum> = "kernelInfo",
        pub initrd_info: Option<Checksum> = "initrdInfo",
    }
}

object! {
    /// The sum of a file.
    #[allow(missing_docs)]
    pub struct Checksum {
        pub checksum: Option<u32> = "checksum",
    }
}

object! {
    /// What the processors of the node are like.
    #[allow(missing_docs)]
    pub struct TopologyHints {
        pub tsc_frequency: Option<i64> = "tscFrequency",
    }
}

object! {
    /// Processors as they are.
    #[allow(missing_docs)]
    pub struct CpuTopology {
        pub cores: Option<u32> = "cores",
        pub sockets: Option<u32> = "sockets",
        pub threads: Option<u32> = "threads",
    }
}

object! {
    /// Memory as it is.
    #[allow(missing_docs)]
    pub struct MemoryStatus {
        pub guest_at_boot: Option<Quantity> = "guestAtBoot",
        pub guest_current: Option<Quantity> = "guestCurrent",
        pub guest_requested: Option<Quantity> = "guestRequested",
        pub memory_overhead: Option<Quantity> = "memoryOverhead",
    }
}

words! {
    /// Where the life of an instance stands; empty at first.
    #[allow(missing_docs)]
    pub enum Phase {
        Pending = "Pending",
        Scheduling = "Scheduling",
        Scheduled = "Scheduled",
        Running = "Running",
        Succeeded = "Succeeded",
        Failed = "Failed",
        WaitingForSync = "WaitingForSync",
        Unknown = "Unknown",
    }
}

words! {
    /// What a condition is about.
    #[allow(missing_docs)]
    pub enum ConditionType {
        Ready = "Ready",
        Provisioning = "Provisioning",
        Synchronized = "Synchronized",
        Paused = "Paused",
        AgentConnected = "AgentConnected",
        AccessCredentialsSynchronized = "AccessCredentialsSynchronized",
        AgentVersionNotSupported = "AgentVersionNotSupported",
        LiveMigratable = "LiveMigratable",
        StorageLiveMigratable = "StorageLiveMigratable",
        HotVcpuChange = "HotVCPUChange",
        HotMemoryChange = "HotMemoryChange",
        VolumesChange = "VolumesChange",
        DataVolumesReady = "DataVolumesReady",
        MigrationRequired = "MigrationRequired",
        EvictionRequested = "EvictionRequested",
        SoftwareEmulation = "SoftwareEmulation",
        DecentralizedLiveMigrationFailure = "DecentralizedLiveMigrationFailure",
        PodScheduled = "PodScheduled",
    }
}

words! {
    /// How the disks go along.
    #[allow(missing_docs)]
    pub enum MigrationMethod {
        BlockMigration = "BlockMigration",
        LiveMigration = "LiveMigration",
    }
}

words! {
    /// How the two launchers speak.
    #[allow(missing_docs)]
    pub enum MigrationTransport {
        Unix = "Unix",
    }
}

words! {
    /// Whether changes are tracked.
    #[allow(missing_docs)]
    pub enum ChangedBlockTrackingState {
        PendingRestart = "PendingRestart",
        Initializing = "Initializing",
        Enabled = "Enabled",
        Disabled = "Disabled",
        IncrementalBackupFeatureGateDisabled = "IncrementalBackupFeatureGateDisabled",
    }
}
