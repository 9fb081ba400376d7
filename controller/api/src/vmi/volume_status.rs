//! How it is with its volumes.

use crate::quantity::Quantity;
use crate::vmi::Checksum;
use crate::{object, words};
use std::collections::BTreeMap;

object! {
    /// A volume that is moved.
    #[allow(missing_docs)]
    pub struct MigratedVolume {
        pub volume_name: String = "volumeName",
        pub source_pvc_info: Option<ClaimInfo> = "sourcePVCInfo",
        pub destination_pvc_info: Option<ClaimInfo> = "destinationPVCInfo",
    }
}

object! {
    /// A claim as it is.
    #[allow(missing_docs)]
    pub struct ClaimInfo {
        /// The claim's name.
        pub claim_name: Option<String> = "claimName",
        pub access_modes: Vec<String> = "accessModes",
        pub volume_mode: Option<String> = "volumeMode",
        pub capacity: BTreeMap<String, Quantity> = "capacity",
        pub requests: BTreeMap<String, Quantity> = "requests",
        pub preallocated: Option<bool> = "preallocated",
        pub filesystem_overhead: Option<String> = "filesystemOverhead",
    }
}

object! {
    /// A volume as it is.
    #[allow(missing_docs)]
    pub struct VolumeStatus {
        pub name: String = "name",
        pub target: String = "target",
        pub phase: Option<VolumePhase> = "phase",
        /// A word for it.
        pub reason: Option<String> = "reason",
        /// A sentence for it.
        pub message: Option<String> = "message",
        pub persistent_volume_claim_info: Option<ClaimInfo> = "persistentVolumeClaimInfo",
        pub hotplug_volume: Option<HotplugVolumeStatus> = "hotplugVolume",
        pub size: Option<i64> = "size",
        pub memory_dump_volume: Option<MemoryDumpInfo> = "memoryDumpVolume",
        pub container_disk_volume: Option<Checksum> = "containerDiskVolume",
    }
}

object! {
    /// The pod that holds a volume that came later.
    #[allow(missing_docs)]
    pub struct HotplugVolumeStatus {
        pub attach_pod_name: Option<String> = "attachPodName",
        pub attach_pod_uid: Option<String> = "attachPodUID",
    }
}

object! {
    /// A dump of memory.
    #[allow(missing_docs)]
    pub struct MemoryDumpInfo {
        /// RFC 3339.
        pub start_timestamp: Option<String> = "startTimestamp",
        /// RFC 3339.
        pub end_timestamp: Option<String> = "endTimestamp",
        /// The claim's name.
        pub claim_name: Option<String> = "claimName",
        pub target_file_name: Option<String> = "targetFileName",
    }
}

words! {
    /// Where a volume stands.
    #[allow(missing_docs)]
    pub enum VolumePhase {
        Pending = "Pending",
        Bound = "Bound",
        AttachedToNode = "AttachedToNode",
        MountedToPod = "MountedToPod",
        Ready = "Ready",
        Detaching = "Detaching",
        UnMountedFromPod = "UnMountedFromPod",
        MemoryDumpCompleted = "MemoryDumpCompleted",
        MemoryDumpInProgress = "MemoryDumpInProgress",
        MemoryDumpFailed = "MemoryDumpFailed",
    }
}
