//! State and settings of live migrations.

use crate::quantity::Quantity;
use crate::{object, string_enum};
use std::collections::BTreeMap;

object! {
    /// State of a live migration of the VMI to another node.
    pub struct MigrationState {
        /// Start time of the migration (RFC 3339).
        pub start_timestamp: Option<String> = "startTimestamp",
        /// End time of the migration (RFC 3339).
        pub end_timestamp: Option<String> = "endTimestamp",
        /// Time at which the libvirt domain was ready on the target node (RFC 3339).
        pub target_node_domain_ready_timestamp: Option<String> = "targetNodeDomainReadyTimestamp",
        /// Detection of the libvirt domain on the target node.
        pub target_node_domain_detected: Option<bool> = "targetNodeDomainDetected",
        /// Address of the target node for the migration connection.
        pub target_node_address: Option<String> = "targetNodeAddress",
        /// Ports on the target node, each with the libvirt port that it forwards to.
        pub target_direct_migration_node_ports: BTreeMap<String, i64> = "targetDirectMigrationNodePorts",
        /// Name of the target node.
        pub target_node: Option<String> = "targetNode",
        /// Name of the target launcher pod.
        pub target_pod: Option<String> = "targetPod",
        /// UID of the attachment pod with the hotplugged volumes on the target node.
        pub target_attachment_pod_uid: Option<String> = "targetAttachmentPodUID",
        /// Name of the source node.
        pub source_node: Option<String> = "sourceNode",
        /// Name of the source launcher pod.
        pub source_pod: Option<String> = "sourcePod",
        /// Completion of the migration, successful or failed.
        pub completed: Option<bool> = "completed",
        /// Failure of the completed migration.
        pub failed: Option<bool> = "failed",
        /// Request to cancel the migration.
        pub abort_requested: Option<bool> = "abortRequested",
        /// Progress of the cancellation of the migration.
        pub abort_status: Option<AbortStatus> = "abortStatus",
        /// Reason for the failure, as a sentence for people.
        pub failure_reason: Option<String> = "failureReason",
        /// UID of the VirtualMachineInstanceMigration object.
        pub migration_uid: Option<String> = "migrationUid",
        /// Mode of the migration: pre-copy, post-copy, or with a paused guest.
        pub mode: Option<MigrationMode> = "mode",
        /// Name of the MigrationPolicy that applies to the VMI.
        pub migration_policy_name: Option<String> = "migrationPolicyName",
        /// Effective settings of the migration.
        pub migration_configuration: Option<MigrationConfiguration> = "migrationConfiguration",
        /// Dedicated CPUs of the VMI on the target node.
        pub target_cpu_set: Vec<i64> = "targetCPUSet",
        /// CPU and memory topology of the target node, as JSON.
        pub target_node_topology: Option<String> = "targetNodeTopology",
        /// Name of the source PersistentVolumeClaim with the TPM and EFI state.
        pub source_persistent_state_pvc_name: Option<String> = "sourcePersistentStatePVCName",
        /// Name of the target PersistentVolumeClaim with the TPM and EFI state.
        pub target_persistent_state_pvc_name: Option<String> = "targetPersistentStatePVCName",
        /// State of the migration source.
        pub source_state: Option<MigrationSource> = "sourceState",
        /// State of the migration target.
        pub target_state: Option<MigrationTarget> = "targetState",
        /// Network that carries the migration traffic.
        pub migration_network_type: Option<MigrationNetwork> = "migrationNetworkType",
        /// Memory overhead of QEMU and the launcher on the target node.
        pub target_memory_overhead: Option<Quantity> = "targetMemoryOverhead",
        /// SHA-256 of the certificate that the source node uses for this migration only, in hex.
        pub source_certificate: Option<String> = "sourceCertificate",
        /// SHA-256 of the certificate that the target node uses for this migration only, in hex.
        pub target_certificate: Option<String> = "targetCertificate",
        /// Reason why the target node gave the migration up before the guest came, as a sentence for people.
        pub target_failure_reason: Option<String> = "targetFailureReason",
        /// Progress of the migration.
        pub progress: Option<MigrationProgress> = "progress",
    }
}

object! {
    /// Progress of a live migration, as its source sees it.
    pub struct MigrationProgress {
        /// Part of the bytes that was sent, from 0 to 100. It falls where the guest writes faster.
        pub percent: Option<i64> = "percent",
        /// Bytes of memory and copied disks.
        pub total_bytes: Option<i64> = "totalBytes",
        /// Bytes still to send.
        pub remaining_bytes: Option<i64> = "remainingBytes",
        /// Bytes sent in each second.
        pub bytes_per_second: Option<i64> = "bytesPerSecond",
        /// Bytes of memory that the guest writes in each second.
        pub dirty_bytes_per_second: Option<i64> = "dirtyBytesPerSecond",
        /// Number of the pass over the memory, from 1.
        pub iteration: Option<i64> = "iteration",
        /// Expected pause of the guest at the end in milliseconds; after the end the pause that was.
        pub downtime_ms: Option<i64> = "downtimeMs",
    }
}

