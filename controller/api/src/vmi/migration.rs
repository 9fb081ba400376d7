//! How a move to another node goes.

use crate::quantity::Quantity;
use crate::{object, words};
use std::collections::BTreeMap;

object! {
    /// How a move to another node goes.
    pub struct MigrationState {
        /// When it began; RFC 3339.
        pub start_timestamp: Option<String> = "startTimestamp",
        /// When it ended; RFC 3339.
        pub end_timestamp: Option<String> = "endTimestamp",
        /// When the machine was ready on the other side; RFC 3339.
        pub target_node_domain_ready_timestamp: Option<String> = "targetNodeDomainReadyTimestamp",
        /// The machine has been seen on the other side.
        pub target_node_domain_detected: Option<bool> = "targetNodeDomainDetected",
        /// Where the other side is reached.
        pub target_node_address: Option<String> = "targetNodeAddress",
        /// The ports of the other side, and what each is for.
        pub target_direct_migration_node_ports: BTreeMap<String, i64> = "targetDirectMigrationNodePorts",
        /// The node it goes to.
        pub target_node: Option<String> = "targetNode",
        /// The pod it goes to.
        pub target_pod: Option<String> = "targetPod",
        /// The pod that holds its added volumes on the other side.
        pub target_attachment_pod_uid: Option<String> = "targetAttachmentPodUID",
        /// The node it comes from.
        pub source_node: Option<String> = "sourceNode",
        /// The pod it comes from.
        pub source_pod: Option<String> = "sourcePod",
        /// It has ended.
        pub completed: Option<bool> = "completed",
        /// It has failed.
        pub failed: Option<bool> = "failed",
        /// It is to be called off.
        pub abort_requested: Option<bool> = "abortRequested",
        /// How calling it off goes.
        pub abort_status: Option<AbortStatus> = "abortStatus",
        /// Why it failed, as a sentence.
        pub failure_reason: Option<String> = "failureReason",
        /// The request that it carries out.
        pub migration_uid: Option<String> = "migrationUid",
        /// When the processors change sides.
        pub mode: Option<MigrationMode> = "mode",
        /// The policy it follows.
        pub migration_policy_name: Option<String> = "migrationPolicyName",
        /// How it is done.
        pub migration_configuration: Option<MigrationConfiguration> = "migrationConfiguration",
        /// The processors of the other side that are its own.
        pub target_cpu_set: Vec<i64> = "targetCPUSet",
        /// How the processors and the memory of the other side are laid out, as JSON.
        pub target_node_topology: Option<String> = "targetNodeTopology",
        /// The claim with what outlives the machine beside its disks, on this side.
        pub source_persistent_state_pvc_name: Option<String> = "sourcePersistentStatePVCName",
        /// The same on the other side.
        pub target_persistent_state_pvc_name: Option<String> = "targetPersistentStatePVCName",
        /// The side that it comes from.
        pub source_state: Option<MigrationSource> = "sourceState",
        /// The side that it goes to.
        pub target_state: Option<MigrationTarget> = "targetState",
        /// The network it uses.
        pub migration_network_type: Option<MigrationNetwork> = "migrationNetworkType",
        /// The memory that runs beside the guest on the other side.
        pub target_memory_overhead: Option<Quantity> = "targetMemoryOverhead",
    }
}

object! {
    /// How moves are done.
    pub struct MigrationConfiguration {
        /// The taint by which a node says that it is being emptied.
        pub node_drain_taint_key: Option<String> = "nodeDrainTaintKey",
        /// How many machines leave one node at a time.
        pub parallel_outbound_migrations_per_node: Option<i64> = "parallelOutboundMigrationsPerNode",
        /// How many machines move at a time.
        pub parallel_migrations_per_cluster: Option<i64> = "parallelMigrationsPerCluster",
        /// A guest that writes faster than its memory can be copied is slowed down.
        pub allow_auto_converge: Option<bool> = "allowAutoConverge",
        /// How many bytes a second it may take; 0 is no limit.
        pub bandwidth_per_migration: Option<Quantity> = "bandwidthPerMigration",
        /// How many seconds it may take for each GiB of memory and disk.
        pub completion_timeout_per_gib: Option<i64> = "completionTimeoutPerGiB",
        /// How many milliseconds the guest may stand still.
        pub max_downtime_ms: Option<i64> = "maxDowntimeMs",
        /// After how many seconds without progress it is called off.
        pub progress_timeout: Option<i64> = "progressTimeout",
        /// How many seconds it waits for volumes that are used beside the guest.
        pub utility_volumes_timeout: Option<i64> = "utilityVolumesTimeout",
        /// It is done although libvirt holds it for unsafe.
        pub unsafe_migration_override: Option<bool> = "unsafeMigrationOverride",
        /// The guest may run on the other side before all of its memory is there.
        pub allow_post_copy: Option<bool> = "allowPostCopy",
        /// The guest may be stopped, so that a move that takes too long ends.
        pub allow_workload_disruption: Option<bool> = "allowWorkloadDisruption",
        /// What is moved is not encrypted.
        pub disable_tls: Option<bool> = "disableTLS",
        /// The network it uses: the name of a NetworkAttachmentDefinition.
        pub network: Option<String> = "network",
        /// The other side has the same SELinux level.
        pub match_selinux_level_on_migration: Option<bool> = "matchSELinuxLevelOnMigration",
        /// What may change.
        pub experimental: Option<ExperimentalMigrationOptions> = "experimental",
    }
}

