//! Observed state of the volumes of a VMI.

use crate::quantity::Quantity;
use crate::vmi::Checksum;
use crate::{object, string_enum};
use std::collections::BTreeMap;

object! {
    /// Migration of a volume from one PersistentVolumeClaim to another.
    pub struct MigratedVolume {
        /// Name of the volume to migrate.
        pub volume_name: String = "volumeName",
        /// PersistentVolumeClaim that the volume migrates from.
        pub source_pvc_info: Option<ClaimInfo> = "sourcePVCInfo",
        /// PersistentVolumeClaim that the volume migrates to.
        pub destination_pvc_info: Option<ClaimInfo> = "destinationPVCInfo",
    }
}

object! {
    /// Observed properties of a PersistentVolumeClaim.
    pub struct ClaimInfo {
        /// Name of the PersistentVolumeClaim in the namespace of the VMI.
        pub claim_name: Option<String> = "claimName",
        /// Access modes of the PersistentVolumeClaim, for example `ReadWriteOnce`.
        pub access_modes: Vec<String> = "accessModes",
        /// Volume mode of the PersistentVolumeClaim: `Filesystem` or `Block`.
        pub volume_mode: Option<String> = "volumeMode",
        /// Capacity of the bound volume in bytes under the key `storage`.
        pub capacity: BTreeMap<String, Quantity> = "capacity",
        /// Requested size of the PersistentVolumeClaim in bytes under the key `storage`.
        pub requests: BTreeMap<String, Quantity> = "requests",
        /// Preallocation of all blocks of the disk image.
        pub preallocated: Option<bool> = "preallocated",
        /// Share of the capacity that the filesystem needs for itself, from `0` to `1`.
        pub filesystem_overhead: Option<String> = "filesystemOverhead",
    }
}

object! {
    /// Observed state of a volume of the VMI.
    pub struct VolumeStatus by "name" {
        /// Name of the volume in the spec.
        pub name: String = "name",
        /// Target device of the volume in the libvirt domain, for example `vda`.
        pub target: String = "target" (optional),
        /// Phase of the attachment of a hotplugged volume.
        pub phase: Option<VolumePhase> = "phase",
        /// Reason for the phase in one word, for programs.
        pub reason: Option<String> = "reason",
        /// Message about the phase, for people.
        pub message: Option<String> = "message",
        /// PersistentVolumeClaim behind the volume.
        pub persistent_volume_claim_info: Option<ClaimInfo> = "persistentVolumeClaimInfo",
        /// Attachment pod of a hotplugged volume.
        pub hotplug_volume: Option<HotplugVolumeStatus> = "hotplugVolume",
        /// Size of the volume in bytes.
        pub size: Option<i64> = "size",
        /// Memory dump on the volume.
        pub memory_dump_volume: Option<MemoryDumpInfo> = "memoryDumpVolume",
        /// Checksum of a containerDisk image. Deprecated.
        pub container_disk_volume: Option<Checksum> = "containerDiskVolume",
    }
}

object! {
    /// Attachment pod of a hotplugged volume.
    pub struct HotplugVolumeStatus {
        /// Name of the attachment pod.
        pub attach_pod_name: Option<String> = "attachPodName",
        /// UID of the attachment pod.
        pub attach_pod_uid: Option<String> = "attachPodUID",
    }
}

object! {
    /// Memory dump on a volume.
    pub struct MemoryDumpInfo {
        /// Start time of the dump (RFC 3339).
        pub start_timestamp: Option<String> = "startTimestamp",
        /// End time of the dump (RFC 3339).
        pub end_timestamp: Option<String> = "endTimestamp",
        /// Name of the PersistentVolumeClaim with the dump.
        pub claim_name: Option<String> = "claimName",
        /// Name of the dump file on the PersistentVolumeClaim.
        pub target_file_name: Option<String> = "targetFileName",
    }
}

string_enum! {
    /// Phase of the attachment of a volume.
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
