//! `StorageProfile`: capabilities of the volumes of a StorageClass. It has the name of the class.

use crate::cdi::Condition;
use crate::meta::ObjectMeta;
use crate::{object, string_enum};

object! {
    /// StorageProfile: access modes, volume modes and clone strategy of the StorageClass with the same name.
    pub struct StorageProfile {
        /// API version of this object: `cdi.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `StorageProfile`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the StorageProfile. The StorageClass has the same name.
        pub metadata: ObjectMeta = "metadata",
        /// Properties set by the administrator of the cluster; each overrides the detected one.
        pub spec: StorageProfileSpec = "spec",
        /// Properties in use, written by the control plane.
        pub status: Option<StorageProfileStatus> = "status",
    }
}

object! {
    /// Properties set by the administrator of the cluster; each overrides the detected one.
    pub struct StorageProfileSpec {
        /// Preferred strategy for clones. Unset: the one known for the provisioner.
        pub clone_strategy: Option<CloneStrategy> = "cloneStrategy",
        /// Combinations of access modes and volume mode in order of preference; at most 8. Unset: those known
        /// for the provisioner.
        pub claim_property_sets: Vec<ClaimPropertySet> = "claimPropertySets",
        /// Format of the images that a DataImportCron keeps. Without effect: every image is kept as a PVC.
        pub data_import_cron_source_format: Option<SourceFormat> = "dataImportCronSourceFormat",
        /// Name of the VolumeSnapshotClass for restores of VolumeSnapshots. Unset: no VolumeSnapshot is
        /// restored.
        pub snapshot_class: Option<String> = "snapshotClass",
    }
}

object! {
    /// Properties in use: those of the spec, else those known for the provisioner.
    pub struct StorageProfileStatus {
        /// Name of the StorageClass that the properties are of.
        pub storage_class: Option<String> = "storageClass",
        /// Provisioner of the StorageClass, for example `ebs.csi.aws.com`.
        pub provisioner: Option<String> = "provisioner",
        /// Preferred strategy for clones of PVCs.
        pub clone_strategy: Option<CloneStrategy> = "cloneStrategy",
        /// Combinations of access modes and volume mode in order of preference.
        pub claim_property_sets: Vec<ClaimPropertySet> = "claimPropertySets",
        /// Format of the images that a DataImportCron keeps.
        pub data_import_cron_source_format: Option<SourceFormat> = "dataImportCronSourceFormat",
        /// Name of the VolumeSnapshotClass for clones by snapshot.
        pub snapshot_class: Option<String> = "snapshotClass",
        /// Conditions of the StorageProfile: `Recognized`.
        pub conditions: Vec<Condition> = "conditions",
    }
}

object! {
    /// Combination of access modes and a volume mode that the StorageClass can provide.
    pub struct ClaimPropertySet {
        /// Access modes: `ReadWriteOnce`, `ReadOnlyMany`, `ReadWriteMany`, `ReadWriteOncePod`; at most 4.
        pub access_modes: Vec<String> = "accessModes",
        /// Volume mode of the combination: `Filesystem` or `Block`.
        pub volume_mode: String = "volumeMode",
    }
}

string_enum! {
    /// Strategy for clones of PVCs.
    pub enum CloneStrategy {
        /// Copy of the bytes between two pods.
        Copy = "copy",
        /// Snapshot of the source, restored into the new PVC.
        Snapshot = "snapshot",
        /// Clone by the CSI driver.
        CsiClone = "csi-clone",
    }
}

string_enum! {
    /// Format of the images that a DataImportCron keeps.
    pub enum SourceFormat {
        /// VolumeSnapshot of the imported PVC.
        Snapshot = "snapshot",
        /// Imported PVC itself.
        Pvc = "pvc",
    }
}

string_enum! {
    /// Reason of the condition `Recognized`.
    pub enum RecognizedReason {
        /// Capabilities of the provisioner are known.
        RecognizedProvisioner = "RecognizedProvisioner",
        /// Capabilities of the provisioner are unknown.
        UnrecognizedProvisioner = "UnrecognizedProvisioner",
        /// Capabilities depend on parameters of the StorageClass that are unknown.
        UnrecognizedStorageClassParameters = "UnrecognizedStorageClassParameters",
    }
}

impl ClaimPropertySet {
    /// Sets unset access modes and an unset volume mode from the sets: from the first one, or from the first
    /// one that contains the value that is set. Values without a matching set stay as they are.
    pub fn fill(sets: &[ClaimPropertySet], access: &mut Vec<String>, volume: &mut Option<String>) {
        let fits = |set: &&ClaimPropertySet| {
            (access.is_empty() || set.access_modes.iter().any(|mode| access.contains(mode)))
                && volume.as_ref().is_none_or(|volume| set.volume_mode == *volume)
        };
        let Some(set) = sets.iter().find(fits) else { return };
        if access.is_empty() {
            access.clone_from(&set.access_modes);
        }
        if volume.is_none() {
            *volume = Some(set.volume_mode.clone());
        }
    }
}