object! {
    /// How moves may be done one day.
    pub struct ExperimentalMigrationOptions {
        /// When a move counts as stuck.
        pub stall_detector: Option<StallDetectorOptions> = "stallDetector",
        /// How long the guest may stand still.
        pub downtime_tuning: Option<DowntimeTuningOptions> = "downtimeTuning",
        /// How the bytes are packed.
        pub compression: Option<Compression> = "compression",
    }
}

object! {
    /// When a move counts as stuck.
    pub struct StallDetectorOptions {
        /// By how many percent it must get better to count as progress.
        pub stall_margin: Option<i64> = "stallMargin",
        /// How much the newest figure counts in the average.
        pub ewma_alpha: Option<Quantity> = "ewmaAlpha",
        /// After how many seconds without progress it is stuck.
        pub stall_progress_timeout: Option<i64> = "stallProgressTimeout",
        /// How many seconds the change of sides may take.
        pub switchover_timeout: Option<i64> = "switchoverTimeout",
        /// How much quicker than the guest's writing the copying must be.
        pub precopy_possible_factor: Option<Quantity> = "precopyPossibleFactor",
        /// How quickly patience ends.
        pub patience_window_decay_factor: Option<Quantity> = "patienceWindowDecayFactor",
        /// It waits for a moment at which little is left.
        pub search_local_minima: Option<bool> = "searchLocalMinima",
        /// By how much the whole may take longer.
        pub completion_timeout_factor: Option<Quantity> = "completionTimeoutFactor",
    }
}

object! {
    /// How long the guest may stand still.
    pub struct DowntimeTuningOptions {
        /// At first, in milliseconds.
        pub initial_ms: Option<i64> = "initialMs",
        /// In how many steps it rises.
        pub steps: Option<i64> = "steps",
        /// After how many rounds it begins to rise.
        pub start_after_iteration: Option<i64> = "startAfterIteration",
        /// How many seconds lie between two steps.
        pub cooldown_seconds: Option<i64> = "cooldownSeconds",
    }
}

object! {
    /// The side that a move comes from.
    pub struct MigrationSource {
        /// The node.
        pub node: Option<String> = "node",
        /// The pod.
        pub pod: Option<String> = "pod",
        /// The request there.
        pub migration_uid: Option<String> = "migrationUID",
        /// The machine's name in libvirt.
        pub domain_name: Option<String> = "domainName",
        /// The namespace there.
        pub domain_namespace: Option<String> = "domainNamespace",
        /// Where the two sides agree.
        pub sync_address: Option<String> = "syncAddress",
        /// The claim with what outlives the machine beside its disks.
        pub persistent_state_pvc_name: Option<String> = "persistentStatePVCName",
        /// The SELinux context of its processes.
        pub selinux_context: Option<String> = "selinuxContext",
        /// The instance there.
        pub virtual_machine_instance_uid: Option<String> = "virtualMachineInstanceUID",
        /// Labels that its node must have.
        pub node_selectors: BTreeMap<String, String> = "nodeSelectors",
    }
}

object! {
    /// The side that a move goes to.
    pub struct MigrationTarget {
        /// The node.
        pub node: Option<String> = "node",
        /// The pod.
        pub pod: Option<String> = "pod",
        /// The request there.
        pub migration_uid: Option<String> = "migrationUID",
        /// The machine's name in libvirt.
        pub domain_name: Option<String> = "domainName",
        /// The namespace there.
        pub domain_namespace: Option<String> = "domainNamespace",
        /// Where the two sides agree.
        pub sync_address: Option<String> = "syncAddress",
        /// The claim with what outlives the machine beside its disks.
        pub persistent_state_pvc_name: Option<String> = "persistentStatePVCName",
        /// The SELinux context of its processes.
        pub selinux_context: Option<String> = "selinuxContext",
        /// The instance there.
        pub virtual_machine_instance_uid: Option<String> = "virtualMachineInstanceUID",
        /// When the machine was ready there; RFC 3339.
        pub domain_ready_timestamp: Option<String> = "domainReadyTimestamp",
        /// The machine has been seen there.
        pub domain_detected: Option<bool> = "domainDetected",
        /// Where it is reached.
        pub node_address: Option<String> = "nodeAddress",
        /// Its ports, and what each is for.
        pub direct_migration_node_ports: BTreeMap<String, i64> = "directMigrationNodePorts",
        /// The pod that holds added volumes.
        pub attachment_pod_uid: Option<String> = "attachmentPodUID",
        /// The processors that are the machine's own.
        pub cpu_set: Vec<i64> = "cpuSet",
        /// How processors and memory are laid out, as JSON.
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
