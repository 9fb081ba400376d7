//! How machines are moved, unless a policy says otherwise.

use crate::object;
use crate::quantity::Quantity;

object! {
    /// How machines are moved, unless a policy says otherwise.
    pub struct Migrations {
        /// The taint by which a node says that it is being emptied; not said is `kubevirt.io/drain`.
        pub node_drain_taint_key: Option<String> = "nodeDrainTaintKey",
        /// How many machines leave one node at a time; not said is 2.
        pub parallel_outbound_migrations_per_node: Option<u32> = "parallelOutboundMigrationsPerNode",
        /// How many machines move at a time; not said is 5.
        pub parallel_migrations_per_cluster: Option<u32> = "parallelMigrationsPerCluster",
        /// A guest that writes faster than its memory can be copied is slowed down.
        pub allow_auto_converge: Option<bool> = "allowAutoConverge",
        /// How many bytes a second one move may take; 0 is no limit.
        pub bandwidth_per_migration: Option<Quantity> = "bandwidthPerMigration",
        /// How many seconds a move may take for each GiB of memory and disk; not said is 150.
        pub completion_timeout_per_gib: Option<i64> = "completionTimeoutPerGiB",
        /// How many milliseconds the guest may stand still.
        pub max_downtime_ms: Option<u64> = "maxDowntimeMs",
        /// After how many seconds without progress a move is called off; not said is 150.
        pub progress_timeout: Option<i64> = "progressTimeout",
        /// How many seconds a move waits for volumes that are used beside the guest.
        pub utility_volumes_timeout: Option<i64> = "utilityVolumesTimeout",
        /// Machines move although libvirt holds it for unsafe.
        pub unsafe_migration_override: Option<bool> = "unsafeMigrationOverride",
        /// The guest may run on the other side before all of its memory is there.
        pub allow_post_copy: Option<bool> = "allowPostCopy",
        /// The guest may be stopped, so that a move that takes too long ends.
        pub allow_workload_disruption: Option<bool> = "allowWorkloadDisruption",
        /// What is moved is not encrypted.
        pub disable_tls: Option<bool> = "disableTLS",
        /// The network that moves use: the name of a NetworkAttachmentDefinition; not said is the pods'.
        pub network: Option<String> = "network",
        /// The other side has the same SELinux level; not said is yes.
        pub match_selinux_level_on_migration: Option<bool> = "matchSELinuxLevelOnMigration",
    }
}
