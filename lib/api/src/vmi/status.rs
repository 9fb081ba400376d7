//! Observed state of a VMI.

use crate::condition::ConditionKind;
use crate::quantity::Quantity;
use crate::vmi::{DeviceStatus, MachineType, MigratedVolume, MigrationState, VolumeStatus};
use crate::{object, string_enum};
use std::collections::BTreeMap;

object! {
    /// Changed block tracking (CBT) for incremental backups.
    pub struct ChangedBlockTrackingStatus {
        /// State of changed block tracking; empty until first evaluated.
        pub state: ChangedBlockTrackingState = "state",
        /// Status of the running or latest backup.
        pub backup_status: Option<BackupStatus> = "backupStatus",
    }
}

object! {
    /// Status of a backup of the VMI.
    pub struct BackupStatus {
        /// Name of the VirtualMachineBackup object.
        pub backup_name: Option<String> = "backupName",
        /// Start time of the backup (RFC 3339).
        pub start_timestamp: Option<String> = "startTimestamp",
        /// End time of the backup (RFC 3339).
        pub end_timestamp: Option<String> = "endTimestamp",
        /// Completion of the backup, successful or failed.
        pub completed: Option<bool> = "completed",
        /// Failure of the completed backup.
        pub failed: Option<bool> = "failed",
        /// Message about the backup, for people.
        pub backup_msg: Option<String> = "backupMsg",
        /// Name of the checkpoint that the next incremental backup starts from.
        pub checkpoint_name: Option<String> = "checkpointName",
        /// Volumes that the backup contains.
        pub volumes: Vec<BackupVolume> = "volumes",
        /// Result of freezing the guest filesystems for the backup.
        pub quiesce_status: Option<String> = "quiesceStatus",
    }
}

object! {
    /// Volume in a backup.
    pub struct BackupVolume {
        /// Name of the volume in the spec of the VMI.
        pub volume_name: String = "volumeName",
    }
}

object! {
    /// Observed state of a VirtualMachineInstance.
    pub struct Status {
        /// Name of the node that runs the VMI.
        pub node_name: Option<String> = "nodeName",
        /// Reason for a failure or a delay in one word, for programs.
        pub reason: Option<String> = "reason",
        /// Conditions of the VMI, for example Ready and Paused, one per type.
        pub conditions: Vec<Condition> = "conditions",
        /// Phase of the VMI's life, from Pending to Succeeded or Failed.
        pub phase: Option<Phase> = "phase",
        /// Start times of the phases of the VMI.
        pub phase_transition_timestamps: Vec<PhaseTransition> = "phaseTransitionTimestamps",
        /// Network interfaces of the VMI as seen by the pod and the guest agent.
        pub interfaces: Vec<InterfaceStatus> = "interfaces",
        /// Operating system of the guest as reported by the guest agent.
        pub guest_os_info: Option<GuestOsInfo> = "guestOSInfo",
        /// State of the running or latest live migration.
        pub migration_state: Option<MigrationState> = "migrationState",
        /// Method of a live migration: with the disks (`BlockMigration`) or without (`LiveMigration`).
        pub migration_method: Option<MigrationMethod> = "migrationMethod",
        /// Transport between the launchers of a live migration.
        pub migration_transport: Option<MigrationTransport> = "migrationTransport",
        /// Quality of service class of the launcher pod: `Guaranteed`, `Burstable` or `BestEffort`.
        pub qos_class: Option<String> = "qosClass",
        /// Image of the launcher container in the launcher pod.
        pub launcher_container_image_version: Option<String> = "launcherContainerImageVersion",
        /// Name of the node that the VMI must leave, for example for a node drain.
        pub evacuation_node_name: Option<String> = "evacuationNodeName",
        /// Launcher pods of the VMI: node name by pod UID.
        pub active_pods: BTreeMap<String, String> = "activePods",
        /// Observed state of each volume of the VMI.
        pub volume_status: Vec<VolumeStatus> = "volumeStatus",
        /// Checksums of the kernel and initrd of a direct kernel boot.
        pub kernel_boot_status: Option<KernelBootStatus> = "kernelBootStatus",
        /// Freeze state of the guest filesystems: `frozen`, or unset if not frozen.
        pub fs_freeze_status: Option<String> = "fsFreezeStatus",
        /// CPU requirements of the VMI for the choice of a node.
        pub topology_hints: Option<TopologyHints> = "topologyHints",
        /// Name of the ControllerRevision with the VM spec that this VMI was created from.
        pub virtual_machine_revision_name: Option<String> = "virtualMachineRevisionName",
        /// User ID of the QEMU process: 107, or 0 for root.
        pub runtime_user: u64 = "runtimeUser" (optional),
        /// VSOCK context ID (CID) of the guest.
        pub vsock_cid: Option<u32> = "VSOCKCID",
        /// SELinux context of the launcher pod's processes.
        pub selinux_context: Option<String> = "selinuxContext",
        /// QEMU machine type that libvirt resolved.
        pub machine: Option<MachineType> = "machine",
        /// CPU topology of the running guest.
        pub current_cpu_topology: Option<CpuTopology> = "currentCPUTopology",
        /// Memory of the running guest.
        pub memory: Option<MemoryStatus> = "memory",
        /// Volumes that migrate to other PersistentVolumeClaims.
        pub migrated_volumes: Vec<MigratedVolume> = "migratedVolumes",
        /// Changed block tracking (CBT) for incremental backups.
        pub changed_block_tracking: Option<ChangedBlockTrackingStatus> = "changedBlockTracking",
        /// Devices of the node that ResourceClaims allocate to the VMI.
        pub device_status: Option<DeviceStatus> = "deviceStatus",
    }
}

