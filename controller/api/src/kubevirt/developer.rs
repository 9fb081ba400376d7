//! Gates, ratios and how much is written to logs.

use crate::object;
use crate::quantity::Quantity;
use std::collections::BTreeMap;

object! {
    /// Gates, ratios and how much is written to logs.
    pub struct Developer {
        /// Features that are not on by themselves.
        pub feature_gates: Vec<String> = "featureGates",
        /// Features that would be on by themselves.
        pub disabled_feature_gates: Vec<String> = "disabledFeatureGates",
        /// By how many percent a volume may be smaller than what was asked for; not said is 10.
        pub pvc_tolerate_less_space_up_to_percent: Option<i64> = "pvcTolerateLessSpaceUpToPercent",
        /// How many bytes of a file system volume are left free; not said is 131072.
        pub minimum_reserve_pvc_bytes: Option<u64> = "minimumReservePVCBytes",
        /// The guest's memory as percent of what its pod asks for; not said is 100.
        pub memory_overcommit: Option<i64> = "memoryOvercommit",
        /// Labels that a node must have for a machine to run on it.
        pub node_selectors: BTreeMap<String, String> = "nodeSelectors",
        /// Machines run without KVM where there is none.
        pub use_emulation: Option<bool> = "useEmulation",
        /// How many of the guests' processors share one of the node's; not said is 10.
        pub cpu_allocation_ratio: Option<i64> = "cpuAllocationRatio",
        /// The frequency of the time stamp counter, in Hz, that every node has; not said is that of the slowest.
        pub minimum_cluster_tsc_frequency: Option<i64> = "minimumClusterTSCFrequency",
        /// What looking at a container disk may cost.
        pub disk_verification: Option<DiskVerification> = "diskVerification",
        /// How much each component writes to its log.
        pub log_verbosity: Option<LogVerbosity> = "logVerbosity",
        /// Components can be asked what they spend their time on.
        pub cluster_profiler: Option<bool> = "clusterProfiler",
    }
}

object! {
    /// What looking at a container disk may cost.
    pub struct DiskVerification {
        /// Memory.
        pub memory_limit: Quantity = "memoryLimit",
    }
}

object! {
    /// How much each component writes to its log: from 0 to 10; not said is 2.
    pub struct LogVerbosity {
        /// Of virt-api.
        pub virt_api: Option<u32> = "virtAPI",
        /// Of virt-controller.
        pub virt_controller: Option<u32> = "virtController",
        /// Of virt-handler.
        pub virt_handler: Option<u32> = "virtHandler",
        /// Of virt-launcher.
        pub virt_launcher: Option<u32> = "virtLauncher",
        /// Of virt-operator.
        pub virt_operator: Option<u32> = "virtOperator",
        /// Of virt-synchronization-controller.
        pub virt_synchronization_controller: Option<u32> = "virtSynchronizationController",
        /// Of what runs on single nodes, by the node's name.
        pub node_verbosity: BTreeMap<String, u32> = "nodeVerbosity",
    }
}
