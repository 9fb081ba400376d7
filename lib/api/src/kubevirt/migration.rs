//! Settings of live migrations.

use crate::object;
use crate::quantity::Quantity;

object! {
    /// Settings of live migrations, unless a MigrationPolicy overrides them.
    pub struct Migrations {
        /// Key of the taint that marks a node for draining. Default: `kubevirt.io/drain`.
        pub node_drain_taint_key: Option<String> = "nodeDrainTaintKey",
        /// Maximum number of concurrent migrations away from one node. Default: 2.
        pub parallel_outbound_migrations_per_node: Option<u32> = "parallelOutboundMigrationsPerNode",
        /// Maximum number of concurrent migrations in the cluster. Default: 5.
        pub parallel_migrations_per_cluster: Option<u32> = "parallelMigrationsPerCluster",
        /// Throttles the vCPUs of a guest that writes memory faster than the migration copies. Default:
        /// false.
        pub allow_auto_converge: Option<bool> = "allowAutoConverge",
        /// Maximum bandwidth of a migration in bytes per second; 0 means no limit. Default: 0.
        pub bandwidth_per_migration: Option<Quantity> = "bandwidthPerMigration",
        /// Seconds per GiB of memory and migrated disks before a migration is cancelled. Default: 150.
        pub completion_timeout_per_gib: Option<i64> = "completionTimeoutPerGiB",
        /// Maximum downtime of the guest in milliseconds. Unset: libvirt's default.
        pub max_downtime_ms: Option<u64> = "maxDowntimeMs",
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
    }
}