object! {
    /// Settings of live migrations.
    pub struct MigrationConfiguration {
        /// Key of the taint that marks a node for draining. Default: `kubevirt.io/drain`.
        pub node_drain_taint_key: Option<String> = "nodeDrainTaintKey",
        /// Maximum number of concurrent migrations away from one node. Default: 2.
        pub parallel_outbound_migrations_per_node: Option<i64> = "parallelOutboundMigrationsPerNode",
        /// Maximum number of concurrent migrations in the cluster. Default: 5.
        pub parallel_migrations_per_cluster: Option<i64> = "parallelMigrationsPerCluster",
        /// Throttles the vCPUs of a guest that writes memory faster than the migration copies. Default:
        /// false.
        pub allow_auto_converge: Option<bool> = "allowAutoConverge",
        /// Maximum bandwidth of a migration in bytes per second; 0 means no limit. Default: 0.
        pub bandwidth_per_migration: Option<Quantity> = "bandwidthPerMigration",
        /// Seconds per GiB of memory and migrated disks before a migration is cancelled. Default: 150.
        pub completion_timeout_per_gib: Option<i64> = "completionTimeoutPerGiB",
        /// Maximum downtime of the guest in milliseconds. Unset: libvirt's default.
        pub max_downtime_ms: Option<i64> = "maxDowntimeMs",
        /// Seconds without progress before a migration is cancelled. Default: 150.
        pub progress_timeout: Option<i64> = "progressTimeout",
        /// Seconds to wait for operations on utility volumes before a migration fails.
        pub utility_volumes_timeout: Option<i64> = "utilityVolumesTimeout",
        /// Migrates even if libvirt considers the migration unsafe. Default: false.
        pub unsafe_migration_override: Option<bool> = "unsafeMigrationOverride",
        /// Switches to post-copy if pre-copy does not converge. Default: false.
        pub allow_post_copy: Option<bool> = "allowPostCopy",
        /// Pauses the guest if the migration does not converge otherwise. Default: the value of
        /// `allowPostCopy`.
        pub allow_workload_disruption: Option<bool> = "allowWorkloadDisruption",
        /// Disables the encryption of the migration traffic. Default: false.
        pub disable_tls: Option<bool> = "disableTLS",
        /// Name of the NetworkAttachmentDefinition for the migration traffic. Unset: the pod network.
        pub network: Option<String> = "network",
        /// Gives the target launcher pod the SELinux level of the source. Default: true.
        pub match_selinux_level_on_migration: Option<bool> = "matchSELinuxLevelOnMigration",
        /// Experimental settings, subject to change.
        pub experimental: Option<ExperimentalMigrationOptions> = "experimental",
    }
}

object! {
    /// Experimental settings of live migrations, subject to change.
    pub struct ExperimentalMigrationOptions {
        /// Detection of a migration that makes no progress.
        pub stall_detector: Option<StallDetectorOptions> = "stallDetector",
        /// Stepwise increase of the permitted downtime.
        pub downtime_tuning: Option<DowntimeTuningOptions> = "downtimeTuning",
        /// Compression of the migration traffic. Default: `none`.
        pub compression: Option<Compression> = "compression",
    }
}

object! {
    /// Detection of a migration that makes no progress.
    pub struct StallDetectorOptions {
        /// Improvement in percent that counts as progress.
        pub stall_margin: Option<i64> = "stallMargin",
        /// Weight of the latest sample in the moving average, from 0 to 1.
        pub ewma_alpha: Option<Quantity> = "ewmaAlpha",
        /// Seconds without progress before the migration counts as stalled.
        pub stall_progress_timeout: Option<i64> = "stallProgressTimeout",
        /// Seconds that the switchover to the target may take.
        pub switchover_timeout: Option<i64> = "switchoverTimeout",
        /// Required ratio of the transfer rate to the guest's dirty rate for pre-copy.
        pub precopy_possible_factor: Option<Quantity> = "precopyPossibleFactor",
        /// Decay factor of the waiting window for further progress.
        pub patience_window_decay_factor: Option<Quantity> = "patienceWindowDecayFactor",
        /// Waits for a moment with little remaining memory before the switchover.
        pub search_local_minima: Option<bool> = "searchLocalMinima",
        /// Factor that extends the completion timeout.
        pub completion_timeout_factor: Option<Quantity> = "completionTimeoutFactor",
    }
}

