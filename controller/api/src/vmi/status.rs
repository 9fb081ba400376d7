//! How it is with an instance.

use crate::quantity::Quantity;
use crate::vmi::{MachineType, MigratedVolume, MigrationState, VolumeStatus};
use crate::{object, words};
use std::collections::BTreeMap;

object! {
    /// Whether changes are tracked for backups.
    pub struct ChangedBlockTrackingStatus {
        /// Whether they are.
        pub state: ChangedBlockTrackingState = "state",
        /// How a backup goes.
        pub backup_status: Option<BackupStatus> = "backupStatus",
    }
}

object! {
    /// How a backup goes.
    pub struct BackupStatus {
        /// Its name.
        pub backup_name: Option<String> = "backupName",
        /// When it began; RFC 3339.
        pub start_timestamp: Option<String> = "startTimestamp",
        /// When it ended; RFC 3339.
        pub end_timestamp: Option<String> = "endTimestamp",
        /// It has ended.
        pub completed: Option<bool> = "completed",
        /// It has failed.
        pub failed: Option<bool> = "failed",
        /// A sentence for it.
        pub backup_msg: Option<String> = "backupMsg",
        /// What the next backup builds upon.
        pub checkpoint_name: Option<String> = "checkpointName",
        /// What is in it.
        pub volumes: Vec<BackupVolume> = "volumes",
        /// Whether the guest held still.
        pub quiesce_status: Option<String> = "quiesceStatus",
    }
}

object! {
    /// A volume in a backup.
    pub struct BackupVolume {
        /// The volume.
        pub volume_name: String = "volumeName",
    }
}

object! {
    /// How it is with an instance.
    pub struct Status {
        /// The node it runs on.
        pub node_name: Option<String> = "nodeName",
        /// Why it failed or waits, in a word.
        pub reason: Option<String> = "reason",
        /// What is true or false of it, by type.
        pub conditions: Vec<Condition> = "conditions",
        /// Where its life stands.
        pub phase: Option<Phase> = "phase",
        /// When each phase began.
        pub phase_transition_timestamps: Vec<PhaseTransition> = "phaseTransitionTimestamps",
        /// Its network interfaces, as the pod and the guest have them.
        pub interfaces: Vec<InterfaceStatus> = "interfaces",
        /// What system the guest runs, as its agent tells.
        pub guest_os_info: Option<GuestOsInfo> = "guestOSInfo",
        /// How a move to another node goes.
        pub migration_state: Option<MigrationState> = "migrationState",
        /// How the disks go along.
        pub migration_method: Option<MigrationMethod> = "migrationMethod",
        /// How the two launchers speak.
        pub migration_transport: Option<MigrationTransport> = "migrationTransport",
        /// The class of its pod: `Guaranteed`, `Burstable` or `BestEffort`.
        pub qos_class: Option<String> = "qosClass",
        /// The image of its pod.
        pub launcher_container_image_version: Option<String> = "launcherContainerImageVersion",
        /// The node that it must leave.
        pub evacuation_node_name: Option<String> = "evacuationNodeName",
        /// Its pods by uid, each with its node.
        pub active_pods: BTreeMap<String, String> = "activePods",
        /// Its volumes, by name.
        pub volume_status: Vec<VolumeStatus> = "volumeStatus",
        /// What a kernel boot started.
        pub kernel_boot_status: Option<KernelBootStatus> = "kernelBootStatus",
        /// `frozen` while the guest's file systems stand still.
        pub fs_freeze_status: Option<String> = "fsFreezeStatus",
        /// What the processors of its node must be like.
        pub topology_hints: Option<TopologyHints> = "topologyHints",
        /// The state of the machine that it was made from: the name of a ControllerRevision.
        pub virtual_machine_revision_name: Option<String> = "virtualMachineRevisionName",
        /// The user that QEMU runs as: 107, or 0 for root.
        pub runtime_user: u64 = "runtimeUser" (optional),
        /// Its number for sockets between host and guest.
        pub vsock_cid: Option<u32> = "VSOCKCID",
        /// The SELinux context of its processes.
        pub selinux_context: Option<String> = "selinuxContext",
        /// The board, as it was chosen.
        pub machine: Option<MachineType> = "machine",
        /// Its processors.
        pub current_cpu_topology: Option<CpuTopology> = "currentCPUTopology",
        /// Its memory.
        pub memory: Option<MemoryStatus> = "memory",
        /// Volumes that move to other claims.
        pub migrated_volumes: Vec<MigratedVolume> = "migratedVolumes",
        /// Whether changes are tracked for backups.
        pub changed_block_tracking: Option<ChangedBlockTrackingStatus> = "changedBlockTracking",
    }
}

