//! `PersistentVolumeClaim` (PVC) of `v1`.

use crate::meta::{LabelSelector, ObjectMeta};
use crate::object;
use crate::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;

object! {
    /// PersistentVolumeClaim (PVC): a request for storage.
    pub struct PersistentVolumeClaim {
        /// API version of this object: `v1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `PersistentVolumeClaim`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the PVC: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Desired properties of the storage.
        pub spec: ClaimSpec = "spec",
        /// Observed state of the PVC.
        pub status: Option<ClaimStatus> = "status",
    }
}

object! {
    /// Desired properties of the storage of a PersistentVolumeClaim.
    pub struct ClaimSpec {
        /// Access modes of the volume: `ReadWriteOnce`, `ReadOnlyMany`, `ReadWriteMany`, `ReadWriteOncePod`.
        pub access_modes: Vec<String> = "accessModes",
        /// Label selector of the PersistentVolumes to bind. Unset: every volume qualifies.
        pub selector: Option<LabelSelector> = "selector",
        /// Requested size of the volume under the key `storage`.
        pub resources: Option<ClaimResources> = "resources",
        /// Name of the PersistentVolume to bind. Unset: chosen by Kubernetes.
        pub volume_name: Option<String> = "volumeName",
        /// Name of the StorageClass. Empty: no class. Unset: the default StorageClass of the cluster.
        pub storage_class_name: Option<String> = "storageClassName",
        /// Volume mode: `Filesystem` or `Block`. Default: `Filesystem`.
        pub volume_mode: Option<String> = "volumeMode",
        /// Object to populate the volume from: a PersistentVolumeClaim or a VolumeSnapshot.
        pub data_source: Option<DataReference> = "dataSource",
        /// Object of any kind to populate the volume from.
        pub data_source_ref: Option<DataReference> = "dataSourceRef",
        /// Name of the VolumeAttributesClass of the volume. Unset: none.
        pub volume_attributes_class_name: Option<String> = "volumeAttributesClassName",
    }
}

object! {
    /// Size of the storage under the key `storage`.
    pub struct ClaimResources {
        /// Minimum size of the volume under the key `storage`, for example `10Gi`.
        pub requests: BTreeMap<String, Quantity> = "requests",
        /// Maximum size of the volume under the key `storage`. Unset: no limit.
        pub limits: BTreeMap<String, Quantity> = "limits",
    }
}

object! {
    /// Reference to an object to populate a volume from.
    pub struct DataReference (atomic) {
        /// API group of the object; empty for the core group.
        pub api_group: Option<String> = "apiGroup",
        /// Kind of the object, for example `PersistentVolumeClaim`.
        pub kind: String = "kind",
        /// Name of the object to populate the volume from.
        pub name: String = "name",
        /// Namespace of the object. Default: that of the PersistentVolumeClaim.
        pub namespace: Option<String> = "namespace",
    }
}

object! {
    /// Observed state of a PersistentVolumeClaim.
    pub struct ClaimStatus {
        /// Phase of the PVC: `Pending`, `Bound` or `Lost`.
        pub phase: Option<String> = "phase",
        /// Access modes of the bound volume.
        pub access_modes: Vec<String> = "accessModes",
        /// Capacity of the bound volume under the key `storage`.
        pub capacity: BTreeMap<String, Quantity> = "capacity",
        /// Conditions of the PVC, kept as read.
        pub conditions: Vec<Value> = "conditions",
    }
}

/// API group of VolumeSnapshots.
const SNAPSHOT_GROUP: &str = "snapshot.storage.k8s.io";

impl DataReference {
    /// True if both name one object. An API group or a namespace that is empty is none.
    pub fn names_the_same(&self, other: &DataReference) -> bool {
        let whole = |one: &DataReference| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            (text(&one.api_group), one.kind.clone(), one.name.clone(), text(&one.namespace))
        };
        whole(self) == whole(other)
    }

    /// True if the API server keeps the reference as the `dataSource` of a PVC that has no `dataSourceRef`: a PVC of the core group, or
    /// a VolumeSnapshot. Any other one it drops without a word (`EnforceDataSourceBackwardsCompatibility`).
    pub fn is_kept_as_data_source(&self) -> bool {
        match self.api_group.as_deref().unwrap_or_default() {
            "" => self.kind == "PersistentVolumeClaim",
            SNAPSHOT_GROUP => self.kind == "VolumeSnapshot",
            _ => false,
        }
    }
}

impl ClaimSpec {
    /// True if the volume is a block device, not a file system.
    pub fn is_block(&self) -> bool {
        self.volume_mode.as_deref() == Some("Block")
    }

    /// The requested amount of storage.
    pub fn storage(&self) -> Option<&Quantity> {
        self.resources.as_ref()?.requests.get("storage")
    }
}
