//! How a move to another node goes.

use crate::quantity::Quantity;
use crate::{object, words};
use std::collections::BTreeMap;

object! {
    /// How a move to another node goes.
    #[allow(missing_docs)]
    pub struct MigrationState {
        /// RFC 3339.
        pub start_timestamp: Option<String> = "startTimestamp",
        /// RFC 3339.
        pub end_timestamp: Option<String> = "endTimestamp",
        pub target_node_domain_ready_timestamp: Option<String> = "targetNodeDomainReadyTimestamp",
        pub target_node_domain_detected: Option<bool> = "targetNodeDomainDetected",
        pub target_node_address: Option<String> = "targetNodeAddress",
        pub target_direct_migration_node_ports: BTreeMap<String, i64> = "targetDirectMigrationNodePorts",
        pub target_node: Option<String> = "targetNode",
        pub target_pod: Option<String> = "targetPod",
        pub target_attachment_pod_uid: Option<String> = "targetAttachmentPodUID",
        pub source_node: Option<String> = "sourceNode",
        pub source_pod: Option<String> = "sourcePod",
        pub completed: Option<bool> = "completed",
        pub failed: Option<bool> = "failed",
        pub abort_requested: Option<bool> = "abortRequested",
        pub abort_status: Option<AbortStatus> = "abortStatus",
        pub failure_reason: Option<String> = "failureReason",
        pub migration_uid: Option<String> = "migrationUid",
        pub mode: Option<MigrationMode> = "mode",
        pub migration_policy_name: Option<String> = "migrationPolicyName",
        pub migration_configuration: Option<MigrationConfiguration> = "migrationConfiguration",
        pub target_cpu_set: Vec<i64> = "targetCPUSet",
        pub target_node_topology: Option<String> = "targetNodeTopology",
        pub source_persistent_state_pvc_name: Option<String> = "sourcePersistentStatePVCName",
        pub target_persistent_state_pvc_name: Option<String> = "targetPersistentStatePVCName",
        pub source_state: Option<MigrationSource> = "sourceState",
        pub target_state: Option<MigrationTarget> = "targetState",
        pub migration_network_type: Option<MigrationNetwork> = "migrationNetworkType",
        pub target_memory_overhead: Option<Quantity> = "targetMemoryOverhead",
    }
}

object! {
    /// How moves are done.
    #[allow(missing_docs)]
    pub struct MigrationConfiguration {
        pub node_drain_taint_key: Option<String> = "nodeDrainTaintKey",
        pub parallel_outbound_migrations_per_node: Option<i64> = "parallelOutboundMigrationsPerNode",
        pub parallel_migrations_per_cluster: Option<i64> = "parallelMigrationsPerCluster",
        pub allow_auto_converge: Option<bool> = "allowAutoConverge",
        pub bandwidth_per_migration: Option<Quantity> = "bandwidthPerMigration",
        pub completion_timeout_per_gib: Option<i64> = "completionTimeoutPerGiB",
        pub max_downtime_ms: Option<i64> = "maxDowntimeMs",
        pub progress_timeout: Option<i64> = "progressTimeout",
        pub utility_volumes_timeout: Option<i64> = "utilityVolumesTimeout",
        pub unsafe_migration_override: Option<bool> = "unsafeMigrationOverride",
        pub allow_post_copy: Option<bool> = "allowPostCopy",
        pub allow_workload_disruption: Option<bool> = "allowWorkloadDisruption",
        pub disable_tls: Option<bool> = "disableTLS",
        pub network: Option<String> = "network",
        pub match_selinux_level_on_migration: Option<bool> = "matchSELinuxLevelOnMigration",
        pub experimental: Option<ExperimentalMigrationOptions> = "experimental",
    }
}

object! {
    /// How moves may be done one day.
    #[allow(missing_docs)]
    pub struct ExperimentalMigrationOptions {
        pub stall_detector: Option<StallDetectorOptions> = "stallDetector",
        pub downtime_tuning: Option<DowntimeTuningOptions> = "downtimeTuning",
        pub compression: Option<Compression> = "compression",
    }
}

