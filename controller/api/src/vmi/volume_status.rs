//! How it is with its volumes.

use crate::quantity::Quantity;
use crate::vmi::Checksum;
use crate::{object, words};
use std::collections::BTreeMap;

object! {
    /// A volume that is moved.
    pub struct MigratedVolume {
        /// The volume.
        pub volume_name: String = "volumeName",
        /// The claim it comes from.
        pub source_pvc_info: Option<ClaimInfo> = "sourcePVCInfo",
        /// The claim it goes to.
        pub destination_pvc_info: Option<ClaimInfo> = "destinationPVCInfo",
    }
}

object! {
    /// A claim as it is.
    pub struct ClaimInfo {
        /// The claim's name.
        pub claim_name: Option<String> = "claimName",
        /// Who may use it at once.
        pub access_modes: Vec<String> = "accessModes",
        /// `Filesystem` or `Block`.
        pub volume_mode: Option<String> = "volumeMode",
        /// How much it holds; the key is `storage`.
        pub capacity: BTreeMap<String, Quantity> = "capacity",
        /// How much was asked for; the key is `storage`.
        pub requests: BTreeMap<String, Quantity> = "requests",
        /// All of its blocks are there.
        pub preallocated: Option<bool> = "preallocated",
        /// Which part of it the file system takes: a number from 0 to 1 as text.
        pub filesystem_overhead: Option<String> = "filesystemOverhead",
    }
}

object! {
    /// A volume as it is.
    pub struct VolumeStatus by "name" {
        /// Its name.
        pub name: String = "name",
        /// What the machine's definition calls it: `vda`.
        pub target: String = "target" (optional),
        /// Where it stands.
        pub phase: Option<VolumePhase> = "phase",
        /// A word for it.
        pub reason: Option<String> = "reason",
        /// A sentence for it.
        pub message: Option<String> = "message",
        /// Its claim.
        pub persistent_volume_claim_info: Option<ClaimInfo> = "persistentVolumeClaimInfo",
        /// The pod that holds it, if it came later.
        pub hotplug_volume: Option<HotplugVolumeStatus> = "hotplugVolume",
        /// Its size in bytes.
        pub size: Option<i64> = "size",
        /// The dump of memory that it holds.
        pub memory_dump_volume: Option<MemoryDumpInfo> = "memoryDumpVolume",
        /// The sum of the image's file. Deprecated.
        pub container_disk_volume: Option<Checksum> = "containerDiskVolume",
    }
}

object! {
    /// The pod that holds a volume that came later.
    pub struct HotplugVolumeStatus {
        /// The pod's name.
        pub attach_pod_name: Option<String> = "attachPodName",
        /// The pod's uid.
        pub attach_pod_uid: Option<String> = "attachPodUID",
    }
}

object! {
    /// A dump of memory.
    pub struct MemoryDumpInfo {
        /// When it began; RFC 3339.
        pub start_timestamp: Option<String> = "startTimestamp",
        /// When it ended; RFC 3339.
        pub end_timestamp: Option<String> = "endTimestamp",
        /// The claim's name.
        pub claim_name: Option<String> = "claimName",
        /// The file in the claim.
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
