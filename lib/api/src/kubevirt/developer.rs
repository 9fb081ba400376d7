//! Feature gates, overcommit ratios and log verbosity.

use crate::object;
use crate::quantity::Quantity;
use std::collections::BTreeMap;

object! {
    /// Feature gates, overcommit ratios and log verbosity.
    pub struct Developer {
        /// Feature gates to enable. Unset: only gates that are on by default.
        pub feature_gates: Vec<String> = "featureGates",
        /// Feature gates to disable; stronger than `featureGates`.
        pub disabled_feature_gates: Vec<String> = "disabledFeatureGates",
        /// Percentage by which a volume may be smaller than requested. Default: 10.
        pub pvc_tolerate_less_space_up_to_percent: Option<i64> = "pvcTolerateLessSpaceUpToPercent",
        /// Bytes of a filesystem volume that disk images leave free. Default: 131072.
        pub minimum_reserve_pvc_bytes: Option<u64> = "minimumReservePVCBytes",
        /// Guest memory as a percentage of the launcher pod's memory request. Default: 100.
        pub memory_overcommit: Option<i64> = "memoryOvercommit",
        /// Labels that a node must have to run VMIs. Unset: every node qualifies.
        pub node_selectors: BTreeMap<String, String> = "nodeSelectors",
        /// Permits software emulation on nodes without KVM. Default: false.
        pub use_emulation: Option<bool> = "useEmulation",
        /// Number of vCPUs per CPU of the node. Default: 10.
        pub cpu_allocation_ratio: Option<i64> = "cpuAllocationRatio",
        /// TSC frequency in Hz of guests with the CPU feature `invtsc`. Default: a frequency that most nodes
        /// support.
        pub minimum_cluster_tsc_frequency: Option<i64> = "minimumClusterTSCFrequency",
        /// Resource limit of the verification of containerDisk images.
        pub disk_verification: Option<DiskVerification> = "diskVerification",
        /// Log verbosity of the components.
        pub log_verbosity: Option<LogVerbosity> = "logVerbosity",
        /// Enables the profiler of the components. Default: false.
        pub cluster_profiler: Option<bool> = "clusterProfiler",
    }
}

object! {
    /// Resource limit of the verification of containerDisk images.
    pub struct DiskVerification {
        /// Maximum memory for the verification of a containerDisk image, for example `2000M`.
        pub memory_limit: Quantity = "memoryLimit",
    }
}

object! {
    /// Log verbosity of the components, each from 0 to 10.
    pub struct LogVerbosity {
        /// Log verbosity of virt-api, from 0 to 10. Default: 2.
        pub virt_api: Option<u32> = "virtAPI",
        /// Log verbosity of virt-controller, from 0 to 10. Default: 2.
        pub virt_controller: Option<u32> = "virtController",
        /// Log verbosity of virt-handler, from 0 to 10. Default: 2.
        pub virt_handler: Option<u32> = "virtHandler",
        /// Log verbosity of virt-launcher, from 0 to 10. Default: 2.
        pub virt_launcher: Option<u32> = "virtLauncher",
        /// Log verbosity of virt-operator, from 0 to 10. Default: 2.
        pub virt_operator: Option<u32> = "virtOperator",
        /// Log verbosity of virt-synchronization-controller, from 0 to 10. Default: 2.
        pub virt_synchronization_controller: Option<u32> = "virtSynchronizationController",
        /// Log verbosity of virt-handler on single nodes, by node name.
        pub node_verbosity: BTreeMap<String, u32> = "nodeVerbosity",
    }
}