object! {
    /// When a move counts as stuck.
    #[allow(missing_docs)]
    pub struct StallDetectorOptions {
        pub stall_margin: Option<i64> = "stallMargin",
        pub ewma_alpha: Option<Quantity> = "ewmaAlpha",
        pub stall_progress_timeout: Option<i64> = "stallProgressTimeout",
        pub switchover_timeout: Option<i64> = "switchoverTimeout",
        pub precopy_possible_factor: Option<Quantity> = "precopyPossibleFactor",
        pub patience_window_decay_factor: Option<Quantity> = "patienceWindowDecayFactor",
        pub search_local_minima: Option<bool> = "searchLocalMinima",
        pub completion_timeout_factor: Option<Quantity> = "completionTimeoutFactor",
    }
}

object! {
    /// How long the guest may stand still.
    #[allow(missing_docs)]
    pub struct DowntimeTuningOptions {
        pub initial_ms: Option<i64> = "initialMs",
        pub steps: Option<i64> = "steps",
        pub start_after_iteration: Option<i64> = "startAfterIteration",
        pub cooldown_seconds: Option<i64> = "cooldownSeconds",
    }
}

object! {
    /// The side that a move comes from.
    #[allow(missing_docs)]
    pub struct MigrationSource {
        pub node: Option<String> = "node",
        pub pod: Option<String> = "pod",
        pub migration_uid: Option<String> = "migrationUID",
        pub domain_name: Option<String> = "domainName",
        pub domain_namespace: Option<String> = "domainNamespace",
        pub sync_address: Option<String> = "syncAddress",
        pub persistent_state_pvc_name: Option<String> = "persistentStatePVCName",
        pub selinux_context: Option<String> = "selinuxContext",
        pub virtual_machine_instance_uid: Option<String> = "virtualMachineInstanceUID",
        pub node_selectors: BTreeMap<String, String> = "nodeSelectors",
    }
}

object! {
    /// The side that a move goes to.
    #[allow(missing_docs)]
    pub struct MigrationTarget {
        pub node: Option<String> = "node",
        pub pod: Option<String> = "pod",
        pub migration_uid: Option<String> = "migrationUID",
        pub domain_name: Option<String> = "domainName",
        pub domain_namespace: Option<String> = "domainNamespace",
        pub sync_address: Option<String> = "syncAddress",
        pub persistent_state_pvc_name: Option<String> = "persistentStatePVCName",
        pub selinux_context: Option<String> = "selinuxContext",
        pub virtual_machine_instance_uid: Option<String> = "virtualMachineInstanceUID",
        pub domain_ready_timestamp: Option<String> = "domainReadyTimestamp",
        pub domain_detected: Option<bool> = "domainDetected",
        pub node_address: Option<String> = "nodeAddress",
        pub direct_migration_node_ports: BTreeMap<String, i64> = "directMigrationNodePorts",
        pub attachment_pod_uid: Option<String> = "attachmentPodUID",
        pub cpu_set: Vec<i64> = "cpuSet",
        pub node_topology: Option<String> = "nodeTopology",
    }
}

words! {
    /// How the end of a move that was called off goes.
    #[allow(missing_docs)]
    pub enum AbortStatus {
        Succeeded = "Succeeded",
        Failed = "Failed",
        Aborting = "Aborting",
    }
}

words! {
    /// When the processors change sides.
    #[allow(missing_docs)]
    pub enum MigrationMode {
        PreCopy = "PreCopy",
        PostCopy = "PostCopy",
        Paused = "Paused",
    }
}

words! {
    /// The network of a move.
    #[allow(missing_docs)]
    pub enum MigrationNetwork {
        Pod = "Pod",
        Migration = "Migration",
    }
}

words! {
    /// How the bytes of a move are packed.
    #[allow(missing_docs)]
    pub enum Compression {
        None = "none",
        Zstd = "zstd",
    }
}