/// Condition of the VMI, for example Ready.
pub type Condition = crate::condition::Condition<ConditionType>;

impl ConditionKind for ConditionType {
    const DESCRIPTION: &'static str = "Condition of the VMI, for example Ready.";
}

object! {
    /// Start time of a phase of the VMI.
    pub struct PhaseTransition {
        /// Phase that the VMI entered.
        pub phase: Option<Phase> = "phase",
        /// Time at which the phase began (RFC 3339).
        pub phase_transition_timestamp: Option<String> = "phaseTransitionTimestamp",
    }
}

object! {
    /// Network interface of the VMI as seen by the pod and the guest agent.
    pub struct InterfaceStatus {
        /// Primary IP address of the interface.
        pub ip_address: Option<String> = "ipAddress",
        /// MAC address of the interface in the guest.
        pub mac: Option<String> = "mac",
        /// Name of the interface in the spec. Unset: the interface is known to the guest only.
        pub name: Option<String> = "name",
        /// IP addresses of the interface, the primary one first.
        pub ip_addresses: Vec<String> = "ipAddresses",
        /// Name of the interface in the launcher pod.
        pub pod_interface_name: Option<String> = "podInterfaceName",
        /// Name of the interface in the guest, for example `eth0`.
        pub interface_name: Option<String> = "interfaceName",
        /// Sources of this entry, separated by commas: `domain`, `guest-agent`, `multus-status`.
        pub info_source: Option<String> = "infoSource",
        /// Number of queues of the interface.
        pub queue_count: Option<i64> = "queueCount",
        /// Link state of the interface: `up` or `down`.
        pub link_state: Option<String> = "linkState",
    }
}

object! {
    /// Operating system of the guest as reported by the guest agent.
    pub struct GuestOsInfo {
        /// Name of the operating system, for example `Debian GNU/Linux`.
        pub name: Option<String> = "name",
        /// Release of the guest kernel, for example `6.1.0-13-cloud-amd64`.
        pub kernel_release: Option<String> = "kernelRelease",
        /// Version of the operating system, for people.
        pub version: Option<String> = "version",
        /// Name and version of the operating system, for people.
        pub pretty_name: Option<String> = "prettyName",
        /// Version of the operating system, for programs.
        pub version_id: Option<String> = "versionId",
        /// Build version of the guest kernel.
        pub kernel_version: Option<String> = "kernelVersion",
        /// Hardware architecture of the guest, for example `x86_64`.
        pub machine: Option<String> = "machine",
        /// ID of the operating system, for programs, for example `debian`.
        pub id: Option<String> = "id",
    }
}

object! {
    /// Checksums of the files of a direct kernel boot.
    pub struct KernelBootStatus {
        /// Checksum of the kernel file.
        pub kernel_info: Option<Checksum> = "kernelInfo",
        /// Checksum of the initrd file.
        pub initrd_info: Option<Checksum> = "initrdInfo",
    }
}

object! {
    /// CRC-32 checksum of a file.
    pub struct Checksum {
        /// CRC-32 checksum of the file.
        pub checksum: Option<u32> = "checksum",
    }
}

object! {
    /// CPU requirements of the VMI for the choice of a node.
    pub struct TopologyHints {
        /// Frequency of the time stamp counter (TSC) in Hz.
        pub tsc_frequency: Option<i64> = "tscFrequency",
    }
}

object! {
    /// CPU topology of the running guest.
    pub struct CpuTopology {
        /// Number of cores per socket.
        pub cores: Option<u32> = "cores",
        /// Number of CPU sockets.
        pub sockets: Option<u32> = "sockets",
        /// Number of threads per core.
        pub threads: Option<u32> = "threads",
    }
}

object! {
    /// Memory of the running guest.
    pub struct MemoryStatus {
        /// Size of the guest memory at boot.
        pub guest_at_boot: Option<Quantity> = "guestAtBoot",
        /// Current size of the guest memory.
        pub guest_current: Option<Quantity> = "guestCurrent",
        /// Requested size of the guest memory.
        pub guest_requested: Option<Quantity> = "guestRequested",
        /// Memory overhead of QEMU and the launcher beyond the guest memory.
        pub memory_overhead: Option<Quantity> = "memoryOverhead",
    }
}

string_enum! {
    /// Phase of a VMI's life; empty at first.
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

string_enum! {
    /// Type of a VMI condition.
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

string_enum! {
    /// Method of a live migration.
    pub enum MigrationMethod {
        BlockMigration = "BlockMigration",
        LiveMigration = "LiveMigration",
    }
}

string_enum! {
    /// Transport between the launchers of a live migration.
    pub enum MigrationTransport {
        Unix = "Unix",
    }
}

string_enum! {
    /// State of changed block tracking.
    pub enum ChangedBlockTrackingState {
        PendingRestart = "PendingRestart",
        Initializing = "Initializing",
        Enabled = "Enabled",
        Disabled = "Disabled",
        IncrementalBackupFeatureGateDisabled = "IncrementalBackupFeatureGateDisabled",
    }
}