object! {
    /// Stepwise increase of the permitted downtime.
    pub struct DowntimeTuningOptions {
        /// Initial permitted downtime in milliseconds.
        pub initial_ms: Option<i64> = "initialMs",
        /// Number of steps up to the maximum downtime.
        pub steps: Option<i64> = "steps",
        /// Number of pre-copy iterations before the first increase.
        pub start_after_iteration: Option<i64> = "startAfterIteration",
        /// Seconds to wait between two increases.
        pub cooldown_seconds: Option<i64> = "cooldownSeconds",
    }
}

object! {
    /// State of the source of a live migration.
    pub struct MigrationSource {
        /// Name of the source node.
        pub node: Option<String> = "node",
        /// Name of the source launcher pod.
        pub pod: Option<String> = "pod",
        /// UID of the VirtualMachineInstanceMigration object of the source.
        pub migration_uid: Option<String> = "migrationUID",
        /// Name of the libvirt domain at the source.
        pub domain_name: Option<String> = "domainName",
        /// Namespace of the VMI at the source.
        pub domain_namespace: Option<String> = "domainNamespace",
        /// Address for the synchronization of source and target.
        pub sync_address: Option<String> = "syncAddress",
        /// Name of the source PersistentVolumeClaim with the TPM and EFI state.
        pub persistent_state_pvc_name: Option<String> = "persistentStatePVCName",
        /// SELinux context of the source launcher pod.
        pub selinux_context: Option<String> = "selinuxContext",
        /// UID of the VMI at the source.
        pub virtual_machine_instance_uid: Option<String> = "virtualMachineInstanceUID",
        /// Labels that the source requires of a node.
        pub node_selectors: BTreeMap<String, String> = "nodeSelectors",
    }
}

object! {
    /// State of the target of a live migration.
    pub struct MigrationTarget {
        /// Name of the target node.
        pub node: Option<String> = "node",
        /// Name of the target launcher pod.
        pub pod: Option<String> = "pod",
        /// UID of the VirtualMachineInstanceMigration object of the target.
        pub migration_uid: Option<String> = "migrationUID",
        /// Name of the libvirt domain at the target.
        pub domain_name: Option<String> = "domainName",
        /// Namespace of the VMI at the target.
        pub domain_namespace: Option<String> = "domainNamespace",
        /// Address for the synchronization of source and target.
        pub sync_address: Option<String> = "syncAddress",
        /// Name of the target PersistentVolumeClaim with the TPM and EFI state.
        pub persistent_state_pvc_name: Option<String> = "persistentStatePVCName",
        /// SELinux context of the target launcher pod.
        pub selinux_context: Option<String> = "selinuxContext",
        /// UID of the VMI at the target.
        pub virtual_machine_instance_uid: Option<String> = "virtualMachineInstanceUID",
        /// Time at which the libvirt domain was ready (RFC 3339).
        pub domain_ready_timestamp: Option<String> = "domainReadyTimestamp",
        /// Detection of the libvirt domain on the target node.
        pub domain_detected: Option<bool> = "domainDetected",
        /// Address of the target node for the migration connection.
        pub node_address: Option<String> = "nodeAddress",
        /// Ports on the target node, each with the libvirt port that it forwards to.
        pub direct_migration_node_ports: BTreeMap<String, i64> = "directMigrationNodePorts",
        /// UID of the attachment pod with the hotplugged volumes.
        pub attachment_pod_uid: Option<String> = "attachmentPodUID",
        /// Dedicated CPUs of the VMI on the target node.
        pub cpu_set: Vec<i64> = "cpuSet",
        /// CPU and memory topology of the target node, as JSON.
        pub node_topology: Option<String> = "nodeTopology",
    }
}

string_enum! {
    /// Progress of the cancellation of a migration.
    pub enum AbortStatus {
        Succeeded = "Succeeded",
        Failed = "Failed",
        Aborting = "Aborting",
    }
}

string_enum! {
    /// Mode of a live migration.
    pub enum MigrationMode {
        PreCopy = "PreCopy",
        PostCopy = "PostCopy",
        Paused = "Paused",
    }
}

string_enum! {
    /// Network that carries the migration traffic.
    pub enum MigrationNetwork {
        Pod = "Pod",
        Migration = "Migration",
    }
}

string_enum! {
    /// Compression of the migration traffic.
    pub enum Compression {
        None = "none",
        Zstd = "zstd",
    }
}