object! {
    /// One thing that is true or false of an instance.
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
    /// When a phase began.
    pub struct PhaseTransition {
        /// The phase.
        pub phase: Option<Phase> = "phase",
        /// When it began; RFC 3339.
        pub phase_transition_timestamp: Option<String> = "phaseTransitionTimestamp",
    }
}

object! {
    /// An interface as it is.
    pub struct InterfaceStatus {
        /// Its first address.
        pub ip_address: Option<String> = "ipAddress",
        /// Its MAC address.
        pub mac: Option<String> = "mac",
        /// Its name in the spec; none, if only the guest knows it.
        pub name: Option<String> = "name",
        /// Its addresses.
        pub ip_addresses: Vec<String> = "ipAddresses",
        /// What the pod calls it.
        pub pod_interface_name: Option<String> = "podInterfaceName",
        /// What the guest calls it.
        pub interface_name: Option<String> = "interfaceName",
        /// Who told: `domain`, `guest-agent`, `multus-status`, joined by commas.
        pub info_source: Option<String> = "infoSource",
        /// How many queues it has.
        pub queue_count: Option<i64> = "queueCount",
        /// Whether the cable is plugged in: `up` or `down`.
        pub link_state: Option<String> = "linkState",
    }
}

object! {
    /// What system the guest runs.
    pub struct GuestOsInfo {
        /// The system's name.
        pub name: Option<String> = "name",
        /// The kernel's release.
        pub kernel_release: Option<String> = "kernelRelease",
        /// The system's version.
        pub version: Option<String> = "version",
        /// The system's name and version, for people.
        pub pretty_name: Option<String> = "prettyName",
        /// The system's version, for programs.
        pub version_id: Option<String> = "versionId",
        /// The kernel's build.
        pub kernel_version: Option<String> = "kernelVersion",
        /// The processor's architecture.
        pub machine: Option<String> = "machine",
        /// The system's name, for programs.
        pub id: Option<String> = "id",
    }
}

object! {
    /// What a kernel boot started.
    pub struct KernelBootStatus {
        /// The kernel.
        pub kernel_info: Option<Checksum> = "kernelInfo",
        /// The initial file system.
        pub initrd_info: Option<Checksum> = "initrdInfo",
    }
}

object! {
    /// The sum of a file.
    pub struct Checksum {
        /// CRC-32.
        pub checksum: Option<u32> = "checksum",
    }
}

object! {
    /// What the processors of the node are like.
    pub struct TopologyHints {
        /// The frequency of the time stamp counter in Hz.
        pub tsc_frequency: Option<i64> = "tscFrequency",
    }
}

object! {
    /// Processors as they are.
    pub struct CpuTopology {
        /// In each socket.
        pub cores: Option<u32> = "cores",
        /// How many.
        pub sockets: Option<u32> = "sockets",
        /// In each core.
        pub threads: Option<u32> = "threads",
    }
}

object! {
    /// Memory as it is.
    pub struct MemoryStatus {
        /// What the guest had at first.
        pub guest_at_boot: Option<Quantity> = "guestAtBoot",
        /// What it has.
        pub guest_current: Option<Quantity> = "guestCurrent",
        /// What it is to have.
        pub guest_requested: Option<Quantity> = "guestRequested",
        /// What runs beside it.
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
