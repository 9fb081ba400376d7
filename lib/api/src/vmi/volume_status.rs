//! Observed state of the volumes of a VMI.

use crate::quantity::Quantity;
use crate::vmi::{Checksum, ClaimSource, VirtualMachineInstance, Volume};
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

impl MigratedVolume {
    /// Name of the PVC that the volume migrates from.
    pub fn source(&self) -> Option<&str> {
        self.source_pvc_info.as_ref()?.claim_name.as_deref()
    }

    /// Name of the PVC that the volume migrates to.
    pub fn destination(&self) -> Option<&str> {
        self.destination_pvc_info.as_ref()?.claim_name.as_deref()
    }

    /// Gives the volume of this name the destination in place of the source. Returns true if it had the source.
    pub fn replace_claim(&self, volumes: &mut [Volume]) -> bool {
        let (Some(source), Some(destination)) = (self.source(), self.destination()) else { return false };
        let own = volumes.iter_mut().find(|volume| volume.name == self.volume_name);
        let Some(volume) = own.filter(|volume| claim(volume) == Some(source)) else { return false };
        volume.data_volume = None;
        let claim_name = destination.to_owned();
        volume.persistent_volume_claim = Some(ClaimSource { claim_name, ..ClaimSource::default() });
        true
    }

    /// True if the volume of this name has the destination.
    pub fn has_destination(&self, volumes: &[Volume]) -> bool {
        let own = volumes.iter().find(|volume| volume.name == self.volume_name);
        self.destination().is_some() && own.and_then(claim) == self.destination()
    }
}

/// The PVC of a volume that a guest writes to: a `persistentVolumeClaim` or a `dataVolume`.
fn claim(volume: &Volume) -> Option<&str> {
    let of_volume = volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.as_str());
    of_volume.or_else(|| volume.data_volume.as_ref().map(|data| data.name.as_str()))
}

impl VirtualMachineInstance {
    /// Gives the volumes that migrate their destinations, as the target of the migration has them.
    pub fn replace_migrated_claims(&mut self) {
        let Some(status) = &mut self.status else { return };
        for migrated in &status.migrated_volumes {
            if !migrated.replace_claim(&mut self.spec.volumes) {
                continue;
            }
            let known = status.volume_status.iter_mut().find(|known| known.name == migrated.volume_name);
            if let Some(known) = known {
                known.persistent_volume_claim_info.clone_from(&migrated.destination_pvc_info);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn replaced(volume: &Value) -> (bool, Value) {
        let info = |name: &str| json!({"claimName": name});
        let migrated =
            json!({"volumeName": "a", "sourcePVCInfo": info("old"), "destinationPVCInfo": info("new")});
        let migrated: MigratedVolume = crate::wire::read(migrated).unwrap();
        let mut volumes = vec![crate::wire::read(volume.clone()).unwrap()];
        let is_replaced = migrated.replace_claim(&mut volumes);
        assert_eq!(is_replaced, migrated.has_destination(&volumes));
        (is_replaced, crate::wire::Wire::write(&volumes[0]))
    }

    #[test]
    fn a_volume_gets_its_destination_where_it_has_the_source() {
        let new = json!({"name": "a", "persistentVolumeClaim": {"claimName": "new"}});
        for (volume, expected) in [
            (json!({"name": "a", "persistentVolumeClaim": {"claimName": "old"}}), true),
            (json!({"name": "a", "dataVolume": {"name": "old"}}), true),
            (json!({"name": "a", "dataVolume": {"name": "other"}}), false),
            (json!({"name": "b", "dataVolume": {"name": "old"}}), false),
            (json!({"name": "a", "ephemeral": {"persistentVolumeClaim": {"claimName": "old"}}}), false),
        ] {
            let wanted = if expected { &new } else { &volume };
            assert_eq!(replaced(&volume), (expected, wanted.clone()), "{volume}");
        }
    }
}
